"""KaMinPar: deep multilevel partitioning (Gottesbüren et al., ESA 2021), an optional dependency.

As good a cut as METIS, several threads, and a quarter of the memory. Its Python package reads graphs from files only:
the graph goes through one without a name in the folder for temporary files (TMPDIR), in ParHIP's binary format, which
is gone when the process is.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError
from gsplit.host import interruptible
from gsplit.partition.methods.cuts import best_cut
from gsplit.partition.problem import Footprint, Problem, Undirected

MEMORY = Footprint(per_adjacency=32, per_weighted_adjacency=56, per_vertex=100)

LEAST_IMBALANCE = 1e-9
"""Least imbalance that is asked for: KaMinPar refuses 0."""

# The flags of the header say what is absent or narrow.
NO_EDGE_WEIGHTS, NO_VERTEX_WEIGHTS, NARROW_IDS, NARROW_EDGE_WEIGHTS = 1, 2, 8, 32


def missing() -> str | None:
    """Return what to install where KaMinPar is not there; else None."""
    return None if importlib.util.find_spec("kaminpar") else "pip install kaminpar"


def assign(problem: Problem) -> NDArray[np.int32]:
    """Part of each vertex, int32 [N]; the same for the same seed with one thread, not with several."""
    import kaminpar

    graph = Undirected.of(problem, wide=problem.graph.num_vertices > np.iinfo(np.int32).max)
    if not graph.num_vertices:
        return graph.assignment(np.empty(0, np.int32), problem.graph.num_vertices)
    with tempfile.TemporaryFile() as file:
        try:
            write_parhip(file, graph)
            file.flush()
        except OSError as error:
            raise InputError(
                f"cannot write a temporary file to {tempfile.gettempdir()}: {error.strerror}; set TMPDIR to a folder "
                f"with {parhip_bytes(graph):,} bytes"
            ) from None
        # The adjacencies are needed in the file only from here on.
        graph = Undirected(
            indptr=graph.indptr,
            indices=np.empty(0),
            vertex_weight=graph.vertex_weight,
            edge_weight=None,
            vertices=graph.vertices,
        )
        with interruptible():
            loaded = kaminpar.load_graph(f"/proc/self/fd/{file.fileno()}", kaminpar.GraphFileFormat.PARHIP)

            def make(seed: int) -> NDArray[np.int32]:
                kaminpar.reseed(seed % 2**31)
                solver = kaminpar.KaMinPar(problem.threads, kaminpar.default_context())
                imbalance = max(problem.imbalance, LEAST_IMBALANCE)
                return np.asarray(solver.compute_partition(loaded, problem.parts, imbalance), np.int32)

            def judge(part_V: NDArray[np.int32]) -> tuple[int, int]:
                load = np.bincount(part_V, weights=graph.vertex_weight)
                limit = math.ceil((1 + problem.imbalance) * math.ceil(load.sum() / problem.parts))
                return max(0, int(load.max()) - limit), int(kaminpar.edge_cut(loaded, part_V.tolist()))

            part_V = best_cut(problem.cuts, problem.seed, make, judge)
    return graph.assignment(part_V, problem.graph.num_vertices)


def write_parhip(file: IO[bytes], graph: Undirected) -> None:
    """Write a graph in ParHIP's format.

    A header of three words, where each row begins in the file, the rows, and weights of vertices and edges.
    """
    ids = graph.indices.dtype
    flags = NARROW_IDS * (ids == np.int32) + NARROW_EDGE_WEIGHTS * (ids == np.int32)
    flags += NO_EDGE_WEIGHTS * (graph.edge_weight is None) + NO_VERTEX_WEIGHTS * (graph.vertex_weight is None)
    header = np.array([flags, graph.num_vertices, len(graph.indices)], np.uint64)
    begins = header.nbytes + graph.indptr.nbytes + graph.indptr * ids.itemsize
    arrays: list[NDArray[Any]] = [header, begins, graph.indices]
    arrays += [array for array in (graph.vertex_weight, graph.edge_weight) if array is not None]
    for array in arrays:
        file.write(array.data)


def parhip_bytes(graph: Undirected) -> int:
    """Bytes of the arrays that are written, which is all of the file but its header."""
    arrays = (graph.indptr, graph.indices, graph.vertex_weight, graph.edge_weight)
    return sum(array.nbytes for array in arrays if array is not None)
