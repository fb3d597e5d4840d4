"""Sums over edges, forward and backward: which kernels compute them."""

from __future__ import annotations

from torch import Tensor

from gsplit.kernels.core import DTYPES, Core
from gsplit.kernels.library import Library
from gsplit.kernels.sums import Edges, Kernels

__all__ = ["Edges", "Kernels", "kernels_for", "transposed"]

_CORE = Core()
_LIBRARY = Library()


def kernels_for(x: Tensor) -> Kernels:
    """What sums rows like ``x``: the core on the CPU in a type that it has, PyTorch elsewhere."""
    return _CORE if x.device.type == "cpu" and x.dtype in DTYPES else _LIBRARY


def transposed(edges: Edges, num_sources: int) -> Edges:
    """The edges of every source; see :meth:`Kernels.transposed`."""
    kernels: Kernels = _CORE if edges.indptr.device.type == "cpu" else _LIBRARY
    return kernels.transposed(edges, num_sources)
