"""What a trainer takes of its device under a plan: the tensors of the layer that takes most, and all that stay.

| what | bytes |
|---|---|
| stays | weights, edges, rows at rest: as on the host (:mod:`gsplit.engine.whole.private_memory`) |
| turning | edges alone, and what a sort has beside them, before the features come |
| first sum | as on the host; where rows came, own rows and those are joined first |
| step | a walk over the layers: what those below keep for backward, and what this one has at once |
| evaluation | a chunk of the layer that takes most |

The last three come one after another. The walk follows the tensors of each model: a device keeps the result of an
activation (of ELU: what it was given) and a mask of what was dropped, a byte a number; the CPU has one pass, which
keeps its result alone. Rows that were dropped of are others than those of the activation: SAGE and GAT keep them for
the gradients of their weights, GCN has them until its sums are taken. Sums are those of PyTorch's operations; kernels
of Triton's take less. In mixed precision hidden rows are counted in float32, which is above what they take. Freed
memory that an allocator cannot use again is counted where devices are asked for room.

Legend: A rows of the level of a layer, B of the one below, R rows that came, S rows that were sent, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gsplit.engine.whole.private_memory import (
    attended,
    block_of,
    coming_bytes,
    edge_bytes,
    edges_for_others,
    edges_of_layer,
    exchanged,
    exchanges,
    first_words,
    rows_of_chunk,
    sends_covers,
    stays_bytes,
    turned_bytes,
)
from gsplit.engine.whole.recomputed_on_devices import TURNING_BYTES, is_exact, recomputed_step_bytes
from gsplit.engine.whole.work import Work
from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan

ON_DEVICES = 1.05
"""What is left for small tensors, over what is counted of a step."""
MOST_OVER = 1.35
"""The price of a plan on a device over what it takes, at most, by tests."""
SCORES = 6
"""Numbers an edge and head that attention has at once, beside its shares: of scores and their gradients."""
BAG_BYTES = 4
"""Bytes an edge of the row that it is summed into."""
IDS_BYTES = 16
"""Bytes an edge of a chunk of evaluation, of rows and sources as int64, where edges have numbers of their own."""
SEGMENT_BYTES = 6
"""The same where they have none."""
ROUTE_BYTES = 20
"""Bytes an edge of sums for others while these edges are turned round."""
ROWS_BYTES = 10
"""Bytes an edge of rows, places and signs, while gradients of shares are taken."""


def device_peak(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of tensors that a trainer has on its device at most."""
    item, first_edges = work.itemsize, edge_bytes(plan, work, rank)[0]
    kept = int(work.sizes[rank, 1]) * work.widths[0] * item if work.kept else 0
    first, step = 0, first_edges
    if is_exact(plan, work):
        step += recomputed_step_bytes(plan, work, rank) - work.parameters * item  # a copy less than at its end
    else:
        step += int(ON_DEVICES * plan_step_bytes(plan, work, rank))
    if work.kept:
        first = first_edges + _first_sum(plan, work, rank) * item + coming_bytes(plan, work, rank, 1)
        # The edges go after the first step; what Adam keeps comes with it.
        step -= min(first_edges, 2 * work.parameters * item)
    evaluation = evaluation_on_device(work, rank) + first_edges  # which go when the next epoch begins
    most = stays_bytes(plan, work, rank) + _pointers(plan, work, rank) + max(first, kept + max(step, evaluation))
    return max(most, 0 if exchanges(plan, work) or plan.graph_moves else _turning_bytes(plan, work, rank))


def _first_sum(plan: GridPlan, work: Work, rank: int) -> int:
    """Numbers that a first sum has at once, where it is kept, the sums themselves included."""
    width = max(widths := plan.widths(work.widths[0], in_slices=work.in_slices))
    layer = replace(Layer.of(plan, work, rank, 1), summed=width)
    result = layer.after * work.widths[0] * (len(widths) > 1)
    if exchanges(plan, work):
        return layer._forward() + result
    chain = layer.before * width * work.scales + layer._chain(forward=True)
    return max(first_words(plan, work, rank), chain + result)


def _pointers(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of pointers of a grid's edges that are cut for moves to go on meanwhile: of each part as of all."""
    if plan.of_all_sources or plan.graph_moves or work.heads:
        return 0
    found = {}
    for layer in range(1, work.layers + 1):
        name, _, back = edges_of_layer(plan, work, rank, layer)
        _, _, rows, sources = block_of(plan, work, rank, layer)
        found[name] = 4 * (rows + sources * bool(back))
    return sum(found.values())


def _turning_bytes(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes while a grid's blocks are turned round, one after the other, before the features come."""
    held, most, found = work.parameters * work.itemsize, 0, set()
    for layer in range(1, work.layers + 1):
        name, there, back = edges_of_layer(plan, work, rank, layer)
        if name not in found:
            found.add(name)
            most = max(most, held + there + TURNING_BYTES * block_of(plan, work, rank, layer)[1] * bool(back))
            held += there + back
    return most


def plan_step_bytes(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of what layers keep for backward, with those of the layer that takes most beside.

    Where rows are exchanged blocks are turned round in the first step, those of the last layer first.
    """
    kept = most = 0
    for number in range(1, work.layers + 1):
        layer = Layer.of(plan, work, rank, number)
        most = max(most, kept + layer.sums(), kept + layer.gradients())
        if (exchanges(plan, work) or work.heads) and not layer.is_free:
            most = max(most, kept + layer.turns() - turned_bytes(plan, work, rank, number))
        most = max(most, kept + layer.keeps() + layer.activates())
        kept += layer.leaves() if work.recomputes and number < work.layers else layer.keeps()
    return most


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer on one trainer."""

    plan: GridPlan
    """The plan."""
    work: Work
    """What the run computes."""
    rank: int
    """The trainer."""
    number: int
    """The layer, 1 .. L."""
    before: int
    """B."""
    after: int
    """A."""
    received: int
    """R."""
    sent: int
    """S."""
    wide: int
    """Width of the rows that come in."""
    out: int
    """Width of the rows that the convolution gives."""
    summed: int
    """Width of the rows that are summed."""

    @classmethod
    def of(cls, plan: GridPlan, work: Work, rank: int, number: int) -> Layer:
        """A layer of a run."""
        wide, out = work.inputs(number), work.outputs(number)
        received, sent = exchanged(plan, work, rank, number) if exchanges(plan, work) else (0, 0)
        return cls(
            plan=plan,
            work=work,
            rank=rank,
            number=number,
            before=int(work.sizes[rank, number - 1]),
            after=int(work.sizes[rank, number]),
            received=received,
            sent=sent,
            wide=wide,
            out=out,
            summed=work.projected[number - 1] if work.heads else min(wide, out),
        )

    @property
    def is_free(self) -> bool:
        """True where its sums are kept."""
        return self.number == 1 and self.work.kept

    @property
    def is_last(self) -> bool:
        """True for the last one, with nothing behind it."""
        return self.number == self.work.layers and not self.work.head

    @property
    def fresh(self) -> int:
        """Numbers of the rows that come in, where the layer below has not counted them: dropped of, or ELU's."""
        work = self.work
        if self.number == 1:
            return self.before * self.wide * bool(work.drops_input or work.projection)
        return self.before * self.wide * bool(work.drops or work.heads)

    def keeps(self) -> int:
        """Bytes that it keeps for backward."""
        work, narrows = self.work, self.summed < self.wide
        words = 0 if self.is_free else self.after * self.wide
        if work.heads:
            rows, of_edges = attended(self.plan, work, self.rank, self.number)
            words = rows + 2 * self.after * work.heads + of_edges * (1 + work.drops_shares)
        elif narrows and not self.is_free:
            words = 0
        if work.keeps_rows or narrows:
            words += self.fresh
        if self.number == 1 and work.projection:
            words += self.before * self.wide
        if self.is_last:
            return (words + 2 * self.after * self.out) * work.itemsize
        words += self.after * self.out * (1 + work.by_norms)
        if self.number == work.layers:  # rows that are projected to logits, and what the loss keeps of these
            words += self.after * (self.out * bool(work.drops or work.heads) + 2 * work.widths[-1])
        return words * work.itemsize + self.after * self.out * work.drops

    def leaves(self) -> int:
        """Bytes of its rows, all that is kept of it where it is computed again."""
        return self.after * self.out * self.work.itemsize

    def activates(self) -> int:
        """Bytes beside, while its activation and dropout are computed, forward or backward."""
        work, rows = self.work, 0 if self.work.keeps_rows else self.fresh
        wide = self.out * (2 + work.norms + work.skips)
        if self.number == work.layers:
            wide = max(wide, 2 * work.widths[-1] + self.out * bool(work.head))
        return (rows + self.after * wide) * work.itemsize

    def sums(self) -> int:
        """Bytes of its sums in forward, with the rows that come in."""
        work = self.work
        if self.is_free:
            return self.after * self.out * work.itemsize
        words = self.fresh + self.before * self.summed * work.scales
        if work.heads or self.summed < self.wide:
            words += self.before * self.summed  # projected
        exchanging = exchanges(self.plan, work)
        if work.keeps_rows and (self.summed < self.wide if exchanging else not work.heads):
            words += self.after * self.out  # of the own rows
        return (words + self._forward()) * work.itemsize + self._of_edges()

    def gradients(self) -> int:
        """Bytes of its gradients, and of what it has kept until they are taken."""
        work, before, after, summed = self.work, self.before, self.after, self.summed
        if self.is_free:
            return 2 * after * self.out * work.itemsize
        rows, skipping = before + self.received, before * self.wide * work.skips
        if work.heads:
            waiting, of_edges = self.keeps() // work.itemsize + after * summed, self._of_edges()
            if work.recomputes and not self.is_last:  # what stands behind attention has gone back
                waiting -= after * self.out * (1 + work.by_norms)
            words = self.fresh + rows * summed + 2 * before * self.wide
            if exchanges(self.plan, work):
                beside = (2 * after * work.loops + self.received + self.sent + before) * summed
                words = max(words, waiting + beside + (before + after) * summed // work.heads)
            else:  # gradients of scores have gone when those of rows are taken
                grid = self.plan.grid
                _, _, gathered, sources = block_of(self.plan, work, self.rank, self.number)
                share = -(-summed // grid.size(FEATURES))
                if grid.size(COLUMNS) > 1 and not work.recomputes:  # the first piece of gradients of rows is there
                    gathered += sources // (grid.size(ROWS) if grid.size(ROWS) > 1 else grid.size(FEATURES))
                words = max(words, waiting + gathered * share)
                words = max(words, waiting + self._chain(forward=False) - of_edges // 2 // work.itemsize)
            return (skipping + words) * work.itemsize + of_edges
        if work.keeps_rows:  # gradients of the own rows, or what they are taken of
            waiting = after * summed if exchanges(self.plan, work) else self.fresh + after * self.out
        else:
            waiting = before * summed
        of_sums = after * summed + waiting + self._backward()
        if summed < self.wide:
            of_product = (after + rows) * summed + self.fresh + before * self.wide
        else:
            of_product = (
                (self.fresh + after * self.wide) + after * self.out + (1 + work.keeps_rows) * after * self.wide
            ) + self._sets_out()
        of_rows = (3 * before + self.received) * summed
        return (skipping + max(of_sums, of_product, of_rows)) * work.itemsize + self._of_edges()

    def turns(self) -> int:
        """Bytes while its block is turned round, with the gradients that wait."""
        edges = block_of(self.plan, self.work, self.rank, self.number)[1]
        return 2 * self.after * self.summed * self.work.itemsize + TURNING_BYTES * edges

    def _of_edges(self) -> int:
        """Bytes of numbers of edges: of factors, or of attention's scores."""
        work, edges = self.work, block_of(self.plan, self.work, self.rank, self.number)[0]
        if work.heads:
            of_edges = attended(self.plan, work, self.rank, self.number)[1]
            return of_edges * SCORES * work.itemsize + edges * ROWS_BYTES
        if self.plan.graph_moves:  # one member's at a time
            edges = -(-edges // self.plan.grid.size(FEATURES))
        coming = coming_bytes(self.plan, work, self.rank, self.number)
        return coming + edges * (BAG_BYTES + work.itemsize * self._scales_edges)

    @property
    def _scales_edges(self) -> bool:
        """True where rows are multiplied by numbers of edges while they are summed: weights, factors of sums."""
        by_factors = self.work.keeps_rows or self.work.scales  # a mean's in backward, a GCN's
        return self.work.weights or (by_factors and exchanges(self.plan, self.work))

    def _forward(self) -> int:
        """Numbers of what is sent and comes, and of sums."""
        if not exchanges(self.plan, self.work):
            return self._chain(forward=True)
        sums = (2 if self.work.row_itemsize == self.work.itemsize else 3) * self.after
        made = 2 * self.sent * (self.work.scales or sends_covers(self.plan, self.work))  # sums, which are copied
        return max(made, self.received + self.sent + sums) * self.summed

    def _backward(self) -> int:
        """Numbers of gradients of all sources, and of what comes back."""
        if not exchanges(self.plan, self.work):
            return self._chain(forward=False) + self.after * self.summed  # multiplied by factors
        wider, sends_sums = self.work.row_itemsize < self.work.itemsize, sends_covers(self.plan, self.work)
        summing = self.sent + (2 + wider) * self.before
        scaled = 2 * self.sent * (self.work.scales and not sends_sums)
        adding = self.sent + scaled + self.before * (1 + sends_sums)
        turned = edges_for_others(self.plan, self.work, self.rank, self.number) * ROUTE_BYTES // self.work.itemsize
        return (self.received + max(self.received, summing, adding)) * self.summed + turned

    def _sets_out(self) -> int:
        """Numbers of gradients of sums that are on their way while those of weights are computed, on a grid."""
        plan, work = self.plan, self.work
        if exchanges(plan, work) or work.recomputes or plan.grid.world == 1:
            return 0
        own = self.after * self.summed  # multiplied by factors
        if plan.grid.size(FEATURES) > 1:
            group = list(plan.grid.group(self.rank, FEATURES))
            return 2 * own + int(work.sizes[group, self.number].sum()) * -(-self.summed // len(group))
        if plan.grid.size(COLUMNS) > 1:
            return own + block_of(plan, work, self.rank, self.number)[2] * self.summed
        return own + self._chain(forward=False)

    def _chain(self, *, forward: bool) -> int:
        """Numbers of a grid's chain of moves: own rows, columns, gathered rows, products, sums, own rows."""
        grid, sizes = self.plan.grid, self.work.sizes
        _, _, summed, sources = block_of(self.plan, self.work, self.rank, self.number)
        gathers, scatters = grid.size(ROWS), grid.size(COLUMNS)
        given, wanted = self.number - 1, self.number
        if not forward:
            summed, sources, gathers, scatters, given, wanted = sources, summed, scatters, gathers, wanted, given
        split = grid.size(FEATURES)
        share = -(-self.summed // split)
        group = list(grid.group(self.rank, FEATURES))
        columns, sums = (int(sizes[group, level].sum()) * share for level in (given, wanted))
        own, result = (int(sizes[self.rank, level]) * self.summed for level in (given, wanted))
        first = columns if split > 1 else 0
        there = first + (sources * share if gathers > 1 else 0)
        products = summed * share
        heads = max(1, self.work.heads // split)
        beside = products if heads == 1 else (products + sources * share) // heads  # a head after another is summed
        most = there + products + beside + products * self.work.weights
        one_by_one = self.plan.graph_moves or self.work.heads
        if split > 1 and not one_by_one:  # what is sent is there while the own columns are summed
            most = max(most, own + first + own // split + products + beside)
        if scatters > 1:
            most = max(most, there + products + (scatters + 1) * sums + (result if split > 1 else 0))
        if split > 1:
            most = max(most, (0 if one_by_one else there) + products + (sums if scatters > 1 else 0) + 2 * result)
        return most


def evaluation_on_device(work: Work, rank: int) -> int:
    """Bytes of a chunk of evaluation, of the layer that takes most."""
    most = 0
    for layer in range(1, work.layers + 1) if work.evaluates else ():
        wide, out = work.inputs(layer), work.outputs(layer)
        of_row = work.itemsize if layer == 1 else work.level_itemsize
        edges, sources, rows = rows_of_chunk(work, rank, work.widths[layer - 1], of_row)
        summed = work.projected[layer - 1] if work.heads else min(wide, out)
        words = sources * (wide + summed * bool(work.heads or summed < wide))
        words += sources * work.widths[0] * bool(layer == 1 and work.projection)
        words += rows * (out * (work.keeps_rows and summed < wide) + wide * (layer > 1))  # with the chunk before
        if work.heads:  # a head after another is summed, of rows that lie apart
            of_sums = rows * summed + (sources + rows) * summed // work.heads + edges * work.heads
            words += max(of_sums, SCORES * edges * work.heads)
        else:
            words += rows * max(2 * summed, summed + 2 * out)
        by_edges = work.scales or work.weights or work.heads
        most = max(most, words * work.itemsize + (IDS_BYTES if by_edges else SEGMENT_BYTES) * edges)
    return most
