"""What pairs are compared with when they are ranked: candidates of their sources, and pairs that do not belong.

| --evaluate-negatives | candidates of a pair (u, v) |
|---|---|
| ``given`` | those that the store has for the pair, as they are; or its list of pairs, the same for all |
| ``all`` | all vertices |
| ``uniform:K`` | K vertices, drawn by (seed, row of the pair) alone: the same in all epochs, whoever ranks the pair |
| ``auto`` | ``given`` where the store has them; else ``all`` up to 10^13 multiplications, ``uniform:1000`` above |

Given ones apart, neither u nor v is a candidate, nor what u is known to belong with: by message edges, by training
pairs and, of test pairs, by validation pairs. A drawn vertex that is one of these is drawn again, and left out in the
end.

Legend: N vertices, m pairs of a set, n of them, K candidates of each. Vertices are layout ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gsplit import _core
from gsplit.config.links import drawn_candidates
from gsplit.data import Layout
from gsplit.data.graph import row_ranges
from gsplit.data.links.edge_sets import Links
from gsplit.engine.evaluation.ranking import Known, Lists
from gsplit.engine.evaluation.sampled_targets import EVALUATION
from gsplit.errors import InputError
from gsplit.sampling.links.negatives import MOST_ATTEMPTS
from gsplit.sampling.plan import fold_key, hashed

MOST_MULTIPLICATIONS = 10**13
FEW = "uniform:1000"
"""What ``auto`` takes where all would be more than that."""
KNOWN_AT_ONCE = 1 << 22
"""Known pairs that a trainer holds at a time."""
TRIED_VERTICES, TRIED_EDGES = 500, 8
"""Of which it is looked up whether edges go both ways."""
PIECE_EDGES = 1 << 18


def multiplications(pairs: int, num_vertices: int, width: int) -> int:
    """How many ranking some pairs among all vertices takes."""
    return pairs * num_vertices * width


def ranking_candidates(asked: str, links: Links, name: str, *, num_vertices: int, width: int, pairs: int) -> str:
    """``given``, ``all`` or ``uniform:K`` for the pairs of a set.

    Args:
        asked: for, one of these or ``auto``.
        links: of the store.
        name: ``valid`` or ``test``.
        num_vertices: N.
        width: of rows that are scored.
        pairs: of the set that are ranked.

    Raises:
        InputError: for ``given`` where the store gives none, and for more candidates than there are vertices.
    """
    given = given_candidates(links, name) is not None or given_negatives(links, name) is not None
    if asked == "auto":
        if given:
            return "given"
        return "all" if multiplications(pairs, num_vertices, width) <= MOST_MULTIPLICATIONS else FEW
    if asked == "given" and not given:
        raise InputError(
            f"--evaluate-negatives given: the store has no candidates for its {name} pairs; "
            f"import them with --{name}-candidates, or take all or uniform:K"
        )
    drawn = drawn_candidates(asked)
    if drawn is not None and drawn >= num_vertices:
        raise InputError(
            f"--evaluate-negatives {asked}: there are {num_vertices:,} vertices; take all, or a smaller K"
        )
    return asked


def given_candidates(links: Links, name: str) -> NDArray[np.int64] | None:
    """[m, K] global ids that a store gives for each pair of a set."""
    return links.valid_candidates if name == "valid" else links.test_candidates


def given_negatives(links: Links, name: str) -> NDArray[np.int64] | None:
    """[K, 2] pairs of global ids that a store gives for all pairs of a set."""
    return links.valid_negatives if name == "valid" else links.test_negatives


def ranked_rows(num_pairs: int, number: int | None, seed: int) -> NDArray[np.int64]:
    """Rows of the pairs of a set that are ranked: so many, by default all; int64, ascending."""
    rows = np.arange(num_pairs)
    if number is None or number >= num_pairs:
        return rows
    return np.sort(np.argsort(hashed(fold_key(seed, EVALUATION), rows.astype(np.uint64)), kind="stable")[:number])


def drawn_rows(
    layout: Layout,
    seed: int,
    rows: NDArray[np.int64],
    k: int,
    left_out: Lists,
    *,
    attempts: int = MOST_ATTEMPTS,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Candidates [n, k] of the pairs with these rows, drawn uniformly; -1 where the last attempt was left out, too.

    Args:
        layout: whose vertices are drawn, by their global ids.
        seed: of the run.
        rows: int64 [n] of the pairs in their set.
        k: candidates of each.
        left_out: vertices that are no candidates.
        attempts: of each candidate.
        threads: that draw.
    """
    keys = np.array([fold_key(seed, EVALUATION, attempt) for attempt in range(attempts)], np.uint64)
    drawn = np.empty((len(rows), k), np.int64)
    _core.draw_candidates(keys, rows, layout.positions, left_out.indptr, left_out.rows, drawn, threads)
    return drawn


def known_beside_edges(layout: Layout, name: str) -> list[NDArray[np.int64]]:
    """Pairs [M, 2] of global ids that are known, beside message edges, where pairs of a set are ranked.

    Of a graph whose edges go both ways validation pairs are known both ways, too.
    """
    links, found = layout.graph.links, []
    assert links is not None
    if links.train is not None:
        found.append(links.train)
    if name == "test" and len(links.valid):
        found.append(links.valid)
        if goes_both_ways(layout):
            found.append(links.valid[:, ::-1])
    return found


def goes_both_ways(layout: Layout) -> bool:
    """Return whether the reverses of some edges are edges, too, all of them: those of some vertices by global id."""
    graph = layout.graph
    order = hashed(EVALUATION, np.arange(graph.num_vertices, dtype=np.uint64))
    some = layout.positions[np.argsort(order, kind="stable")[:TRIED_VERTICES]]
    begins = graph.indptr[some]
    counts = np.minimum(graph.indptr[some + 1] - begins, TRIED_EDGES)
    ends = np.repeat(some, counts)
    within = np.arange(len(ends)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = graph.indices[np.repeat(begins, counts) + within].astype(np.int64)
    return bool(len(ends) and _core.are_edges(graph.indptr, graph.indices, ends, starts).all())


def known_entries(layout: Layout, pairs: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """How many message edges and pairs, repeats and all, begin at each vertex, int64 [N]."""
    n = layout.graph.num_vertices
    counts = np.zeros(n, np.int64)
    for begin in range(0, layout.graph.num_edges, PIECE_EDGES):
        counts += np.bincount(layout.graph.indices[begin : begin + PIECE_EDGES], minlength=n)
    for sources, _ in _in_pieces(layout, pairs):
        counts += np.bincount(sources, minlength=n)
    return counts


def known_of(layout: Layout, sources: NDArray[np.int64], pairs: Sequence[NDArray[np.int64]]) -> Known:
    """What some vertices are known to belong with: by message edges, and by pairs [M, 2] of global ids.

    All edges are read, and those that begin at one of the vertices are kept.
    """
    graph, n = layout.graph, layout.graph.num_vertices
    distinct = np.unique(sources)
    place = np.full(n, -1)
    place[distinct] = np.arange(len(distinct))
    keys = [np.empty(0, np.int64)]
    for begin, end in row_ranges(graph.indptr, PIECE_EDGES):
        first = int(graph.indptr[begin])
        places = place[graph.indices[first : graph.indptr[end]]]
        here = np.flatnonzero(places >= 0)
        ends = np.searchsorted(graph.indptr[begin : end + 1], first + here, side="right") - 1 + begin
        keys.append(places[here] * n + ends)
    for starts, ends in _in_pieces(layout, pairs):
        here = np.flatnonzero(place[starts] >= 0)
        keys.append(place[starts[here]] * n + ends[here])
    return Known(distinct, np.concatenate(keys), n)


def _in_pieces(
    layout: Layout, pairs: Sequence[NDArray[np.int64]]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Sources and destinations, as layout ids, of pairs of global ids."""
    for of_set in pairs:
        for begin in range(0, len(of_set), PIECE_EDGES):
            piece = layout.positions[of_set[begin : begin + PIECE_EDGES]]
            yield piece[:, 0], piece[:, 1]


def rounds(sources: NDArray[np.int64], entries: NDArray[np.int64]) -> Iterator[slice]:
    """Cuts pairs, sorted by their sources, so that those of a piece know at most so much, or are of one source.

    Args:
        sources: int64 [n], ascending.
        entries: int64 [N] of each source.
    """
    distinct, first = np.unique(sources, return_index=True)
    total = np.cumsum(entries[distinct])
    bounds, begin = np.append(first, len(sources)), 0
    while begin < len(distinct):
        before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, before + KNOWN_AT_ONCE, side="right")))
        yield slice(int(bounds[begin]), int(bounds[end]))
        begin = end
