"""Volumes: what each trainer sends in an epoch under a plan, by the formula.

Words that trainer (r, k, f) of a grid R x K x F sends for one product of rows of width w, where n(.) are its own
rows, w_f its columns and N(r, k) the rows of all trainers (r, k, .); sources before the product, destinations after:

    to_columns        n (w - w_f)
    gather            (R - 1) N(r, k) w_f
    reduce_scatter    w_f sum over k' != k of N(r, k')
    to_rows           w_f sum over f' != f of n(r, k, f')

Backward R and K are exchanged, and so are sources and destinations. With equal ranges that is, summed over the moves,
``n w [2 (F-1) / (F P) + (R-1) / (R K F) + (K-1) / (K R F)]`` with n rows in all. Attention of H heads, h = H / F on
each trainer, also sends numbers of destinations along the columns (:mod:`gsplit.full.grid_attention`):

    gather            (K - 1) N(r, k) h [1 + 2], backward h      scores; highest scores and totals; sums of gradients
    reduce_scatter    h [2] sum over k' != k of N(r, k'), backward h [1 + 1]

Where the graph moves, a product by a block of E edges from C sources to R rows also sends, in words of 4 bytes,

    edges             (F - 1) E / F    indices, and as many weights where they count
    pointers          (F - 1) R / F    backward C / F

each rounded as :func:`gsplit.full.moves.shares` deals them out. With even ranges a trainer so receives the papers'
``nnz / (R K) (F - 1) / F`` indices.

``1d`` sends every row to all
others, ``1d-sparse`` the rows that are needed, and both return the gradients of what they received. ``shared`` sends
nothing within a host, and each row once to every other one: sources, and in backward destinations, or, where models
read rows as they are, the gradients for those of that host. Rows that are gathered go to some, who pass them on
(:mod:`gsplit.parallel.between_hosts`): so which host sends them is another matter than whose they are.

Legend: P trainers, L layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.full.moves import DIRECTIONS, names_of_counts, shares
from gsplit.full.plans import COLUMNS, FEATURES, ROWS, GridPlan
from gsplit.parallel.between_hosts import Across

TOTALS = tuple(f"exchange_{way}_{what}" for way in DIRECTIONS for what in ("bytes", "messages"))
BETWEEN = "between_hosts_bytes"
"""Bytes that go to other hosts, of all that is sent."""


INDEX_BYTES = 4
"""Bytes of an index or a pointer of edges."""


class Widths(NamedTuple):
    """Widths of the rows that travel around the sum of one layer; 0 where none do."""

    forward: int
    """Width of the rows that are summed."""
    backward: int
    """Width of their gradients."""
    heads: int = 0
    """Heads of attention, whose scores travel on grids; 0 where rows are summed."""
    forwards: int = 1
    """How often the layer is computed forward: twice where it is computed again in backward."""
    in_slices: bool = False
    """Whether rows that are summed on grids move in slices (:meth:`gsplit.full.plans.GridPlan.widths`)."""


def volumes(
    plan: GridPlan,
    sizes: NDArray[np.int64],
    widths: Sequence[Widths],
    itemsize: int,
    rank: int,
    needed: Mapping[int, NDArray[np.int64]] | None = None,
    *,
    hosts: int = 1,
    score_itemsize: int | None = None,
    edges: NDArray[np.int64] | None = None,
    weight_itemsize: int = 0,
) -> dict[str, int]:
    """Bytes and messages that a trainer sends in an epoch, by move and in all, as ``metrics.jsonl`` names them.

    Beside them is :data:`BETWEEN`, where there are several hosts.

    Args:
        plan: that is asked about.
        sizes: [P, L + 1] rows of each level (:class:`gsplit.full.levels.Levels`).
        widths: [L] of the layers.
        itemsize: bytes of a number.
        rank: of the trainer.
        needed: for ``1d-sparse``, and ``shared`` where models read rows as they are, by layer, [P, P] rows that each
            trainer needs of each other.
        hosts: that the trainers are on.
        score_itemsize: bytes of a number of scores; None: ``itemsize``.
        edges: where the graph moves, [L, P, P] edges of each layer, by the owners of destination and source.
        weight_itemsize: bytes of an edge's weight; 0 where none count.
    """
    counts = dict.fromkeys([*names_of_counts(), *TOTALS, *([BETWEEN] if hosts > 1 else [])], 0)
    here = len(sizes) // hosts

    def add(
        move: str, way: str, words: dict[int, int], gathered: dict[int, int] | None = None, itemsize: int = itemsize
    ) -> None:
        """Words of each message, by who gets it; those of rows that are gathered also by whose they are."""
        times = width.forwards if way == "forward" else 1
        for name in (*([move] if move else []), "exchange"):
            counts[f"{name}_{way}_bytes"] += times * sum(words.values()) * itemsize
            counts[f"{name}_{way}_messages"] += times * sum(number > 0 for number in words.values())
        if hosts > 1 and gathered is not None:
            counts[BETWEEN] += times * passed_on(gathered, rank, here) * itemsize
        elif hosts > 1:
            away = sum(number for peer, number in words.items() if peer // here != rank // here)
            counts[BETWEEN] += times * away * itemsize

    peers = [peer for peer in range(len(sizes)) if peer != rank]
    equals = [peer for peer in peers if peer % here == rank % here]
    for layer, width in enumerate(widths, start=1):
        sources, destinations = sizes[:, layer - 1].tolist(), sizes[:, layer].tolist()
        if not plan.of_all_sources:
            for columns in plan.widths(width.forward, in_slices=width.in_slices):
                chain = _chain(plan, rank, sources, destinations, (ROWS, COLUMNS), columns)
                for move, (words, gathered) in chain.items():
                    add(move, "forward", words, gathered)
            for columns in plan.widths(width.backward, in_slices=width.in_slices):
                chain = _chain(plan, rank, destinations, sources, (COLUMNS, ROWS), columns)
                for move, (words, gathered) in chain.items():
                    add(move, "backward", words, gathered)
            for way, move, words, gathered in _of_scores(plan, rank, destinations, width.heads):
                add(move, way, words, gathered, score_itemsize or itemsize)
            if plan.graph_moves:
                assert edges is not None
                for way, move, words, gathered in _of_edges(
                    plan, rank, edges[layer - 1], sizes[:, layer - 1 : layer + 1]
                ):
                    if getattr(width, way):
                        add(move, way, words, gathered, INDEX_BYTES)
                        if move == "edges" and weight_itemsize:
                            add(move, way, words, gathered, weight_itemsize)
        elif plan.algorithm != "shared":
            to, back = dict.fromkeys(peers, sources[rank]), {peer: sources[peer] for peer in peers}
            if plan.algorithm == "1d-sparse":
                assert needed is not None
                table = needed[layer]
                to, back = ({peer: int(of[peer]) for peer in peers} for of in (table[:, rank], table[rank]))
            for way, rows in (("forward", to), ("backward", back)):
                for columns in plan.widths(getattr(width, way), in_slices=width.in_slices):
                    add("", way, {peer: number * columns for peer, number in rows.items()})
        else:
            gathered = {peer: sources[peer] * width.forward for peer in range(rank % here, len(sizes), here)}
            add("", "forward", dict.fromkeys(equals, sources[rank] * width.forward), gathered)
            if needed is not None:
                of_host = needed[layer][rank].reshape(hosts, here).sum(axis=1)
                add("", "backward", {peer: int(of_host[peer // here]) * width.backward for peer in equals})
                continue
            gathered = {peer: destinations[peer] * width.backward for peer in gathered}
            add("", "backward", dict.fromkeys(equals, destinations[rank] * width.backward), gathered)
    return counts


def sent_bytes(counts: Mapping[str, int], move: str = "exchange") -> int:
    """Bytes that a move, or all of them, sent forward and backward."""
    return counts[f"{move}_forward_bytes"] + counts[f"{move}_backward_bytes"]


def passed_on(words: Mapping[int, int], rank: int, here: int) -> int:
    """Words that a trainer sends to other hosts where each of some has words for all, who pass on what they get.

    Args:
        words: of each of them, by rank.
        rank: of the trainer.
        here: trainers of a host.
    """
    across = Across([member // here for member in words], list(words).index(rank))
    return sum(across.broadcast(number, member) for member, number in enumerate(words.values()))


def _chain(
    plan: GridPlan, rank: int, given: Sequence[int], wanted: Sequence[int], axes: tuple[str, str], width: int
) -> dict[str, tuple[dict[int, int], dict[int, int] | None]]:
    """Words of each message that a trainer sends around one product, by move and by who gets it.

    Beside those of rows that are gathered stand the words of all that gather, by rank.
    """
    of_members = shares(width, plan.grid.size(FEATURES))
    own, others = of_members[plan.grid.coordinate(rank, FEATURES)], _others(plan, rank, FEATURES)
    return {
        "to_columns": (
            {peer: given[rank] * of_members[plan.grid.coordinate(peer, FEATURES)] for peer in others},
            None,
        ),
        "gather": _gathered(plan, rank, given, axes[0], own),
        "reduce_scatter": (_scattered(plan, rank, wanted, axes[1], own), None),
        "to_rows": ({peer: wanted[peer] * own for peer in others}, None),
    }


def _of_scores(
    plan: GridPlan, rank: int, destinations: Sequence[int], heads: int
) -> Iterator[tuple[str, str, dict[int, int], dict[int, int] | None]]:
    """Way, move and words of each message of attention's scores, as :func:`_chain` has them."""
    own = heads // plan.grid.size(FEATURES)
    for way, numbers in (("forward", (1, 2)), ("backward", (1,))):
        for number in numbers:
            yield way, "gather", *_gathered(plan, rank, destinations, COLUMNS, number * own)
    for way, numbers in (("forward", (2,)), ("backward", (1, 1))):
        for number in numbers:
            yield way, "reduce_scatter", _scattered(plan, rank, destinations, COLUMNS, number * own), None


def _of_edges(
    plan: GridPlan, rank: int, edges_PP: NDArray[np.int64], sizes_P2: NDArray[np.int64]
) -> Iterator[tuple[str, str, dict[int, int], dict[int, int]]]:
    """Way, move and words of each message of a block's edges, and of all who send theirs, where the graph moves."""
    grid = plan.grid
    row, column = list(grid.group(rank, COLUMNS, FEATURES)), list(grid.group(rank, ROWS, FEATURES))
    edges, of_way = int(edges_PP[row][:, column].sum()), (int(sizes_P2[row, 1].sum()), int(sizes_P2[column, 0].sum()))
    for way, rows in zip(DIRECTIONS, of_way, strict=True):
        for move, number in (("pointers", rows), ("edges", edges)):
            of_members = shares(number, grid.size(FEATURES))
            words = {peer: of_members[grid.coordinate(peer, FEATURES)] for peer in grid.group(rank, FEATURES)}
            yield way, move, dict.fromkeys(_others(plan, rank, FEATURES), words[rank]), words


def _gathered(
    plan: GridPlan, rank: int, sizes: Sequence[int], axis: str, width: int
) -> tuple[dict[int, int], dict[int, int]]:
    """Words of each message by who gets it, and of all that gather, where rows are gathered."""
    words = {peer: _rows(plan, peer, sizes) * width for peer in plan.grid.group(rank, axis)}
    return dict.fromkeys(_others(plan, rank, axis), words[rank]), words


def _scattered(plan: GridPlan, rank: int, sizes: Sequence[int], axis: str, width: int) -> dict[int, int]:
    """Words of each message by who gets it, where partial sums are added up."""
    return {peer: _rows(plan, peer, sizes) * width for peer in _others(plan, rank, axis)}


def _rows(plan: GridPlan, rank: int, sizes: Sequence[int]) -> int:
    """Rows of the trainers along the features."""
    return sum(sizes[peer] for peer in plan.grid.group(rank, FEATURES))


def _others(plan: GridPlan, rank: int, axis: str) -> list[int]:
    return [peer for peer in plan.grid.group(rank, axis) if peer != rank]


def widths_of_sums(
    pairs: Sequence[tuple[int, int]], *, first_kept: bool, first_returns: bool, epoch: int
) -> list[Widths]:
    """[L] widths of the rows that a model of sums moves: the narrower of a layer's two, for sums and maps commute.

    Args:
        pairs: [L] width in and out of each convolution.
        first_kept: whether the sum of the features is kept: it moves in the first epoch alone, and has no gradient.
        first_returns: whether the rows before the first layer want a gradient, as projected features do.
        epoch: from 0, since the start of the run.
    """
    widths = [Widths(min(pair), min(pair)) for pair in pairs]
    wide, narrow = pairs[0]
    if first_kept:
        widths[0] = Widths(wide if epoch == 0 else 0, 0)
    elif wide <= narrow and not first_returns:
        widths[0] = Widths(wide, 0)
    return widths
