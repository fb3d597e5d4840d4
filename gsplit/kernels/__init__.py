"""Sums over edges, forward and backward: which kernels compute them."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from gsplit.kernels.core import DTYPES, Core
from gsplit.kernels.library import Library
from gsplit.kernels.sums import Edges, Kernels

__all__ = ["Edges", "Kernels", "TwoWayEdges", "in_core", "kernels_for"]

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

    @cached_property
    def transposed(self) -> Edges:
        """The edges again, a row for each source; ``indices`` are the rows. Positions are unknown: for no weights."""
        return self._transposed(order=False)

    @cached_property
    def transposed_with_order(self) -> Edges:
        """The same, and ``order`` are the positions of the edges among the others."""
        return self._transposed(order=True)

    def _transposed(self, *, order: bool) -> Edges:
        kernels: Kernels = _CORE if self.edges.indptr.device.type == "cpu" else _LIBRARY
        return kernels.transposed(self.edges, self._num_sources, order=order)
