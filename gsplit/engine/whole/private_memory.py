"""What a trainer takes of the host's memory under a plan: predicted from counts, before the start.

| what | bytes |
|---|---|
| process | what this process has, which has imported the same |
| weights | 6 of each: itself, its gradient, two of Adam, its place in the all-reduce, and shares of it from all |
| edges | A and A', int32, with pointers, or shares that move; A alone for a first layer whose sums are kept |
| rows | features, labels and degrees at rest; kept sums |
| covers | edges while rows and sums that are sent are found, before there are rows |
| first sum | the moves of rows as wide as the features, in the first epoch |
| step | what layers keep for backward, and the moves and gradients of the layer that takes most |
| evaluation | a chunk of the layer that takes most: rows of its sources, and what is computed of them |

The last three come one after another, so the largest counts. Large pieces of the first sum are given back at once; of
the other two the allocator keeps what is freed, and cannot use all of it again: they count more. Rows
that a plan or evaluation has in memory that all trainers map are no private memory, and counted once for all.

A device's memory is counted in :mod:`gsplit.engine.whole.device_memory`.

Legend: P trainers, L layers, N vertices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.engine.evaluation import MAX_EDGES, MAX_ROW_BYTES
from gsplit.engine.whole.work import Work
from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan
from gsplit.full.covers import bytes_of_route, bytes_to_find
from gsplit.full.moves import shares
from gsplit.limits import private_bytes
from gsplit.parallel.mailboxes import SPARE

MOST_PROCESS_BYTES = 256 << 20
"""A process that has more holds data of its own, which trainers do not."""
LIBRARY_BYTES = 24 << 20
"""Threads and buffers of PyTorch's that come with the first step, and pieces of what is read."""
COPIES_OF_PARAMETERS = 6
ORDER_BYTES = 4
"""Bytes of an edge of A' for its place in A, where a layer weighs edges by itself."""


def process_bytes() -> int:
    """Return what a trainer has before it has anything of the graph. The kernel looks at each page for that."""
    return min(private_bytes(), MOST_PROCESS_BYTES) + LIBRARY_BYTES


def stays_bytes(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of what stays: weights, rows at rest, and edges but those of the first layer."""
    item, sizes = work.itemsize, work.sizes[rank]
    rows = sizes[0] * (0 if work.trained else work.widths[0]) * item + 8 * sizes[-1] + item * sizes[0]
    rows += sum(4 * int(size) for size in sizes[1:])
    if work.trained:  # the copy and its gradient; the gradient of the own rows, and two of Adam
        rows += (2 * sizes[0] + 3 * work.own_vertices[rank]) * work.widths[0] * item
    return int(COPIES_OF_PARAMETERS * work.parameters * item + edge_bytes(plan, work, rank)[1] + rows)


def shared_bytes(plan: GridPlan, work: Work) -> int:
    """Bytes of memory that all trainers of a run map, together."""
    sizes, widths, item = work.sizes.sum(axis=0), work.widths, work.itemsize
    n = int(work.own_vertices.sum())
    rows = 5 * n if work.trainers > 1 else 0  # levels, while they are found
    if plan.algorithm == "shared" and work.trainers > 1:
        rows = max(
            rows,
            *(
                2 * int(sizes[layer - 1]) * work.summed(layer) * work.moved_itemsize(layer)
                for layer in range(1, work.layers + 1)
            ),
        )
    evaluated = 2 * n * max(widths[1:-1], default=0) * work.level_itemsize if work.evaluates else 0
    if work.trainers > 1:  # gradients, and each trainer's share of their sum
        rows += int(SPARE * (work.trainers + 1) * work.parameters * item)
    return rows + evaluated + (n * widths[0] * item if work.trained else 0)


def edge_bytes(plan: GridPlan, work: Work, rank: int) -> tuple[int, int]:
    """Bytes of the edges of the first layer that a trainer holds, and of all others, with pointers."""
    found: dict[tuple[bytes, bytes, bool], int] = {}
    first = 0
    for layer in range(1, work.layers + 1):
        name, forward, backward = edges_of_layer(plan, work, rank, layer)
        first, found[name] = first or forward + backward, forward + backward
    return first, sum(found.values()) - first


def edges_of_layer(plan: GridPlan, work: Work, rank: int, layer: int) -> tuple[tuple[bytes, bytes, bool], int, int]:
    """Name a layer's edges, which layers of one name share, and price them: bytes of A, with routes; bytes of A'."""
    returns = layer > 1 or not work.kept
    forward, backward, rows, sources = block_of(plan, work, rank, layer)
    weight = work.itemsize if work.weights else 0
    order = ORDER_BYTES if work.attends or (weight and exchanges(plan, work)) else 0
    name = (work.sizes[:, layer - 1].tobytes(), work.sizes[:, layer].tobytes(), returns)
    if plan.graph_moves:
        forward, backward, rows, sources = (
            share_of(plan, number, rank) for number in (forward, backward, rows, sources)
        )
    there, back = (4 + weight) * forward + 4 * rows, ((4 + (order or weight)) * backward + 4 * sources) * returns
    if exchanges(plan, work):  # blocks that are not shared, and routes
        received, sent = exchanged(plan, work, rank, layer)
        route = 4 * sent
        if sends_covers(plan, work):
            route = bytes_of_route(sent, edges_for_others(plan, work, rank, layer), sources, weight, returns=returns)
        there += 12 * received + route
        name = (bytes([layer]), b"", returns)
    return name, there, back


def turned_bytes(plan: GridPlan, work: Work, rank: int, layers: int) -> int:
    """Bytes of A' of the layers 1 .. ``layers``, of those that have one together once."""
    found: dict[tuple[bytes, bytes, bool], int] = {}
    for layer in range(1, layers + 1):
        name, _, back = edges_of_layer(plan, work, rank, layer)
        found[name] = back
    return sum(found.values())


def block_of(plan: GridPlan, work: Work, rank: int, layer: int) -> tuple[int, int, int, int]:
    """Edges forward and backward, rows and sources of what a trainer multiplies in a layer."""
    edges, sizes = work.by_owner[layer - 1], work.sizes
    if plan.of_all_sources and not exchanges(plan, work):
        return int(edges[rank].sum()), int(edges[:, rank].sum()), int(sizes[rank, layer]), int(sizes[rank, layer - 1])
    if plan.of_all_sources:
        received, _ = exchanged(plan, work, rank, layer)
        all_edges = int(edges[rank].sum())
        if sends_covers(plan, work):
            all_edges -= int(_spared(work, layer)[rank].sum())
        return all_edges, all_edges, int(sizes[rank, layer]), int(sizes[rank, layer - 1]) + received
    row, column = (_peers(plan, rank, axis) for axis in (ROWS, COLUMNS))
    block = int(edges[row][:, column].sum())
    if work.loops:  # those of the destinations that it also has as sources
        block += int(sizes[list(plan.grid.group(rank, FEATURES)), layer].sum())
    return block, block, int(sizes[row, layer].sum()), int(sizes[column, layer - 1].sum())


def share_of(plan: GridPlan, number: int, rank: int) -> int:
    """Of so many edges or pointers of a block those that a trainer holds, where the graph moves."""
    return shares(number, plan.grid.size(FEATURES))[plan.grid.coordinate(rank, FEATURES)]


def coming_bytes(plan: GridPlan, work: Work, rank: int, layer: int) -> int:
    """Bytes of what comes for a product, where the graph moves: edges of two members, and pointers of all.

    Beside them are pointers of one member, twice, and sums in the type that they are added up in.
    """
    if not plan.graph_moves:
        return 0
    edges, _, rows, sources = block_of(plan, work, rank, layer)
    split = plan.grid.size(FEATURES)
    each, most = 4 + (work.itemsize if work.weights else 0), max(rows, sources)
    wider = work.itemsize if work.moved_itemsize(layer) < work.itemsize else 0
    return 2 * each * -(-edges // split) + 12 * most + wider * most * -(-work.summed(layer) // split)


def exchanges(plan: GridPlan, work: Work) -> bool:
    """Return whether blocks are brought rows, not sums."""
    return plan.of_all_sources and (plan.algorithm != "shared" or work.attends)


def sends_covers(plan: GridPlan, work: Work) -> bool:
    """Return whether what is sent are minimum covers of the edges between two trainers."""
    return plan.algorithm == "1d-sparse" and work.covers and work.trainers > 1


def _spared(work: Work, layer: int) -> NDArray[np.int64]:
    """Edges that trainers are spared; none where every row is taken for needed."""
    return work.spared.get(layer, np.zeros((work.trainers, work.trainers), np.int64))


def edges_for_others(plan: GridPlan, work: Work, rank: int, layer: int) -> int:
    """Return of how many rows a trainer makes what it sends before a layer, where that are covers; else 0."""
    if not sends_covers(plan, work):
        return 0
    return int((work.needed[layer] + _spared(work, layer))[:, rank].sum())


def making_bytes(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of edges while the covers of a layer are found, those of the layers before it there already."""
    most = held = 0
    for layer in range(1, work.layers + 1) if sends_covers(plan, work) else ():
        edges_P = work.by_owner[layer - 1][rank]
        read = (4 + 4 * work.weights) * int(edges_P.sum())
        most = max(most, held + read + bytes_to_find(edges_P, rank))
        held += edges_of_layer(plan, work, rank, layer)[1]
    return most


def exchanged(plan: GridPlan, work: Work, rank: int, layer: int) -> tuple[int, int]:
    """Rows that a trainer receives before a layer, and that it sends."""
    sizes = work.sizes[:, layer - 1]
    if plan.algorithm == "1d":
        return int(sizes.sum() - sizes[rank]), int(sizes[rank]) * (work.trainers - 1)
    needed = work.needed[layer]
    return int(needed[rank].sum()), 0 if plan.algorithm == "shared" else int(needed[:, rank].sum())


def moved_words(plan: GridPlan, work: Work, rank: int, layer: int, width: int) -> int:
    """Numbers that a sum has at once beside the rows that it is given: what was sent, what came, sums."""
    own = int(work.sizes[rank, layer])
    if plan.of_all_sources:
        received, sent = exchanged(plan, work, rank, layer) if exchanges(plan, work) else (0, 0)
        return (received + sent + own) * width
    _, _, rows, sources = block_of(plan, work, rank, layer)
    row_size, column_size, split = (plan.grid.size(axis) for axis in (ROWS, COLUMNS, FEATURES))
    share = -(-width // split)
    group = list(plan.grid.group(rank, FEATURES))
    given, wanted = (int(work.sizes[group, level].sum()) for level in (layer - 1, layer))
    words = rows * share
    if split > 1:  # what was sent has gone before anything is summed
        words = given * share + max(int(work.sizes[rank, layer - 1]) * width, words + 2 * own * width)
    if row_size > 1:
        words += sources * share
    if column_size > 1:
        words += (column_size + 1) * wanted * share
    return words


def first_words(plan: GridPlan, work: Work, rank: int) -> int:
    """Numbers that the first sum has at once, where it is kept: beside the features, the sums themselves included."""
    of_all = work.widths[0]
    width = max(widths := plan.widths(of_all, in_slices=work.in_slices))
    before, after = (int(work.sizes[rank, level]) * width for level in (0, 1))
    at_once = before * work.scales + max(moved_words(plan, work, rank, 1, width), (3 if work.scales else 1) * after)
    return at_once + (int(work.sizes[rank, 1]) * of_all if len(widths) > 1 else 0)


def attended(plan: GridPlan, work: Work, rank: int, layer: int) -> tuple[int, int]:
    """Numbers of the rows that attention keeps, with their scores, and of one number for each edge and head."""
    edges, _, rows, sources = block_of(plan, work, rank, layer)
    if exchanges(plan, work):
        sources = int(work.sizes[rank, layer - 1]) + exchanged(plan, work, rank, layer)[0]
        return sources * work.summed(layer) + (rows + sources) * work.heads, edges * work.heads
    split = plan.grid.size(FEATURES)
    heads = work.heads // split
    return sources * (work.summed(layer) // split) + (rows + sources) * heads, edges * heads


def evaluation_bytes(work: Work, rank: int) -> int:
    """Bytes of a chunk of the layer that takes most."""
    if not work.evaluates:
        return 0
    most = 0
    for layer in range(1, work.layers + 1):
        wide, out = work.widths[layer - 1 : layer + 1]
        of_row = work.itemsize if layer == 1 else work.level_itemsize
        edges, sources, rows = rows_of_chunk(work, rank, wide, of_row)
        summed = min(wide, out)
        of_sources = sources * (wide * of_row + summed * (1 + work.scales) * work.itemsize)
        words = rows * (3 * summed + 2 * out) + 4 * edges * work.heads
        most = max(most, of_sources + words * work.itemsize + 16 * edges)
    return most + 4 * int(work.own_vertices.sum())


def rows_of_chunk(work: Work, rank: int, wide: int, itemsize: int) -> tuple[int, int, int]:
    """Edges, sources and destinations of a chunk of evaluation at most.

    Args:
        work, rank: of the trainer.
        wide: columns of the rows of sources.
        itemsize: bytes of a number of these.
    """
    n, own, row_bytes = int(work.own_vertices.sum()), int(work.own_vertices[rank]), wide * itemsize
    edges = MAX_EDGES if n * row_bytes <= MAX_ROW_BYTES else min(MAX_EDGES, MAX_ROW_BYTES // row_bytes)
    edges = min(edges, int(work.own_edges[rank]) + own)
    return edges, min(n, edges), min(own, edges)


def _peers(plan: GridPlan, rank: int, axis: str) -> list[int]:
    """The trainers at the same place along an axis."""
    own = plan.grid.coordinate(rank, axis)
    return [peer for peer in range(plan.grid.world) if plan.grid.coordinate(peer, axis) == own]
