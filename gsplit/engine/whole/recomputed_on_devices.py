"""What a step takes of a device where layers are computed again (:mod:`gsplit.engine.whole.recomputing`).

The walk of :mod:`gsplit.engine.whole.recomputed_memory`, with what PyTorch's operations have in place of the core's:

| when | beside |
|---|---|
| sums | of a slice of columns, or of a head, the result, and rows that lie apart once more |
| activation, forward | rows, what is left of them, and two bytes a value, of which two bits are kept |
| activation, backward | the gradient that comes, and the one that goes, and three bytes a value |
| edges | what is sorted while edges from own rows are told from others, where rows are exchanged |
| turning | in the first step, but of sums on grids: what a sort has, when layers below have no edges turned round |

Legend: A rows of the level of a layer, B of the one below, in numbers.
"""

from __future__ import annotations

from typing_extensions import override

from gsplit.engine.whole.private_memory import attended, block_of, exchanged, exchanges, sends_covers, turned_bytes
from gsplit.engine.whole.recomputed_memory import OfLayer
from gsplit.engine.whole.work import Work
from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan

TURNING_BYTES = 30
"""Bytes of an edge while a block is turned round: sorted sources, their places and rows, and what a sort has."""
BAG_BYTES = 4
"""Bytes an edge of the row that it is summed into."""
SPLIT_BYTES = 18
"""Bytes an edge while those from own rows are told from the others: their order as int64, places and halves."""
SCORES, ROWS_BYTES = 5, 8
"""Numbers an edge and head that attention has at once in backward beside its shares, and bytes an edge of rows."""
MASKS_FORWARD, MASKS_BACKWARD, MARKS = 2, 3, 1 / 4
"""Bytes a value of masks of ReLU and dropout at once, forward and backward, and of what is kept of them."""
AT_NORMS = {"none": 0.0, "layer": 3.8, "batch": 5.8, "rms": 5.7}
"""Tensors like a layer's rows that are alive where one with norms is computed again and goes back, beside inputs."""
SMALL = 1.05
"""What there is of small tensors, over what is counted."""


def is_exact(plan: GridPlan, work: Work) -> bool:
    """Return whether what a step takes is said within 15 per cent, and not as a bound."""
    other = work.drops_shares or work.projection or work.head or work.skips or work.trained or work.drops_input
    moves = plan.graph_moves or sends_covers(plan, work) or work.weights
    ours = work.recomputes and bool(work.kept or work.heads) and plan.algorithm != "rotate"
    return ours and not other and not moves and work.row_itemsize == work.itemsize == 4


def recomputed_step_bytes(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of what is kept for backward, and of the layer that takes most beside it."""
    kept = most = 0.0
    for number in range(1, work.layers + 1):
        layer = (_Attending if work.heads else _Numbers)(plan, work, rank, number)
        most = max(most, kept + layer.most())
        if exchanges(plan, work) or work.heads:
            most = max(most, kept + layer.turns())
        kept += layer.after + layer.marks
    beside = 4 * int(work.sizes[rank, -1]) * work.widths[-1]
    return int((SMALL * most + beside) * work.itemsize)


class _Numbers(OfLayer):
    """Numbers of one layer on one trainer, beside the inputs of the layers up to it."""

    def __init__(self, plan: GridPlan, work: Work, rank: int, number: int) -> None:
        super().__init__(plan, work, rank, number)
        self.edges = block_of(plan, work, rank, number)[0]
        self.widths = plan.widths(self.summed, in_slices=work.in_slices)

    @property
    def marks(self) -> float:
        """What is kept of an activation: of ReLU marks, of ELU nothing."""
        return 0 if self.work.heads else self.after * MARKS / self.work.itemsize

    def most(self) -> float:
        """The most that it has at once."""
        work, after = self.work, self.after
        if self.number == work.layers:
            return self._last()
        norms = (AT_NORMS[work.norm] + (work.norm == "rms" and work.keeps_rows)) * after
        activates = 2 * after + after * MASKS_FORWARD / work.itemsize
        back = 2 * after + after * MASKS_BACKWARD / work.itemsize
        if self.number == 1:  # its sums are kept, and gradients of features not wanted
            return max(activates, back, norms - after)
        own = self.before * work.keeps_rows
        products = self.sums + (1 + work.keeps_rows) * after
        again = after + self._forward()
        backward = self._backward() + self.sums + own - self.before
        return max(self._forward(), products, activates, back, again, after + self.sums, backward, norms)

    def turns(self) -> float:
        """While its block is turned round, with gradients that wait; those of layers below are not there yet."""
        plan, work, rank, number = self.plan, self.work, self.rank, self.number
        if number == 1 and work.kept:
            return 0
        edges = TURNING_BYTES * block_of(plan, work, rank, number)[1] - turned_bytes(plan, work, rank, number)
        return 2 * self.rows * self.summed + edges / work.itemsize

    def _last(self) -> float:
        """Of the last one, which keeps what it has."""
        own = self.before * self.work.keeps_rows
        if self.summed < self.wide:
            moved = max(self._forward(), self._backward()) + self.sources * self.summed
            return max(moved + 3 * self.after, self.before + own + 3 * self.after + self.sources * self.summed)
        products = 2 * self.sums + own + 2 * self.after
        return max(self._forward() + 2 * self.after, products, self._backward() + self.sums + own)

    def _of_edges(self, num_bytes: float) -> float:
        return self.edges * num_bytes / self.work.itemsize

    def _result(self, rows: int) -> int:
        """Numbers of all columns of sums, of which a slice is counted elsewhere."""
        return rows * self.summed * (len(self.widths) > 1)

    def _forward(self) -> float:
        """Of sums, the result included, beside the rows that they are of."""
        plan, work, width = self.plan, self.work, max(self.widths)
        if not exchanges(plan, work):
            return self._chain(forward=True)
        received, sent = exchanged(plan, work, self.rank, self.number)
        apart = (received + self.rows) * width + self._of_edges(SPLIT_BYTES * (plan.grid.world > 1))
        copied = self.sources * (len(self.widths) > 1)
        summing = (received + 2 * self.rows + copied) * width + self._of_edges(2 * BAG_BYTES)
        return self._result(self.rows) + max((sent + received) * width, apart, summing)

    def _backward(self) -> float:
        """Of gradients of sums, beside these."""
        plan, work, width = self.plan, self.work, max(self.widths)
        if not exchanges(plan, work):
            return self._chain(forward=False)
        received, sent = exchanged(plan, work, self.rank, self.number)
        copied = self.rows * (len(self.widths) > 1)
        summing = max(2 * received + copied, received + sent, sent + 2 * self.sources + copied)
        adding = self.sources + sent * (3 if work.scales else 1)
        factors = work.itemsize * (work.keeps_rows or work.scales)  # of a mean, or a GCN's
        return self._result(self.sources) + max(summing, adding) * width + self._of_edges(BAG_BYTES + factors)

    def _chain(self, *, forward: bool) -> float:
        """Of a chain of moves on a grid, a slice of columns after another."""
        grid, sizes = self.plan.grid, self.work.sizes
        _, _, rows, sources = block_of(self.plan, self.work, self.rank, self.number)
        gathers, scatters, split = (grid.size(axis) for axis in (ROWS, COLUMNS, FEATURES))
        given, wanted = self.number - 1, self.number
        if not forward:
            rows, sources, gathers, scatters, given, wanted = sources, rows, scatters, gathers, wanted, given
        width = max(self.widths)
        share, group = -(-width // split), list(grid.group(self.rank, FEATURES))
        columns, sums = (int(sizes[group, level].sum()) * share for level in (given, wanted))
        own, result = (int(sizes[self.rank, level]) * width for level in (given, wanted))
        now = own * (self.work.scales or not forward)  # multiplied by factors
        at_once: list[float] = [now]
        if split > 1:
            at_once += [now + own + columns + own // split + 2 * rows * share]
            now += columns
        if gathers > 1:
            now += sources * share
        at_once.append(now + 2 * rows * share + self._of_edges(BAG_BYTES / 2))  # half are summed before
        if scatters > 1:
            at_once.append(now + (rows * share) + (scatters + 1) * sums)
            now += scatters * sums
        if split > 1:
            at_once.append(now + rows * share + 2 * result)
        return max(at_once) + self._result(int(sizes[self.rank, wanted]))


class _Attending(_Numbers):
    """Of a layer of GAT."""

    @override
    def most(self) -> float:
        work, after = self.work, self.after
        rows, of_edges = attended(self.plan, work, self.rank, self.number)
        ends = 4 * after + after / work.itemsize  # the gradient, and rows with ELU's, and what is left of them
        norms = (AT_NORMS[work.norm] + 1.1) * after
        last = self.number == work.layers
        at_work = max(self._again(), self._back(of_edges))
        return rows + of_edges + max(at_work, 0 if last else max(ends, norms)) + (self.before if last else 0)

    @override
    def turns(self) -> float:
        return super().turns() + sum(attended(self.plan, self.work, self.rank, self.number))

    @property
    def _of_head(self) -> float:
        return 1 / max(1, self.work.heads // self.plan.grid.size(FEATURES))

    def _again(self) -> float:
        """While it is computed again, beside what it keeps: the gradient that waits, and sums."""
        own = self.rows * self.summed
        if exchanges(self.plan, self.work):
            received, sent = exchanged(self.plan, self.work, self.rank, self.number)
            sources = (self.sources + received) * self.summed
            return self.after + max(sent * self.summed, own + (own + sources) * self._of_head)
        rows, sources = self._of_block()
        scattered = rows + own * self.plan.grid.size(COLUMNS)
        return self.after + max(rows + (rows + sources) * self._of_head, scattered)

    def _back(self, of_edges: int) -> float:
        """Of its gradients, beside what it keeps."""
        plan, work, summed = self.plan, self.work, self.summed
        at_scores = SCORES * of_edges + self._of_edges(ROWS_BYTES + of_edges // max(1, self.edges))
        own, sources = self.rows * summed, self.sources * summed
        if exchanges(plan, work):
            received, sent = exchanged(plan, work, self.rank, self.number)
            there = 2 * own * work.loops + (received + sent) * summed
            adding = there + sources + (sources + own) * self._of_head + 2.5 * of_edges
            return self.after + max(adding, own * work.loops + at_scores)
        rows, of_sources = self._of_block()
        came = rows * (plan.grid.size(COLUMNS) * plan.grid.size(FEATURES) > 1)
        home = sources * (2 if plan.grid.size(FEATURES) > 1 else 1) * (plan.grid.size(ROWS) > 1)
        # Rows have gone when gradients of them are taken; what is added up comes beside what is sent, piece by piece.
        came += own * (plan.grid.size(COLUMNS) > 1 and plan.grid.size(ROWS) > 1)
        return self.after + max(came + at_scores, came + of_edges + (of_sources + rows) * self._of_head, home)

    def _of_block(self) -> tuple[int, int]:
        """Numbers of rows that a trainer of a grid sums, and of their sources."""
        _, _, rows, sources = block_of(self.plan, self.work, self.rank, self.number)
        share = self.summed // self.plan.grid.size(FEATURES)
        return rows * share, sources * share
