"""Bytes of the tensors that are alive, and the most there were at once: what an allocator would have handed out.

Every operation comes by here (PyTorch's ``TorchDispatchMode``), in forward, backward and the optimizer. The memory of
each result is counted once, however many tensors are views of it, until nobody holds it any more: autograd, which
saves it, among them. So the peak is that of a device, but for what kernels take while they compute.

On the device ``meta`` nothing is computed and no memory taken, only shapes are known. Operations whose results have
sizes that follow from values are answered there from above (:data:`FROM_ABOVE`): nothing is left out by a mask, say.
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gsplit.units import binary

PIECE_BYTES = 512
"""Bytes that PyTorch's allocators for accelerators hand out at a time: what is asked for is rounded up."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The memory and time that a block may spend before it is ended."""

    num_bytes: int
    """Bytes of tensors at a time."""
    seconds: float
    """Seconds from the beginning of the block on."""


class LiveBytes(TorchDispatchMode):
    """Counts, while the block runs, the memory of tensors that are made in it, on one type of device.

    Args:
        kind: the type of device.
        bound: the first operation that ends beyond it raises MemoryError or TimeoutError; None: there is none.
    """

    def __init__(self, kind: str, bound: Bound | None = None) -> None:
        super().__init__()
        self._kind, self._bound, self._since_s = kind, bound, time.monotonic()
        self._held: dict[int, tuple[object, int]] = {}
        """References to memory, each with its bytes."""
        self.now = self.peak = 0

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Count tensors that were there before."""
        for part in self._parts_of(list(tensors)):
            self._count(part)

    def restart(self) -> None:
        """Forget the peak: from here on there is another one."""
        self.peak = self.now

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        answer = FROM_ABOVE.get(func) if self._kind == "meta" else None
        out = func(*args, **(kwargs or {})) if answer is None else answer(*args, **(kwargs or {}))
        given = {_storage_key(part) for part in self._parts_of((args, kwargs))}
        for part in self._parts_of(out):
            key = _storage_key(part)
            if key in self._held or key not in given:  # else it is a view of what was there before
                self._count(part)
        if self._bound is not None:
            self._check(self._bound)
        return out

    def _check(self, bound: Bound) -> None:
        if self.now > bound.num_bytes:
            raise MemoryError(f"it takes more than {binary(bound.num_bytes)} on the CPU")
        if time.monotonic() - self._since_s > bound.seconds:
            raise TimeoutError(f"it takes longer than {bound.seconds:g} s on the CPU")

    def _parts_of(self, values: Any) -> Iterator[Tensor]:
        for leaf in tree_leaves(values):
            if isinstance(leaf, Tensor) and leaf.device.type == self._kind:
                yield from _parts(leaf)

    def _count(self, part: Tensor) -> None:
        storage = part.untyped_storage()
        key, taken = _storage_key(part), -(-storage.nbytes() // PIECE_BYTES) * PIECE_BYTES
        before = self._held[key][1] if key in self._held else 0
        if taken != before:  # new, or resized
            self._held[key] = (weakref.ref(storage, partial(self._forget, key)), taken)
            self.now += taken - before
            self.peak = max(self.peak, self.now)

    def _forget(self, key: int, _: object) -> None:
        self.now -= self._held.pop(key)[1]


# PyTorch wraps the method for its compiler, which would be imported at the first operation: two seconds.
LiveBytes.__torch_dispatch__ = inspect.unwrap(LiveBytes.__torch_dispatch__)  # type: ignore[method-assign]


def _storage_key(tensor: Tensor) -> int:
    """Return what tells memory apart, as long as somebody holds it."""
    return int(tensor.untyped_storage()._cdata)


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors that a tensor keeps its values in: itself, or those of a sparse one."""
    if tensor.layout == torch.strided:
        yield tensor
    elif tensor.layout == torch.sparse_csr:
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout == torch.sparse_csc:
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    elif tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())


def _bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    return x.new_empty(minlength, dtype=torch.int64 if weights is None else weights.dtype)


def _nonzero(x: Tensor) -> Tensor:
    return x.new_empty((x.numel(), x.dim()), dtype=torch.int64)


def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """``x[indices]``, where masks leave nothing out."""
    places: list[Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            places += [index.new_empty(index.numel(), dtype=torch.int64) for _ in range(index.dim())]
        else:
            places.append(index)
    out: Tensor = torch.ops.aten.index.Tensor(x, places)
    return out


def _repeated(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    if output_size is None:
        raise NotImplementedError("the number of rows follows from values")
    return repeats.new_empty(output_size)


FROM_ABOVE: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.bincount.default: _bincount,
    torch.ops.aten.nonzero.default: _nonzero,
    torch.ops.aten.index.Tensor: _index,
    torch.ops.aten.masked_select.default: lambda x, mask: x.new_empty(max(x.numel(), mask.numel())),
    torch.ops.aten.repeat_interleave.Tensor: _repeated,
}
"""Operations whose results have sizes that only values tell, each with what is answered in its place: as much as it
may be, or, of counts, as much as was asked for."""


class Copies(TorchFunctionMode):
    """What is loaded is a copy, while the block runs: loaders say so by ``non_blocking``, and the CPU hands it on."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function, and copy what it loaded."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func is Tensor.to and kwargs.get("non_blocking") and out is args[0]:
            return out.clone()
        return out


class AsAccelerators(Copies):
    """PyTorch's functions keep on the CPU, while the block runs, what they would keep on an accelerator.

    Dropout keeps a byte of each value for backward, not a number; and what is loaded is a copy.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function, or what stands in its place."""
        if func is torch.nn.functional.dropout:
            x, share, training, inplace = _dropout(*args, **(kwargs or {}))
            if training and 0 < share < 1 and not inplace:
                return torch.native_dropout(x, share, True)[0]
        return super().__torch_function__(func, types, args, kwargs)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """The arguments of ``torch.nn.functional.dropout``, by their places."""
    return input, p, training, inplace
