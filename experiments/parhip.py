"""KaMinPar, for graphs that METIS has no memory for: it reads them from a file, in ParHIP's binary format.

The file is three 64-bit words (version, N, E directed edges), N + 1 offsets, counted in bytes from the begin of the
file, and the neighbours. Bits of the version: no edge weights, no vertex weights, 32-bit offsets, 32-bit vertices.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError

NO_EDGE_WEIGHTS, NO_VERTEX_WEIGHTS, SHORT_VERTICES = 1, 2, 8
HEADER_BYTES, OFFSET_BYTES, VERTEX_BYTES = 24, 8, 4


def write_parhip(path: Path, indptr: NDArray[np.int64], indices: NDArray[Any]) -> None:
    """Write a symmetric graph with fewer than 2^31 vertices."""
    n, edges = len(indptr) - 1, len(indices)
    with path.open("wb") as file:
        np.array([NO_EDGE_WEIGHTS | NO_VERTEX_WEIGHTS | SHORT_VERTICES, n, edges], np.uint64).tofile(file)
        (indptr * VERTEX_BYTES + HEADER_BYTES + (n + 1) * OFFSET_BYTES).tofile(file)
        indices.astype(np.int32, copy=False).tofile(file)


def kaminpar(path: Path, parts: int, seed: int, threads: int = 1) -> NDArray[np.int32]:
    """[N] the part of each vertex of a ParHIP file, with parts equal in vertices; the same for the same seed on one
    thread.

    Raises:
        InputError: where KaMinPar is not installed.
    """
    try:
        import kaminpar as library
    except ImportError:
        raise InputError("--partitioner kaminpar needs the package kaminpar; install it, or take metis") from None
    library.reseed(seed)
    graph = library.load_graph(str(path), library.GraphFileFormat.PARHIP)
    partitioner = library.KaMinPar(threads, library.default_context())
    return np.array(partitioner.compute_partition(graph, parts), np.int32)


def kaminpar_in_memory(indptr: NDArray[np.int64], indices: NDArray[Any], parts: int, seed: int) -> NDArray[np.int32]:
    """:func:`kaminpar` of a graph in memory, through a temporary file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.parhip"
        write_parhip(path, indptr, indices)
        return kaminpar(path, parts, seed)
