"""Pieces of a graph: consecutive in-edges, bounded in number, also where one vertex has more than fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PIECE_EDGES = 1 << 18
"""Edges, or vertices, that are read at a time: what is computed of them takes some 20 MiB at most."""


class EdgePiece(NamedTuple):
    """Some consecutive in-edges."""

    vertices: slice
    """Destinations of the edges."""
    counts: NDArray[np.int64]
    """Number of the edges of each destination that are in this piece."""
    edges: slice
    """Positions of the edges."""
    begun: bool
    """Whether edges of the first destination were in the piece before."""


def edge_pieces(indptr: NDArray[np.integer], begin: int, end: int, at_once: int = PIECE_EDGES) -> Iterator[EdgePiece]:
    """The in-edges of the vertices ``begin .. end``, at most so many edges and so many vertices at a time."""
    vertex = begin
    edge = int(indptr[begin])
    while vertex < end:
        last = min(end, vertex + at_once)
        bounds = np.asarray(indptr[vertex : last + 1], dtype=np.int64)
        stop = min(edge + at_once, int(bounds[-1]))
        # The vertices that end within the piece, and the one that it ends in.
        whole = int(np.searchsorted(bounds, stop, side="right")) - 1
        touched = whole + int(bounds[whole] < stop)
        counts = np.minimum(bounds[1 : touched + 1], stop) - np.maximum(bounds[:touched], edge)
        yield EdgePiece(
            slice(vertex, vertex + touched), counts, slice(edge, stop), begun=bool(touched) and edge > bounds[0]
        )
        vertex, edge = vertex + whole, stop


def vertex_pieces(begin: int, end: int, at_once: int = PIECE_EDGES) -> Iterator[tuple[int, int]]:
    """Ranges of at most so many vertices."""
    for first in range(begin, end, at_once):
        yield first, min(end, first + at_once)
