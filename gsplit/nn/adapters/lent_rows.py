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

from gsplit.errors import InputError
from gsplit.kernels import StoredRows, copied

ANSWERED: dict[str, Callable[[StoredRows], Any]] = {
    "device": lambda rows: rows.device,
    "is_meta": lambda rows: False,
    "is_cpu": lambda rows: True,
}
"""Attributes that would tell where the tensor has its memory: nowhere."""
HARMLESS = ("dtype", "dim", "is_sparse", "layout", "ndim", "requires_grad", "shape", "size", "__len__")
"""Attributes and methods that can be answered without values."""


class LentRows(Tensor):
    """[n, D] rows without memory of their own, so that nobody can read wrong ones; operations get a copy."""

    stored: StoredRows
    """The rows where they lie."""
    on_copy: Callable[[], None]
    """Called when they are copied."""
    _copy: Tensor | None

    @property
    def is_copied(self) -> bool:
        """Whether somebody has used the rows: the copy may have been changed since."""
        return self._copy is not None

    def copied(self) -> Tensor:
        """The rows as a tensor, [n, D]; the same one at each call."""
        if self._copy is None:
            self.on_copy()
            self._copy = self.stored.copied(torch.get_num_threads())
        return self._copy

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        attribute = getattr(getattr(func, "__self__", None), "__name__", None)
        name = getattr(func, "__name__", "")
        if attribute in ANSWERED and name == "__get__":
            return ANSWERED[attribute](args[0].stored)
        if (attribute if name == "__get__" else name) in HARMLESS:
            return super().__torch_function__(func, types, args, kwargs or {})
        args, kwargs = tree_map_only(LentRows, LentRows.copied, (tuple(args), kwargs or {}))
        return func(*args, **kwargs)


def lend(stored: StoredRows, on_copy: Callable[[], None]) -> LentRows:
    """Rows that a model may take for a tensor.

    Args:
        stored: the rows where they lie.
        on_copy: called when the model, or what it calls, computes with them.
    """
    rows = torch.empty(stored.shape, dtype=stored.dtype, device="meta").as_subclass(LentRows)
    rows.stored, rows.on_copy, rows._copy = stored, on_copy, None
    return rows


def run_on_lent(
    run: Callable[[Tensor], Tensor], stored: StoredRows, on_copy: Callable[[], None], has_sent: Callable[[], bool]
) -> Tensor:
    """What a model makes of stored rows: of lent ones, or of a copy where it cannot take them so.

    What reads a tensor's memory itself (``nn.Parameter(x)``, ``torch.tensor(x)``, DLPack) fails on lent rows. The
    model begins again then, with the random numbers that it had, if nothing was sent to other trainers yet.

    Args:
        run: the model; called a second time where the first fails.
        stored: the rows where they lie.
        on_copy: called when they are copied.
        has_sent: whether rows may be on their way to other trainers.

    Raises:
        InputError: for a model that reads the memory after that.
    """
    random = torch.get_rng_state()
    rows = lend(stored, on_copy)
    try:
        return run(rows)
    except InputError:
        raise
    except Exception as error:  # whatever a library makes of a tensor without memory
        if has_sent() and "meta" in str(error).lower() and not rows.is_copied:
            raise InputError(
                f"the model reads the memory of its features itself, after a convolution ({error}); let its forward "
                "begin with x = x.clone()"
            ) from error
        if has_sent():
            raise
    on_copy()
    torch.set_rng_state(random)
    return run(copied(stored))


def uncopied(x: Tensor) -> Tensor | StoredRows:
    """The stored rows of lent ones that nobody has used yet; any other tensor as it is."""
    return x.stored if isinstance(x, LentRows) and not x.is_copied else given_back(x)


def given_back(x: Any) -> Any:
    """Rows, or a pair of them, as tensors that have memory."""
    return tree_map_only(LentRows, LentRows.copied, x)
