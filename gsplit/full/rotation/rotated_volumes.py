"""Volumes of rotating layers: what each trainer sends in an epoch, by the formula.

An all-reduce of m rows, w wide, over G trainers, of which this one has the share s of the rows, sends ``(m - s) w``
words to reduce-scatter them and ``(G - 1) s w`` to gather the sums: with even shares ``2 (G - 1) / G m w``, as the
paper counts it. With R, K, F trainers along the rows, the columns and the features of a layer, n vertices, and widths
D in and D' out, even shares make (Ranjan et al., SC 2025, sections 3 and 4):

    forward    2 (K-1)/K n/R D/F  +  2 (F-1)/F n/R D'/K
    backward   2 (K-1)/K n/R D/F  +  2 (R-1)/R n/K D/F

and before the first layer, instead of the last term, ``(R-1)/R n/K D/F`` each way. That is the paper's without the
terms of weights, which are whole on every trainer here. Beside it rows at rest become columns before the first layer,
and those of training vertices rows after the last one.

RMSNorm all-reduces a number a row along the columns, each way: ``2 (K-1)/K n/R`` words. A skip lays its layer's input
out anew (:mod:`gsplit.full.rotation.skips`), with n/P rows at rest on each trainer:

    forward    (F-1)/F n/P D  +  (K-1)/K n/P D'  +  (F-1) n/P D'
    backward   (K-1)/K n/P D'  +  (F-1)/F n/P D
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.full.moves import DIRECTIONS, names_of_counts, shares
from gsplit.full.plans import TURNING
from gsplit.full.rotation.planes import roles_of
from gsplit.full.volumes import BETWEEN, TOTALS, passed_on
from gsplit.parallel import Grid


class Turns(NamedTuple):
    """The shares of the trainers where layers rotate, in numbers."""

    grid: Grid
    """The trainers along x, y and z."""
    own: tuple[Sequence[int], Sequence[int]]
    """[P] numbers of vertices of each trainer, on even and on odd levels."""
    targets: Sequence[int]
    """[P] numbers of training vertices of each trainer, on the last level."""
    widths: Sequence[int]
    """[L + 1] widths of the rows before the first layer, and of those that each gives."""
    row_blocks: int
    """Number of blocks of rows that are summed one after another."""
    normalised: int = 0
    """Number of layers, from the first on, whose rows are normalised."""
    owned: NDArray[np.int64] | None = None
    """[P, P] numbers of vertices by the trainers that have them on even and on odd levels, where there are skips."""


class Traffic(NamedTuple):
    """One move of an epoch."""

    move: str
    """Name of the move."""
    way: str
    """Direction, ``forward`` or ``backward``."""
    words: Sequence[int]
    """Words of each message, by the place of who gets it."""
    axis: str
    """Axis along which it goes."""
    between: bool = False
    """Whether it is between rows at rest and planes."""
    of: str = "rows"
    """What it moves: ``rows``; ``products`` by weights, which may be in a shorter type; ``squares``, a number a row,
    never in the type that rows travel in."""
    gathered: Sequence[int] | None = None
    """Where rows are gathered: the words of all along the axis, by their places."""


def volumes_of_turns(
    turns: Turns,
    rank: int,
    itemsize: int,
    *,
    product_itemsize: int | None = None,
    square_itemsize: int | None = None,
    first_moves: bool = True,
    first_returns: bool = False,
    hosts: int = 1,
) -> dict[str, int]:
    """Bytes and messages that a trainer sends in an epoch, by move and in all, as ``metrics.jsonl`` names them.

    Beside them is :data:`~gsplit.full.volumes.BETWEEN`, where there are several hosts.

    Args:
        turns: who has what.
        rank: of the trainer.
        itemsize: bytes of a number.
        product_itemsize: bytes of a number of products by weights, forward; None: the same.
        square_itemsize: bytes of a sum of a normalisation; None: the same.
        first_moves: whether the sums of the first layer are taken in this epoch, not kept from an earlier one.
        first_returns: whether the rows before the first layer want gradients, as trained features do.
        hosts: that the trainers are on.
    """
    counts = dict.fromkeys([*names_of_counts(), *TOTALS, *([BETWEEN] if hosts > 1 else [])], 0)
    here = turns.grid.world // hosts
    itemsizes = {"rows": itemsize, "products": product_itemsize or itemsize, "squares": square_itemsize or itemsize}
    for move, way, words, axis, _, of, gathered in traffic_of(
        turns, rank, first_moves=first_moves, first_returns=first_returns
    ):
        members = turns.grid.group(rank, axis)
        each = itemsizes[of]
        for name in (move, "exchange"):
            counts[f"{name}_{way}_bytes"] += sum(words) * each
            counts[f"{name}_{way}_messages"] += sum(number > 0 for number in words)
        if hosts > 1 and gathered is not None:
            counts[BETWEEN] += passed_on(dict(zip(members, gathered, strict=True)), rank, here) * each
        elif hosts > 1:
            peers = (peer for peer in members if peer != rank)
            away = (number for peer, number in zip(peers, words, strict=True) if peer // here != rank // here)
            counts[BETWEEN] += sum(away) * each
    return counts


def traffic_of(
    turns: Turns, rank: int, *, first_moves: bool = True, first_returns: bool = False
) -> Iterator[Traffic]:
    """The moves of :func:`volumes_of_turns`, one by one."""
    grid, layers = turns.grid, len(turns.widths) - 1
    forward, backward = DIRECTIONS
    place = grid.coordinates(rank)

    def share(width: int, axis: str) -> int:
        return shares(width, grid.size(axis))[place[axis]]

    def rows(level: int, axis: str) -> int:
        same = (peer for peer in range(grid.world) if grid.coordinate(peer, axis) == place[axis])
        return sum(turns.own[level % 2][peer] for peer in same)

    def along(
        axis: str, move: str, way: str, words: Sequence[int], *, between: bool = False, of: str = "rows"
    ) -> Traffic:
        others = [number for at, number in enumerate(words) if at != place[axis]]
        return Traffic(move, way, others, axis, between, of)

    def gather(axis: str, way: str, words: Sequence[int], *, between: bool = False, of: str = "rows") -> Traffic:
        others = [words[place[axis]]] * (len(words) - 1)
        return Traffic("gather", way, others, axis, between, of, gathered=words)

    def all_reduced(num_rows: int, width: int, axis: str, way: str, of: str = "rows") -> Iterator[Traffic]:
        sizes = [number * width for number in shares(num_rows, grid.size(axis))]
        yield along(axis, "reduce_scatter", way, sizes, of=of)
        yield gather(axis, way, sizes, of=of)

    def skipped(layer: int) -> Iterator[Traffic]:
        roles, wide, out = roles_of(layer), turns.widths[layer - 1], turns.widths[layer]
        resting = resting_rows(turns, rank, layer)
        if layer > 1 or first_moves:
            words = [int(each) * share(wide, roles.features) for each in resting[:, place[roles.columns]]]
            yield along(roles.features, "to_rows", forward, words)
        own = int(resting[place[roles.features], place[roles.columns]])
        yield along(roles.columns, "to_columns", forward, [own * each for each in shares(out, resting.shape[1])])
        yield gather(roles.features, forward, [int(n) * share(out, roles.columns) for n in resting.sum(axis=1)])
        words = [int(each) * share(out, roles.columns) for each in resting[place[roles.features]]]
        yield along(roles.columns, "to_rows", backward, words)
        if layer > 1 or first_returns:
            words = [own * each for each in shares(wide, len(resting))]
            yield along(roles.features, "to_columns", backward, words)

    along_z = [
        sum(turns.own[0][grid.rank(x=place["x"], y=y, z=z)] for y in range(grid.size("y")))
        for z in range(grid.size("z"))
    ]
    wide, narrow = turns.widths[0], share(turns.widths[0], "y")
    if first_moves:
        per_place = [turns.own[0][rank] * width for width in shares(wide, grid.size("y"))]
        yield along("y", "to_columns", forward, per_place, between=True)
        yield gather("z", forward, [number * narrow for number in along_z])
    if first_returns:
        yield along("z", "reduce_scatter", backward, [size * narrow for size in along_z])
        mine = [turns.own[0][peer] * narrow for peer in grid.group(rank, "y")]
        yield along("y", "to_rows", backward, mine, between=True)
    for layer in range(1, layers + 1):
        roles = roles_of(layer)
        into, out = share(turns.widths[layer - 1], roles.features), share(turns.widths[layer], roles.columns)
        num_rows = rows(layer, roles.rows)
        if layer > 1 or first_moves:
            for piece in shares(num_rows, turns.row_blocks):
                yield from all_reduced(piece, into, roles.columns, forward)
        yield from all_reduced(num_rows, out, roles.features, forward, of="products")
        if layer <= turns.normalised:
            for way in DIRECTIONS:
                yield from all_reduced(num_rows, 1, roles.columns, way, of="squares")
        if turns.owned is not None:
            yield from skipped(layer)
        if layer > 1 or first_returns:
            yield from all_reduced(num_rows, into, roles.columns, backward)
        if layer > 1:
            for piece in shares(rows(layer - 1, roles.columns), turns.row_blocks if turns.owned is None else 1):
                yield from all_reduced(piece, into, roles.rows, backward)
    roles = roles_of(layers)
    targets, classes = turns.targets, turns.widths[-1]
    out = share(classes, roles.columns)
    peers = grid.group(rank, roles.columns)
    yield along(roles.columns, "to_rows", forward, [targets[peer] * out for peer in peers], between=True)
    back = [targets[rank] * width for width in shares(classes, len(peers))]
    yield along(roles.columns, "to_columns", backward, back, between=True)
    all_targets = [
        sum(targets[peer] for peer in grid.group(member, roles.columns)) * out
        for member in grid.group(rank, roles.features)
    ]
    yield gather(roles.features, backward, all_targets, between=True)


def resting_rows(turns: Turns, rank: int, layer: int) -> NDArray[np.int64]:
    """[F, K] rows that are at rest on each trainer of this one's block of rows, on their way along a layer's skip."""
    assert turns.owned is not None
    grid, roles = turns.grid, roles_of(layer)
    owned = turns.owned if layer % 2 else turns.owned.T  # layer 1 leads from an even level to an odd one
    same = [
        peer for peer in range(grid.world) if grid.coordinate(peer, roles.rows) == grid.coordinate(rank, roles.rows)
    ]
    found = np.zeros((grid.size(roles.features), grid.size(roles.columns)), np.int64)
    for trainer, number in enumerate(owned[:, same].sum(axis=1)):
        found[grid.coordinate(trainer, roles.features), grid.coordinate(trainer, roles.columns)] += number
    return found


def paper_words(sizes: tuple[int, int, int], vertices: int, widths: Sequence[int]) -> float:
    """Words that a trainer sends in an epoch by the paper's formulas, without the terms of weights.

    Args:
        sizes: of the grid along x, y and z.
        vertices: number of them.
        widths: [L + 1] widths of the levels; the first is trained.
    """
    along = dict(zip(TURNING, sizes, strict=True))
    words = 0.0
    for layer in range(1, len(widths)):
        rows, columns, features = (along[axis] for axis in roles_of(layer))
        sums = vertices / rows * widths[layer - 1] / features
        outputs = vertices / rows * widths[layer] / columns
        inputs = vertices / columns * widths[layer - 1] / features
        words += 4 * (columns - 1) / columns * sums + 2 * (features - 1) / features * outputs
        words += 2 * (rows - 1) / rows * inputs  # the first layer: half of it forward, half backward
    return words
