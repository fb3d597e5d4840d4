"""``--words``: minimum covers of the edges between parts, of two parts and of the moves of grids.

Two parts: an edge is covered by its source's row or by a partial sum of its destination, and of the fewest such rows
and sums a trainer is sent each once (:mod:`gsplit.full.covers`). That is König's minimum, the size of a maximum
matching, which SciPy finds here beside.

A grid R x K x F: the product of block (r, k) takes rows of column k and gives sums of row r. Where what is needed
alone moves, along R go the rows that have an edge in the block, along K the sums that have one. Where edges are
covered, along R go rows of a trainer or sums of row r over them; what is left over, with an edge from each sum, is
covered again along K, where rows may go in the place of sums. Along F all rows become columns and back, as ever.

Legend: N vertices, E edges, P parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from experiments.full_graph import words
from experiments.full_graph.words import Grid
from gsplit.data import GraphArrays
from gsplit.full.covers import goes_as_row

GRIDS: dict[int, tuple[Grid, ...]] = {4: ((2, 2, 1), (2, 1, 2)), 8: ((4, 2, 1), (2, 2, 2), (4, 1, 2), (2, 1, 4))}
"""Grids of so many trainers; with R and K exchanged a symmetric graph gives the same."""


class Ends(NamedTuple):
    """Ends of edges."""

    sources: NDArray[np.int32]
    """[E] numbers of the sources."""
    destinations: NDArray[np.int32]
    """[E] numbers of the destinations."""

    def at(self, those_E: NDArray[Any]) -> Ends:
        """Those that a mask or positions say."""
        return Ends(self.sources[those_E], self.destinations[those_E])


def ends_of(graph: GraphArrays) -> Ends:
    """The ends of a graph's edges."""
    destinations = np.repeat(np.arange(graph.num_vertices, dtype=np.int32), np.diff(graph.indptr))
    return Ends(np.asarray(graph.indices, np.int32), destinations)


def covered(ends: Ends) -> int:
    """Rows and sums of a minimum cover of edges."""
    by_row = goes_as_row(*ends)
    return distinct(ends.sources[by_row]) + distinct(ends.destinations[~by_row])


def matched(ends: Ends) -> int:
    """Edges of a maximum matching, by SciPy: as many as a minimum cover has rows and sums (König)."""
    (_, source), (_, destination) = (np.unique(ids, return_inverse=True) for ids in ends)
    if not len(source):
        return 0
    pairs = csr_matrix((np.ones(len(source), bool), (source, destination)))
    return int((maximum_bipartite_matching(pairs) >= 0).sum())


def distinct(ids: NDArray[Any]) -> int:
    """Number of different ids."""
    return len(np.unique(ids))


def cover_row(name: str, graph: GraphArrays, part_N: NDArray[np.int32], parts: int) -> dict[str, Any]:
    """What parts are sent of each other for one product: needed rows, and minimum covers beside SciPy's matchings."""
    ends = ends_of(graph)
    from_E, to_E = (part_N[ids] for ids in ends)
    needed, covers, matchings = [], [], []
    for pair in range(parts**2):
        p, q = divmod(pair, parts)
        between = ends.at((to_E == p) & (from_E == q))
        if p != q and len(between.sources):
            needed.append(distinct(between.sources))
            covers.append(covered(between))
            matchings.append(matched(between))
    shares = np.array(covers) / needed
    return {
        "graph": name,
        "parts": parts,
        "needed": sum(needed),
        "covers": sum(covers),
        "of_needed": sum(covers) / sum(needed),
        "pairs": len(shares),
        "pairs_mean": float(shares.mean()),
        "pairs_most": float(shares.max()),
        "as_matched": sum(ours == theirs for ours, theirs in zip(covers, matchings, strict=True)),
    }


def grid_rows(
    name: str, graph: GraphArrays, part_N: NDArray[np.int32], of_pairs: dict[str, Any]
) -> list[dict[str, Any]]:
    """Words of a product on grids over those of 1D, n (P-1)/P: as they are, needed alone, and by covers.

    Args:
        name, graph: which.
        part_N: part of each vertex; trainer (r, k, f) has part (r K + k) F + f.
        of_pairs: the row of :func:`cover_row`.
    """
    parts, n = of_pairs["parts"], graph.num_vertices
    ends, rows = ends_of(graph), []
    for grid in GRIDS[parts]:
        features = grid[2]
        dealt = words.product(n, 1, (1, 1, features)) * features / parts  # words of a process around one product
        needed, covers = moved(ends, part_N // features, grid)
        found = {
            "dense": words.product(n, 1, grid),
            "needed": dealt + needed / parts,
            "covers": dealt + covers / parts,
            "pairs": of_pairs["covers"] / parts,
            "columns": words.product(n, 1, (1, 1, parts)),
        }
        whole = n * (parts - 1) / parts
        rows.append(
            {"graph": name, "parts": parts, "grid": "x".join(map(str, grid))}
            | {each: number / whole for each, number in found.items()}
        )
    return rows


def moved(ends: Ends, part_N: NDArray[np.int32], grid: Grid) -> tuple[int, int]:
    """Rows and sums that all trainers of one place along F receive along R and K: needed ones, and by covers."""
    (from_row, column), (row, to_column) = (np.divmod(part_N[ids], grid[1]) for ids in ends)
    block_E, needed, covers = row * grid[1] + column, 0, 0
    for block in range(grid[0] * grid[1]):
        here = np.flatnonzero(block_E == block)
        edges, (own_row, own_column) = ends.at(here), divmod(block, grid[1])
        left = edges.sources.astype(np.int64)
        for peer in set(range(grid[0])) - {own_row}:
            these = np.flatnonzero(from_row[here] == peer)
            by_row = goes_as_row(*edges.at(these))
            needed += distinct(edges.sources[these])
            covers += distinct(edges.sources[these[by_row]]) + distinct(edges.destinations[these[~by_row]])
            # What is left of a sum is one edge from it, whose source is nobody else's.
            sums = these[~by_row]
            left[sums] = len(part_N) * (1 + peer) + edges.destinations[sums]
        _, left = np.unique(left, return_inverse=True)
        for peer in set(range(grid[1])) - {own_column}:
            these = np.flatnonzero(to_column[here] == peer)
            needed += distinct(edges.destinations[these])
            covers += covered(Ends(left[these].astype(np.int32), edges.destinations[these]))
    return needed, covers
