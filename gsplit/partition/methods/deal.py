"""Vertices dealt out like cards, the heaviest first: even parts and blocks for whole-graph training, in seconds.

Training on the whole graph multiplies by blocks of the adjacency matrix: block (i, j) has the edges from part j into
part i. What a vertex adds to a row of blocks are its in-edges, to a column its out-edges. Vertices are shuffled,
sorted by the sum of both and dealt out in a snake,

    1 2 3 4 | 4 3 2 1 | 1 2 3 4 | ...

so parts differ by one vertex at most, and by little in edges. That makes rows and columns of blocks even; where in
its row an edge lies is left to chance, so several deals are made and the one with the lightest heaviest block is
kept. The shuffle decides among equals: dealt out in the order of their ids, the neighbours of a road or a lattice
would all go to neighbouring parts. Loops are left out, because they all lie in the diagonal blocks.

One permutation of rows and columns alike is enough, where Plexus (Ranjan et al., SC 2025, section 5.1) takes two.

Legend: N vertices, E directed edges, P parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays, row_ranges
from gsplit.data.npy import forget
from gsplit.partition.methods.cuts import best_cut
from gsplit.partition.problem import Footprint, Problem

MEMORY = Footprint(per_adjacency=0, per_weighted_adjacency=4, per_vertex=64)
DEALS = 4
"""Deals that are made where nothing else is asked for."""
MOST_JUDGED = 1 << 10
"""Parts up to which deals are compared: there are P * P blocks."""
EDGES_AT_ONCE = 1 << 22


def assign(problem: Problem) -> NDArray[np.int32]:
    """Part of each vertex, int32 [N]; the same for the same seed.

    What is dealt out evenly are the weights of the vertices, or their edges where they have no weights. Edges count
    when deals are compared, by their weights where they have any.
    """
    graph, parts = problem.graph, problem.parts
    weight_N = degrees_without_loops(graph) if problem.vertex_weight is None else problem.vertex_weight

    def judge(part_N: NDArray[np.int32]) -> tuple[int]:
        return (int(block_edges(graph, part_N, part_N, parts, weight=problem.edge_weight).max()),)

    return best_cut(
        problem.cuts if parts <= MOST_JUDGED else 1,
        problem.seed,
        lambda seed: snake(weight_N, parts, seed),
        judge,
        what="deal",
        least="edges of the heaviest block:",
    )


def snake(weight_N: NDArray[np.int64], parts: int, seed: int) -> NDArray[np.int32]:
    """Part of each vertex, int32 [N]: the heaviest first, one a part and round, every second round backwards."""
    n = len(weight_N)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(n)
    order = order[np.argsort(-weight_N[order], kind="stable")]
    backwards, place = np.divmod(np.arange(n), parts)
    backwards %= 2
    part_N = np.empty(n, np.int32)
    part_N[order] = np.where(backwards, parts - 1 - place, place)
    return part_N


def degrees_without_loops(graph: GraphArrays) -> NDArray[np.int64]:
    """Edges of each vertex, in and out, without loops: int64 [N]."""
    n = graph.num_vertices
    found = np.diff(graph.indptr)
    for begin, end in row_ranges(graph.indptr, max(EDGES_AT_ONCE, n)):  # each piece costs a pass over the vertices
        sources, rows = _edges(graph, begin, end)
        found += np.bincount(sources, minlength=n)
        found[begin:end] -= 2 * np.bincount(rows[sources == rows] - begin, minlength=end - begin)
        forget(graph.indices)
    return found


def block_edges(
    graph: GraphArrays,
    row_part: NDArray[np.int32],
    column_part: NDArray[np.int32],
    parts: int,
    *,
    weight: NDArray[np.uint32] | None = None,
    loops: bool = False,
) -> NDArray[np.int64]:
    """Edges of each block, int64 [P, P]: row the part of the destination, column the part of the source.

    Args:
        graph: the graph.
        row_part: int32 [N] part of each vertex as a destination.
        column_part: int32 [N] part of each vertex as a source; the same one, unless rows and columns are permuted
            apart.
        parts: P.
        weight: uint32 [E] what each edge counts; None: 1.
        loops: whether edges from a vertex to itself count.
    """
    found = np.zeros(parts * parts, np.int64)
    for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
        sources, rows = _edges(graph, begin, end)
        block = row_part[rows].astype(np.int64) * parts + column_part[sources]
        counts = None if weight is None else weight[graph.indptr[begin] : graph.indptr[end]]
        if not loops:
            kept = sources != rows
            block, counts = block[kept], None if counts is None else counts[kept]
        found += np.bincount(block, weights=counts, minlength=parts * parts).astype(np.int64)
        forget(graph.indices)
    return found.reshape(parts, parts)


def _edges(graph: GraphArrays, begin: int, end: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sources and destinations of the in-edges of a range of vertices."""
    sources = graph.indices[graph.indptr[begin] : graph.indptr[end]]
    return sources, np.repeat(np.arange(begin, end), np.diff(graph.indptr[begin : end + 1]))
