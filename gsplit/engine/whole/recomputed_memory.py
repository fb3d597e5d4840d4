"""What a step takes of the host's memory where layers are computed again (:mod:`gsplit.engine.whole.recomputing`).

Of SAGE, GCN and GAT, with or without normalisation, a walk over the layers: at layer l the inputs of the layers up
to l are alive, and beside them

| when | numbers |
|---|---|
| forward | what its sums have at once, or sums and products, or products and what stands behind them |
| activation, backward | the gradient that comes, and the one that goes |
| computed again | the gradient, and what its sums have at once, or what its normalisation has |
| product, backward | the gradient and the sums; gradients of rows are written over the rows, but with normalisation |
| sums, backward | in place of its input gradients of it, of the sums, and what moves have at once |
| attention | rows of sources, scores and shares, while all else is computed again, and in backward |

What moves have at once is a slice of columns wide, beside all of the sums, but of attention. In place of results a
bit a value is kept of each activation. Of other models what is said is a bound.

Legend: A rows of the level of a layer, B of the one below, in numbers.
"""

from __future__ import annotations

from typing_extensions import override

from gsplit import _core
from gsplit.engine.whole.private_memory import attended, block_of, exchanged, exchanges
from gsplit.engine.whole.work import Work
from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan
from gsplit.nn.rowwise.products import piece_rows

AT_NORMS = 3
"""Tensors like a layer's rows that are alive at most when it is computed again and its normalisation goes back: the
gradient, sums, and products, over which theirs is written; one more where a layer multiplies own rows beside."""
AT_NORMS_ATTENDING = {"none": 3, "layer": 4, "rms": 4, "batch": 4}
"""The same of a layer of GAT, beside what its attention keeps; ELU's result is kept, and so all is computed again."""
EDGES_AT_ONCE = 2
"""Numbers of each edge and head that attention has at once in backward, beside its shares."""
SMALL = 1.02
"""Numbers of rows, edges and weights, over those of values."""


def is_exact(work: Work) -> bool:
    """Return whether what a step takes is said within 15 per cent, and not as a bound."""
    other = work.drops_shares or work.projection or work.head or work.skips or work.trained or work.drops_input
    by_core = work.row_itemsize == work.itemsize == 4 and _core.has_wide_products()  # gradients go over their rows
    return work.recomputes and bool(work.kept or work.heads) and not other and by_core


def recomputed_step_bytes(plan: GridPlan, work: Work, rank: int) -> int:
    """Bytes of what is kept for backward, and of the layer that takes most beside it."""
    kept = most = 0
    sizes = work.sizes[rank]
    for number in range(1, work.layers + 1):
        layer = (_Attending if work.heads else _Numbers)(plan, work, rank, number)
        most = max(most, kept + layer.most())
        kept += layer.after
    signs = sum(int(sizes[layer]) * -(-work.widths[layer] // 8) for layer in range(1, work.layers))
    beside = work.parameters * work.itemsize + 4 * int(sizes[-1]) * work.widths[-1] * work.itemsize
    return int(SMALL * (most * work.itemsize + signs)) + beside + 2 * work.itemsize * int(sizes[0])


class OfLayer:
    """Rows and widths of one layer on one trainer, and the numbers that these make."""

    def __init__(self, plan: GridPlan, work: Work, rank: int, number: int) -> None:
        self.plan, self.work, self.rank, self.number = plan, work, rank, number
        self.rows, self.sources = (int(work.sizes[rank, level]) for level in (number, number - 1))
        self.wide, self.out = work.inputs(number), work.outputs(number)
        self.summed = work.projected[number - 1] if work.heads else min(self.wide, self.out)
        self.after, self.before = self.rows * self.out, self.sources * self.wide
        self.sums = self.rows * self.wide


class _Numbers(OfLayer):
    """Numbers of one layer on one trainer, beside the inputs of the layers up to it."""

    def most(self) -> int:
        """The most that it has at once."""
        work, after = self.work, self.after
        if self.number == work.layers:
            return self._last()
        norms = (AT_NORMS + work.keeps_rows) * after if work.norm != "none" else 0
        if self.number == 1:  # its sums are kept, and gradients of features not wanted
            return max(2 * after, norms - after)
        forward = max(self._forward(), 2 * after + piece_rows(self.rows) * self.out * work.keeps_rows)
        products = after + self.sums
        if work.norm != "none":
            products += self.sums + self.before * work.keeps_rows
        backward = self._backward() + self.sums + self.before * work.keeps_rows
        return max(2 * after, after + self._forward(), forward, norms, products, backward - self.before)

    def _last(self) -> int:
        """Of the last one, which keeps what it has."""
        if self.summed < self.wide:
            moved = max(self._forward(), self._backward()) + self.sources * self.summed
            return max(moved + 3 * self.after, self.before + 2 * self.after)
        products = 2 * self.sums + self.before * self.work.keeps_rows + 2 * self.after
        own = self.before * self.work.keeps_rows
        return max(self._forward() + 2 * self.after, products, self._backward() + self.sums + own)

    def _forward(self) -> int:
        """Of sums, the result included, beside the rows that they are of."""
        plan, work, width = self.plan, self.work, self.summed
        if not exchanges(plan, work):
            return self.rows * width if plan.algorithm == "shared" else self._chain(forward=True)
        received, sent = exchanged(plan, work, self.rank, self.number)
        order = 2 * block_of(plan, work, self.rank, self.number)[0]  # of edges, twice four bytes
        widths = plan.widths(width, in_slices=work.in_slices)
        at_once = max((sent + received) * max(widths), (received + self.rows) * max(widths) + order)
        return at_once + self.rows * width * (len(widths) > 1)

    def _backward(self) -> int:
        """Of gradients of sums, beside these."""
        plan, work, width = self.plan, self.work, self.summed
        if not exchanges(plan, work):
            return self.sources * width if plan.algorithm == "shared" else self._chain(forward=False)
        received, sent = exchanged(plan, work, self.rank, self.number)
        widths = plan.widths(width, in_slices=work.in_slices)
        at_once = max(received + sent, sent + self.sources) * max(widths)
        return at_once + self.sources * width * (len(widths) > 1)

    def _chain(self, *, forward: bool) -> int:
        """Of a chain of moves on a grid, a slice of columns after another."""
        grid, sizes = self.plan.grid, self.work.sizes
        _, _, rows, sources = block_of(self.plan, self.work, self.rank, self.number)
        gathers, scatters, split = (grid.size(axis) for axis in (ROWS, COLUMNS, FEATURES))
        given, wanted = self.number - 1, self.number
        if not forward:
            rows, sources, gathers, scatters, given, wanted = sources, rows, scatters, gathers, wanted, given
        widths = self.plan.widths(self.summed, in_slices=self.work.in_slices)
        width = max(widths)
        share, group = -(-width // split), list(grid.group(self.rank, FEATURES))
        columns, sums = (int(sizes[group, level].sum()) * share for level in (given, wanted))
        own, result = (int(sizes[self.rank, level]) * width for level in (given, wanted))
        now = own * (self.work.scales or not forward)  # multiplied by factors
        at_once = [now]
        if split > 1:
            at_once += [now + own, own + columns]
            now = columns
        if gathers > 1:
            at_once.append(now + sources * share)
            now = sources * share
        at_once.append(now + rows * share)
        now = rows * share
        if scatters > 1:
            at_once += [now + (sums if scatters == 2 else scatters * sums), (scatters > 2) * (scatters + 1) * sums]
            now = sums
        if split > 1:
            at_once += [now + result, 2 * result]
        return max(at_once) + int(sizes[self.rank, wanted]) * self.summed * (len(widths) > 1)


class _Attending(_Numbers):
    """Of a layer of GAT."""

    @override
    def most(self) -> int:
        work, after = self.work, self.after
        rows, of_edges = attended(self.plan, work, self.rank, self.number)
        last = self.number == work.layers
        norms = 0 if last else AT_NORMS_ATTENDING[work.norm] * after
        before = self.before if last else 0  # of others the gradient takes the place of what is kept
        at_work = max(self._again(), self._back(of_edges))
        return rows + of_edges + max(norms, at_work) + before

    def _again(self) -> int:
        """While it is computed again, beside what it keeps: the gradient that waits, projections, sums, results."""
        plan, summed = self.plan, self.summed
        own = self.rows * summed
        if exchanges(plan, self.work):
            sent = exchanged(plan, self.work, self.rank, self.number)[1]
            return self.after + max(sent * summed, 2 * own)
        columns, split = plan.grid.size(COLUMNS), plan.grid.size(FEATURES)
        summing = self._of_block()
        projected = self.sources * summed * (1 + (split > 1))
        scattered = summing + own * ((columns if columns > 2 else 1) * (columns > 1))
        return self.after + max(projected, scattered, 2 * own)

    def _back(self, of_edges: int) -> int:
        """Of its gradients, beside what it keeps; rows have gone when gradients of them are taken."""
        plan, work, summed = self.plan, self.work, self.summed
        if exchanges(plan, work):
            received, sent = exchanged(plan, work, self.rank, self.number)
            rows = (self.rows + self.sources + received + sent) * summed
            return EDGES_AT_ONCE * of_edges + rows + 2 * self.after
        gathers, columns, split = (plan.grid.size(axis) for axis in (ROWS, COLUMNS, FEATURES))
        summing = self._of_block()
        edges, _, rows, sources = block_of(plan, work, self.rank, self.number)
        of_scores = (rows * (3 if columns > 1 else 1) + sources) * work.heads // split
        came = summing * (columns * split > 1) + of_scores
        at_scores = of_edges * (1 + (columns > 1)) + edges * (columns > 1)
        home = self.sources * summed * max(gathers > 1, (split > 1) * 2) - of_edges
        return self.after + max(came + at_scores, home)

    def _of_block(self) -> int:
        """Numbers of the rows that a trainer of a grid sums."""
        rows = block_of(self.plan, self.work, self.rank, self.number)[2]
        return rows * (self.summed // self.plan.grid.size(FEATURES))
