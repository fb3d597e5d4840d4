"""Sums over edges, forward and backward: which kernels compute them; and rows that are read where they lie."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from gsplit.kernels.core import DTYPES, Core
from gsplit.kernels.library import Library
from gsplit.kernels.stored_rows import StoredRows, copied
from gsplit.kernels.sums import Edges, Kernels

__all__ = ["Edges", "Kernels", "StoredRows", "TwoWayEdges", "copied", "in_core", "kernels_for"]

_CORE = Core()
_LIBRARY = Library()


def in_core(x: Tensor) -> bool:
    """Whether the core computes on rows like ``x``: on the CPU, in a type that it has."""
    return x.device.type == "cpu" and x.dtype in DTYPES


def kernels_for(x: Tensor) -> Kernels:
    """What sums rows like ``x``: the core where it can, PyTorch elsewhere."""
    return _CORE if in_core(x) else _LIBRARY


class TwoWayEdges:
    """Edges by row and, from the first backward on, by source; autograd functions keep this, and no block.

    Args:
        edges: the edges, row by row.
        num_sources: number of all sources.
    """

    def __init__(self, edges: Edges, num_sources: int) -> None:
        self.edges, self._num_sources = edges, num_sources
        self._kernels: Kernels = _CORE if edges.indptr.device.type == "cpu" else _LIBRARY

    @cached_property
    def transposed(self) -> Edges:
        """The edges again, a row for each source; ``indices`` are the rows. Positions are unknown: for no weights."""
        return self._transposed(order=False)

    @cached_property
    def transposed_with_order(self) -> Edges:
        """The same, and ``order`` are the positions of the edges among the others."""
        return self._transposed(order=True)

    def apart(self, num_own: int, *, order: bool) -> tuple[Edges, Edges]:
        """The edges from sources below ``num_own``, and the others, as :meth:`Kernels.split`; made at each call."""
        return self._kernels.split(self.edges, num_own, order=order)

    def _transposed(self, *, order: bool) -> Edges:
        return self._kernels.transposed(self.edges, self._num_sources, order=order)
