"""The most that a trainer takes of the host's memory: :mod:`gsplit.engine.whole.private_memory`, and in a step.

A step of layers that are computed again has a walk of its own (:mod:`gsplit.engine.whole.recomputed_memory`).
"""

from __future__ import annotations

from gsplit.engine.whole.private_memory import (
    attended,
    block_of,
    coming_bytes,
    edge_bytes,
    evaluation_bytes,
    exchanged,
    exchanges,
    first_words,
    making_bytes,
    moved_words,
    stays_bytes,
)
from gsplit.engine.whole.recomputed_memory import is_exact, recomputed_step_bytes
from gsplit.engine.whole.work import Work
from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan

UNUSED = 1.2
"""What the allocator has mapped over what is in use, where large pieces of several sizes come and go."""
ATTENTION = 3
"""Numbers of each edge and head that attention has at once, beside those that it keeps."""


def private_peak(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of private memory that a trainer takes at most."""
    item, first_edges = work.itemsize, edge_bytes(plan, work, rank)[0]
    first = first_edges + (
        first_words(plan, work, rank) * item + coming_bytes(plan, work, rank, 1) if work.kept else 0
    )
    beside = int(work.sizes[rank, 1]) * work.widths[0] * item if work.kept else first_edges
    step = beside + step_bytes(plan, work, rank)
    evaluation = beside + evaluation_bytes(work, rank)
    most = max(first, UNUSED * step, UNUSED * evaluation)
    return int(work.process_bytes + max(stays_bytes(plan, work, rank) + most, making_bytes(plan, work, rank)))


def step_bytes(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of what layers keep for backward, and of one that is computed beside those below it; the most of them."""
    if is_exact(work):
        return recomputed_step_bytes(plan, work, rank)
    kept, most, item = 0, 0, work.row_itemsize
    if work.projection and item < work.itemsize:  # features, rounded for the product
        kept += int(work.sizes[rank, 0]) * work.widths[0] * item
    for layer in range(1, work.layers + 1):
        before, after = (int(work.sizes[rank, level]) * work.widths[level] for level in (layer - 1, layer))
        free, moves = layer == 1 and work.kept, work.moved_itemsize(layer)
        keeps = after * (1 + work.between * (layer < work.layers)) * item
        if work.heads:
            rows, of_edges = attended(plan, work, rank, layer)
            keeps += (rows + (1 + work.drops_shares) * of_edges) * item
            at_work = (_attention_words(plan, work, rank, layer) + ATTENTION * of_edges + after) * item
        else:
            if not free and work.summed(layer) == work.widths[layer - 1]:
                keeps += before * moves  # scaled rows or sums, projected afterwards
            moved = 0 if free else moved_words(plan, work, rank, layer, work.summed(layer)) * moves
            at_work = moved + 3 * after * item + (0 if free else 2 * before * moves)
            at_work += 0 if free else coming_bytes(plan, work, rank, layer)
        if moves > item:  # the same of features and sums of them
            keeps += int(work.sizes[rank, 1]) * work.widths[0] * (1 + work.keeps_rows) * item
        most = max(most, kept + keeps + at_work)
        kept += after * item if work.recomputes and layer < work.layers else keeps
    return most


def _attention_words(plan: GridPlan, work: Work, rank: int, layer: int) -> int:
    """Numbers of rows that attention has at once in backward, beside those that it keeps: gradients, as they move."""
    summed, split = work.summed(layer), plan.grid.size(FEATURES)
    before, after = (int(work.sizes[rank, level]) for level in (layer - 1, layer))
    if exchanges(plan, work):
        received, sent = exchanged(plan, work, rank, layer)
        return (after + before + received + sent) * summed
    _, _, rows, sources = block_of(plan, work, rank, layer)
    given = int(work.sizes[list(plan.grid.group(rank, FEATURES)), layer - 1].sum())
    of_share = sources + (rows if split * plan.grid.size(COLUMNS) > 1 else 0)
    of_share += sources + given if plan.grid.size(ROWS) > 1 else 0
    return (after + (before if split > 1 else 0)) * summed + of_share * (summed // split)
