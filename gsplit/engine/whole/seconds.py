"""Seconds of an epoch under a plan, predicted from counts and from what work takes on this machine.

    seconds = sum over layers and directions of the product of the trainer that takes longest
            + collectives
            + bytes, with the copies of what is sent, of the trainer for which they take longest
            + products with weights

What an edge takes depends on the memory out of which edges read that are summed one after another, which is looked
up at some places of the graph. A collective takes its time however little it sends: what gloo's threads need to
wake each other, and longer where trainers have nothing else to do meanwhile. Where trainers have more threads than
there are cores, all of it takes so many times longer. An epoch after the first is meant, whose first sums are kept.
What is the same under every plan and small is left out (optimizer, loss), so small graphs take longer than
predicted; the order of plans is what counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gsplit.config.resolved import Resolved
from gsplit.device import accelerator
from gsplit.engine.whole.machine_prices import MachinePrices
from gsplit.engine.whole.private_memory import block_of, edges_for_others
from gsplit.engine.whole.work import Work
from gsplit.full import GridPlan
from gsplit.full.common_rows import cache_bytes, columns_of_panel
from gsplit.full.moves import DIRECTIONS, shares
from gsplit.full.plans import FEATURES
from gsplit.full.volumes import Widths, sent_bytes
from gsplit.limits import usable_cores

COPIES = {"to_columns": 3.5, "gather": 0.5, "reduce_scatter": 1.5, "to_rows": 2.0, "edges": 0.0, "pointers": 0.0}
"""Copies of a byte that a move sends: columns are cut out of rows and set side by side again, sums added up."""
BY_BROADCAST = 0.6
"""A byte that is broadcast, in bytes of an all-to-all."""
BROADCAST = ("gather", "edges", "pointers")
OF_ROWS = 1.5
"""Copies of a byte of rows that are sent by themselves: put together, and gradients added where they belong."""
FACTORS = 2.5
"""Passes over the own rows that factors take on grids, in copies; elsewhere they are made on the way."""
WEIGHT_PRODUCTS = 3
"""Products with weights of a layer: forward, and two gradients."""
MEETING = 0.2
"""A meeting in memory that trainers share, in messages."""


def crowded(config: Resolved) -> float:
    """How many times longer work takes where trainers on CPUs have more threads than cores to use; 1 where not."""
    on_host = config.device == accelerator.HOST
    return max(1.0, config.trainers_here * config.threads / usable_cores()) if on_host else 1.0


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
    seconds = seconds_of_weights(work, by) + max(seconds_of_bytes(counts, by) for counts in sent)
    for layer, width in enumerate(widths, start=1):
        seconds += collectives(plan, width) * by.message
        for of_all, back, times in ((width.forward, False, width.forwards), (width.backward, True, 1)):
            for columns in plan.widths(of_all, in_slices=width.in_slices):
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
    seconds = (
        seconds_of_weights(work, by) + messages * by.message + max(seconds_of_bytes(counts, by) for counts in sent)
    )
    for width in widths:
        for columns in (width.forward, width.backward):
            numbers = columns * work.row_itemsize / 4
            seconds += edges / work.trainers * by.of_edge(numbers, np.array([4 * rows * numbers]))
    return seconds


def collectives(plan: GridPlan, width: Widths) -> float:
    """Collectives around the sums of one layer, forward and backward, in messages, by how many take part in each.

    All-to-alls that all wait for take longer than broadcasts, all at once, and than an all-to-all of rows while the
    own ones are summed.
    """
    if plan.algorithm == "shared" or plan.grid.world == 1:
        return 0.0

    def waited_for(size: int) -> float:
        return 2.5 + 1.25 * size if size > 1 else 0.0

    def beside(size: int) -> float:
        return 2.4 + 0.6 * size if size > 1 else 0.0

    forwards, backwards = (
        sum(columns > 0 for columns in plan.widths(of_all, in_slices=width.in_slices))
        for of_all in (width.forward, width.backward)
    )
    forwards *= width.forwards
    if plan.of_all_sources:
        return (forwards + backwards) * beside(plan.grid.world)
    rows, columns, features = plan.sizes
    around = 2 * waited_for(features)
    if plan.graph_moves:  # pointers of all, and edges of one after another
        around += 2 * beside(features)
    forward, backward = beside(rows) + waited_for(columns), beside(columns) + waited_for(rows)
    of_scores = 3 * (beside(columns) + waited_for(columns)) if width.heads else 0.0
    return forwards * (around + forward) + backwards * (around + backward) + of_scores


def seconds_of_bytes(counts: Mapping[str, int], by: MachinePrices) -> float:
    """Seconds of what a trainer sends, with the copies of it."""
    by_move = {move: sent_bytes(counts, move) for move in COPIES}
    of_rows = sent_bytes(counts) - sum(by_move.values())
    copies = of_rows * OF_ROWS + sum(COPIES[move] * number for move, number in by_move.items())
    saved = (1 - BY_BROADCAST) * sum(by_move[move] for move in BROADCAST)
    return (sent_bytes(counts) - saved) * by.sent_byte + copies * by.copied_byte


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
    edges += edges_for_others(plan, work, rank, layer)
    level, of_number = layer if back else layer - 1, work.row_itemsize / 4
    own = int(work.sizes[rank, level]) * columns * work.row_itemsize
    if plan.algorithm == "shared" and not work.attends:
        given = int(work.sizes[:, level].sum())
        panel = columns
        if work.trainers > 1:
            panel = columns_of_panel(given, columns, work.row_itemsize, cache_bytes())
        seconds = own * by.copied_byte + (MEETING * by.message if work.trainers > 1 else 0)
    else:
        panel = shares(columns, plan.grid.size(FEATURES))[plan.grid.coordinate(rank, FEATURES)]
        passes = FACTORS * (work.scales and not plan.of_all_sources)
        copied, columns = made * panel * work.row_itemsize + own * passes, panel
        seconds = copied * by.copied_byte
    if not panel:
        return seconds
    numbers = panel * of_number
    return seconds + edges * columns / panel * by.of_edge(numbers, 4 * numbers * np.minimum(given, work.near))
