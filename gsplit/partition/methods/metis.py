"""METIS: multilevel k-way partitioning (Karypis and Kumar, J. Parallel Distrib. Comput. 1998), through pymetis.

One thread; the best known, and hungry: about a hundred bytes an adjacency.
"""

from __future__ import annotations

import sys

import numpy as np
import pymetis
from numpy.typing import NDArray

from gsplit.host import interruptible
from gsplit.partition.problem import Footprint, Problem, Undirected
from gsplit.starting import TERMINATED

MEMORY = Footprint(per_adjacency=105, per_weighted_adjacency=125, per_vertex=100)


def assign(problem: Problem) -> NDArray[np.int32]:
    """Part of each vertex, int32 [N]; the same for the same seed."""
    graph = Undirected.of(problem, wide=True)
    if not graph.num_vertices:
        return graph.assignment(np.empty(0, np.int32), problem.graph.num_vertices)
    part_V = part_graph(
        problem.parts,
        graph.indptr,
        graph.indices,
        graph.vertex_weight,
        graph.edge_weight,
        seed=problem.seed,
        imbalance=problem.imbalance,
        cuts=problem.cuts,
    )
    return graph.assignment(part_V, problem.graph.num_vertices)


def part_graph(
    parts: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    vertex_weight: NDArray[np.int64] | None,
    edge_weight: NDArray[np.int64] | None,
    *,
    seed: int,
    imbalance: float,
    cuts: int = 1,
) -> NDArray[np.int32]:
    """Part of each vertex of an undirected graph with V vertices, int32 [V]; the best of so many ``cuts``."""
    # Weights of another length would be read past their end, without a word.
    assert vertex_weight is None or len(vertex_weight) == len(indptr) - 1
    assert edge_weight is None or len(edge_weight) == len(indices)
    try:
        with interruptible():
            result = pymetis.part_graph(
                parts,
                pymetis.CSRAdjacency(indptr, indices),
                vweights=vertex_weight,
                eweights=edge_weight,
                recursive=False,
                options=pymetis.Options(seed=seed % 2**31, ufactor=max(1, round(1000 * imbalance)), ncuts=cuts),
            )
    except RuntimeError as error:
        # METIS sets a handler of its own with each call, which has SIGTERM until ours is back, a millisecond later.
        if "unknown exception" in str(error):
            sys.exit(TERMINATED)
        raise
    part_V = np.asarray(result.vertex_part, np.int32)
    assert len(part_V) == len(indptr) - 1
    return part_V
