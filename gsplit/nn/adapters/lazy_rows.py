"""Features as models of PyG and DGL get them where they were not copied: as a tensor that is copied when it is used.

A model hands its features on to its first convolution, most often untouched. Where a block computes that convolution,
it reads the rows where they lie (:class:`~gsplit.kernels.StoredRows`); whatever else is done with them gets a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from gsplit.kernels import StoredRows

SHAPES = ("__len__", "dim", "ndim", "shape", "size")
HARMLESS = (*SHAPES, "device", "dtype", "is_cpu", "is_meta", "is_sparse", "layout", "requires_grad")
"""Attributes and methods that can be answered without values."""


class LazyRows(Tensor):
    """[n, D] rows without memory of their own, so that nobody can read wrong ones; operations get a copy.

    What Python calls comes by ``__torch_function__``, and what C++ calls by itself (``torch.tensor(x)``) by
    ``__torch_dispatch__``. Code that asks for the memory gets an error.
    """

    stored: StoredRows
    """The rows where they lie."""
    _copy: Tensor | None

    @property
    def is_copied(self) -> bool:
        """True where somebody has used the rows: the copy may have been changed since."""
        return self._copy is not None

    def copied(self) -> Tensor:
        """The rows as a tensor, [n, D]; the same one at each call."""
        if self._copy is None:
            self._copy = self.stored.copied(torch.get_num_threads())
        return self._copy

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        attribute = getattr(getattr(func, "__self__", None), "__name__", None)
        name = getattr(func, "__name__", "")
        if (attribute if name == "__get__" else name) in HARMLESS:
            return super().__torch_function__(func, types, args, kwargs or {})
        return _on_copies(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return _on_copies(func, args, kwargs)


def _on_copies(func: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    args, kwargs = tree_map_only(LazyRows, LazyRows.copied, (tuple(args), kwargs or {}))
    return func(*args, **kwargs)


def lazy(stored: StoredRows) -> LazyRows:
    """Return rows that a model may take for a tensor, and that are copied when anybody computes with them."""
    rows = torch.Tensor._make_wrapper_subclass(LazyRows, stored.shape, dtype=stored.dtype, device=stored.device)
    torch._C._set_throw_on_mutable_data_ptr(rows)
    rows.stored, rows._copy = stored, None
    return rows


def stored_or_tensor(x: Tensor) -> Tensor | StoredRows:
    """Return the stored rows of lazy ones that nobody has used yet; any other tensor as it is."""
    return x.stored if isinstance(x, LazyRows) and not x.is_copied else materialised(x)


def materialised(x: Any) -> Any:
    """Rows, or a pair of them, as tensors that have memory."""
    return tree_map_only(LazyRows, LazyRows.copied, x)
