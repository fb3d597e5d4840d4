"""Which kernels take sums over edges, and normalise rows, forward and backward; rows that are read where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor

from gsplit.device import accelerator
from gsplit.kernels.compiled import Compiled
from gsplit.kernels.compiled_norms import CompiledNorms
from gsplit.kernels.core import DTYPES, Core
from gsplit.kernels.core_norms import CoreNorms
from gsplit.kernels.library import Library
from gsplit.kernels.library_norms import LibraryNorms
from gsplit.kernels.normalising import BATCH, Normalising
from gsplit.kernels.sizes import ShapeKernels
from gsplit.kernels.stored_rows import StoredRows, copied
from gsplit.kernels.sums import SHORT, Edges, Kernels, Sums, computed_in, core_rests

__all__ = [
    "Edges",
    "Kernels",
    "StoredRows",
    "Sums",
    "TwoWayEdges",
    "computed_in",
    "copied",
    "in_core",
    "kernels_for",
    "library_alone",
    "normalising_for",
    "on_accelerator",
    "product_dtype",
]

_CORE = Core()
_LIBRARY = Library()
_COMPILED = Compiled()
_SIZES = ShapeKernels()
_CORE_NORMS = CoreNorms()
_LIBRARY_NORMS = LibraryNorms()
_COMPILED_NORMS = CompiledNorms(_COMPILED.drives)


@contextmanager
def library_alone() -> Iterator[None]:
    """Let PyTorch's operations compute everything while the block runs, on the CPU, too, as on accelerators."""
    before, core_rests[0] = core_rests[0], True
    try:
        yield
    finally:
        core_rests[0] = before


def in_core(x: Tensor) -> bool:
    """Return whether the core computes on rows like ``x``: on the CPU, in a type that it has kernels for."""
    return x.device.type == "cpu" and x.dtype in DTYPES and not core_rests[0]


def on_accelerator(x: Tensor) -> bool:
    """Return whether rows like ``x`` are on an accelerator."""
    return accelerator.is_one(x.device)


def product_dtype(x: Tensor | StoredRows) -> torch.dtype:
    """The type of what linear maps make of rows like ``x``: that of ``torch.autocast``, else their own."""
    if x.dtype not in (torch.float32, *SHORT) or x.device.type == "meta":
        return x.dtype
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def kernels_for(x: Tensor) -> Kernels:
    """Choose what sums rows like ``x``: the core where it can, a GPU's compiled kernel, or PyTorch."""
    return _CORE if in_core(x) else _elsewhere(x)


def normalising_for(x: Tensor, kind: int) -> Normalising | None:
    """Choose what normalises rows like ``x`` [n, D] in passes of its own; None: PyTorch's modules do.

    Args:
        x: the rows.
        kind: of the normalisation. Of a batch all kernels of a kind of device add up the same sums of the trainers,
            whichever of them are there.
    """
    if computed_in(x.dtype) != torch.float32 or x.dim() != 2:
        return None
    if in_core(x):
        return _CORE_NORMS
    if _COMPILED_NORMS.takes(x):
        return _COMPILED_NORMS
    on_device = accelerator.is_one(x.device) or x.is_meta or core_rests[0]
    return _LIBRARY_NORMS if kind == BATCH and on_device else None


def _elsewhere(x: Tensor) -> Kernels:
    if x.is_meta:
        return _SIZES
    return _COMPILED if _COMPILED.takes(x) else _LIBRARY


class TwoWayEdges:
    """Edges by row and, from the first backward on, by source; autograd functions keep this, and no block.

    Args:
        edges: the edges, row by row.
        num_sources: number of all sources.
        num_own_edges: number of edges from own sources, which come first; None: the device would have to be asked.
    """

    def __init__(self, edges: Edges, num_sources: int, num_own_edges: int | None = None) -> None:
        self.edges, self._num_sources, self._num_own_edges = edges, num_sources, num_own_edges
        in_core = edges.indptr.device.type == "cpu" and not core_rests[0]
        self._kernels: Kernels = _CORE if in_core else _elsewhere(edges.indptr)

    @cached_property
    def transposed(self) -> Edges:
        """The edges again, a row for each source; ``indices`` are the rows. Positions are unknown: for no weights."""
        return self._transposed(order=False)

    @cached_property
    def transposed_with_order(self) -> Edges:
        """The same, and ``order`` are the positions of the edges among the others."""
        return self._transposed(order=True)

    @property
    def parts_are_cheap(self) -> bool:
        """True where own edges and the others can be summed apart, and the host waits for no device to tell them."""
        return self._num_own_edges is not None or self.edges.indptr.device.type == "cpu"

    def apart(self, num_own: int, *, order: bool) -> tuple[Edges, Edges]:
        """The edges from own sources, those below ``num_own``, and the others, as :meth:`Kernels.split`.

        They are made at each call.
        """
        return self._kernels.split(self.edges, num_own, self._num_own_edges, order=order)

    def transposed_apart(self, num_own: int, *, order: bool) -> tuple[Edges, Edges]:
        """The transposed edges of own sources, those below ``num_own``, and of the others."""
        edges, count = self.transposed_with_order if order else self.transposed, self._num_own_edges
        own = None if count is None else (0, count)
        others = None if count is None else (count, len(edges.indices))
        return edges.from_row(0, num_own, own), edges.from_row(num_own, edges.num_rows, others)

    def _transposed(self, *, order: bool) -> Edges:
        return self._kernels.transposed(self.edges, self._num_sources, order=order)
