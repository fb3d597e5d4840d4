"""Seconds of an epoch under a plan, predicted from counts and from what work takes on this machine.

    seconds = sum over layers and directions of the product of the trainer that takes longest
            + collectives, and bytes of the trainer that sends most, with the copies of what is sent
            + products with weights

A collective takes its time whomever it sends to: what gloo's threads need to wake each other, and the operations that
put rows together and apart. Where trainers have more threads than there are cores, all of it takes so many times
longer. An epoch after the first is meant, whose first sums are kept. What is the same under every plan and small is
left out (optimizer, loss), so small graphs take longer than predicted; the order of plans is what counts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gsplit.config.resolved import Resolved
from gsplit.device import accelerator
from gsplit.engine.whole.machine_prices import MachinePrices
from gsplit.engine.whole.private_memory import Work, block_of
from gsplit.full import GridPlan
from gsplit.full.common_rows import cache_bytes, columns_of_panel
from gsplit.full.moves import DIRECTIONS, shares
from gsplit.full.plans import FEATURES
from gsplit.full.volumes import Widths, sent_bytes

COPIES = 3
"""Copies of a byte that is sent: put together, received, put where it belongs."""
WEIGHT_PRODUCTS = 3
"""Products with weights of a layer: forward, and two gradients."""
COLLECTIVE, MEETING = 3.5, 0.2
"""A collective by which rows move, and a meeting in memory that trainers share, in messages."""


def crowded(config: Resolved) -> float:
    """How many times longer work takes where trainers on CPUs have more threads than there are cores; 1 where not."""
    on_host = config.device == accelerator.HOST
    return max(1.0, config.trainers_here * config.threads / len(os.sched_getaffinity(0))) if on_host else 1.0


def seconds_of_chain(
    plan: GridPlan, work: Work, widths: Sequence[Widths], sent: Sequence[dict[str, int]], by: MachinePrices
) -> float:
    """Seconds of an epoch of a plan whose rows are at rest.

    Args:
        plan: that is asked about.
        work: what is computed.
        widths: [L] of the rows that are summed (:func:`gsplit.full.volumes.widths_of_sums`).
        sent: what each trainer sends (:func:`gsplit.full.volumes.volumes`).
        by: what the work takes.
    """
    everyone = range(work.trainers)
    seconds = seconds_of_weights(work, by) + max(map(sent_bytes, sent)) * seconds_of_byte(by)
    for layer, width in enumerate(widths, start=1):
        seconds += collectives(plan, width) * COLLECTIVE * by.message
        for columns, back, times in ((width.forward, False, width.forwards), (width.backward, True, 1)):
            seconds += times * max(_sums(plan, work, rank, layer, columns, by, back=back) for rank in everyone)
    return seconds


def seconds_of_turns(
    work: Work, edges: int, widths: Sequence[Widths], sent: Sequence[dict[str, int]], by: MachinePrices
) -> float:
    """Seconds of an epoch where layers rotate, with blocks as even as a drawn order makes them.

    Args:
        work: what would be computed otherwise.
        edges: of the graph; all are summed over in every layer.
        widths, sent, by: as :func:`seconds_of_chain` takes them.
    """
    rows = int(work.own_vertices.sum())
    messages = max(sum(counts[f"exchange_{way}_messages"] for way in DIRECTIONS) for counts in sent)
    seconds = seconds_of_weights(work, by) + messages * by.message + max(map(sent_bytes, sent)) * seconds_of_byte(by)
    for width in widths:
        for columns in (width.forward, width.backward):
            numbers = columns * work.row_itemsize / 4
            seconds += edges / work.trainers * by.of_edge(numbers, 4 * rows * numbers)
    return seconds


def collectives(plan: GridPlan, width: Widths) -> float:
    """Number of collectives around the sum of one layer, forward and backward, as an all-to-all counts.

    Rows are gathered by a broadcast from each, all at once, of which two take what one all-to-all does.
    """
    directions = width.forwards * (width.forward > 0) + (width.backward > 0)
    if plan.algorithm == "shared" or plan.grid.world == 1:
        return 0.0
    if plan.of_all_sources:
        return directions
    rows, columns, features = plan.sizes

    def gathers(size: int) -> float:
        return size / 2 if size > 1 else 0.0

    forward = 2 * (features > 1) + gathers(rows) + (columns > 1)
    backward = 2 * (features > 1) + gathers(columns) + (rows > 1)
    if plan.graph_moves:  # pointers of all, and edges of one after another
        forward, backward = forward + 2 * gathers(features), backward + 2 * gathers(features)
    of_scores = (3 * gathers(columns) + 3 * (columns > 1)) if width.heads else 0.0
    return width.forwards * (width.forward > 0) * forward + (width.backward > 0) * backward + of_scores


def seconds_of_byte(by: MachinePrices) -> float:
    """Seconds of a byte that is sent, with the copies of it."""
    return by.sent_byte + COPIES * by.copied_byte


def seconds_of_weights(work: Work, by: MachinePrices) -> float:
    """Seconds of products with weights, of the trainer that has most rows."""
    of_rank = (
        sum(
            int(work.sizes[rank, layer]) * work.inputs(layer) * work.outputs(layer)
            for layer in range(1, work.layers + 1)
        )
        for rank in range(work.trainers)
    )
    return WEIGHT_PRODUCTS * by.multiply * max(of_rank)


def _sums(plan: GridPlan, work: Work, rank: int, layer: int, columns: int, by: MachinePrices, *, back: bool) -> float:
    """Seconds of the sums of a trainer in one direction, with what becomes of their rows in its memory."""
    if not columns:
        return 0.0
    forward, backward, after, before = block_of(plan, work, rank, layer)
    edges, given, made = (backward, after, before) if back else (forward, before, after)
    of_number = work.row_itemsize / 4
    if plan.algorithm == "shared" and not work.attends:
        given = int(work.sizes[:, layer if back else layer - 1].sum())
        written = int(work.sizes[rank, layer if back else layer - 1]) * columns * work.row_itemsize
        panel = columns
        if work.trainers > 1:
            panel = columns_of_panel(given, columns, work.row_itemsize, cache_bytes())
        seconds = written * by.copied_byte + (MEETING * by.message if work.trainers > 1 else 0)
    else:
        panel = columns = shares(columns, plan.grid.size(FEATURES))[plan.grid.coordinate(rank, FEATURES)]
        seconds = made * columns * work.row_itemsize * by.copied_byte
    if not panel:
        return seconds
    numbers = panel * of_number
    return seconds + edges * columns / panel * by.of_edge(numbers, 4 * given * numbers)
