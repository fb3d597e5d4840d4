"""The same kernels made of PyTorch's own operations, for GPUs and for types that the core has not.

Legend: R rows of the result, S sources, E edges, D features, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from gsplit.kernels.sums import Edges, Kernels, Sums, computed_in, core_rests

BLOCK_EDGES = 32
"""Edges that are summed in the type of the rows, as in the core; blocks of so many are added in float64."""


class Library(Kernels):
    """PyTorch's operations, on any device and in any type: ``embedding_bag`` over the edges, forward and backward."""

    @override
    def transposed(self, edges: Edges, num_sources: int, *, order: bool) -> Edges:
        # Counting sources would ask a GPU for the largest, and the host would wait for it.
        source_E, at = torch.sort(edges.indices, stable=True)
        ends = torch.arange(num_sources + 1, dtype=source_E.dtype, device=source_E.device)
        indptr = torch.searchsorted(source_E, ends, out_int32=True)
        return Edges(indptr=indptr, indices=edges.rows()[at], order=at.int() if order else None)

    @override
    def split(self, edges: Edges, num_own: int, count: int | None = None, *, order: bool) -> tuple[Edges, Edges]:
        from_own_E = edges.indices < num_own
        own_indptr = F.pad(from_own_E.cumsum(0, dtype=torch.int32), (1, 0))[edges.indptr]
        at = torch.sort(from_own_E, descending=True, stable=True).indices  # nonzero() would wait for its size
        count = int(own_indptr[-1]) if count is None else count
        indices, places = edges.indices[at], at.int() if order else None

        def part(indptr: Tensor, begin: int, end: int, first: int) -> Edges:
            of_part = None if places is None else places[begin:end]
            return Edges(indptr=indptr, indices=indices[begin:end] - first, order=of_part)

        return part(own_indptr, 0, count, 0), part(edges.indptr - own_indptr, count, len(at), num_own)

    @override
    def sum(self, sums: Sums) -> None:
        edges = sums.edges
        by = None if sums.factor is None else sums.factor[edges.indices].unsqueeze(1)
        if sums.weight is not None:
            by_edge = sums.weight if edges.order is None else sums.weight[edges.order]
            by = by_edge if by is None else by * by_edge
        rows = _joined(sums.own, sums.received)
        # A sum of many float16 is more than float16 reaches, also where it is divided afterwards.
        rows = rows.float() if rows.dtype == torch.float16 else rows
        first = 0
        for part, of_head in _panels(rows, by):
            columns = slice(first, first := first + part.shape[1])
            self._sum_columns(sums, columns, self._bags(edges, part, of_head))

    @staticmethod
    def _sum_columns(sums: Sums, columns: slice, total: Tensor) -> None:
        """Write columns of sums, of which ``total`` [R, d] are over edges; that is written over where it can be."""
        out, start = sums.out[:, columns], sums.start
        if sums.degrees is not None:
            by = sums.degrees.clamp(min=1).unsqueeze(1)
            total = total.div_(by) if torch.result_type(total, by) == total.dtype else total / by
        if sums.scale is not None:
            by = sums.scale.unsqueeze(1)
            total = total.mul_(by) if torch.result_type(total, by) == total.dtype else total * by
        if start is not None:
            total = total.to(torch.promote_types(total.dtype, start.dtype))
            total[: len(start)] += _scaled_start(start[:, columns], sums.start_scale, out[: len(start)])
        out.copy_(total)

    def _bags(self, edges: Edges, x: Tensor, scale: Tensor | None) -> Tensor:
        """Sums [R, D] of rows of x, each multiplied by its edge's scale [E, heads]; of a long list by blocks."""
        if not len(edges.indices):
            return x.new_zeros((edges.num_rows, x.shape[1]))
        if not self._by_blocks(edges):
            return _plain_bags(edges, x, scale)
        # A row has an empty block, or whole ones, of which the last takes what would be too little for another.
        count_R = (edges.indptr.diff() // BLOCK_EDGES).clamp(min=1)
        end_R = count_R.cumsum(0, dtype=torch.int32)
        row_B = torch.repeat_interleave(count_R)
        block_B = torch.arange(len(row_B), dtype=torch.int32, device=row_B.device)
        begin_B = edges.indptr[row_B] + (block_B - (end_R - count_R)[row_B]) * BLOCK_EDGES
        blocks = Edges(indptr=torch.cat([begin_B, edges.indptr[-1:]]).int(), indices=edges.indices)
        sum_BD = _plain_bags(blocks, x if x.dtype == torch.float64 else x.float(), scale)
        rows = Edges(indptr=F.pad(end_R, (1, 0)), indices=block_B)
        return _plain_bags(rows, sum_BD.double(), None).to(x.dtype)

    def _by_blocks(self, edges: Edges) -> bool:
        """Return whether a list is so long that one number of float32 would lose too much of it.

        An accelerator is not asked, for the host would wait for it: there, without Triton, no list is cut.
        """
        if edges.indptr.device.type != "cpu" or core_rests[0]:
            return False
        return int(edges.indptr.diff().max()) >= 2 * BLOCK_EDGES

    @override
    def dot(self, edges: Edges, own: Tensor, received: Tensor | None, left: Tensor, heads: int) -> Tensor:
        dtype = computed_in(own.dtype)
        x = _joined(own, received)
        x, left = x.to(dtype), left.to(dtype)  # sampled products take no shorter types
        pairs = zip(left.chunk(heads, dim=1), x.chunk(heads, dim=1), strict=True)
        if len(edges.indices) > edges.num_rows * len(x):  # a sparse tensor has no more: edges that are there twice
            at = edges.rows().long(), edges.indices.long()
            return torch.stack([(a @ b.t())[at] for a, b in pairs], dim=1)
        size = (edges.num_rows, len(x))
        pattern = torch.sparse_csr_tensor(
            edges.indptr.long(), edges.indices.long(), left.new_zeros(len(edges.indices)), size
        )
        products = [torch.sparse.sampled_addmm(pattern, a.contiguous(), b.contiguous().t()) for a, b in pairs]
        return torch.stack([product.values() for product in products], dim=1).to(dtype)

    @override
    def add(self, out: Tensor, rows: Tensor, values: Tensor, counts: Sequence[int]) -> None:
        # On a GPU by atomic operations, of which no two meet within a run: a run after the other has one order.
        for run, added in zip(rows.split(list(counts)), values.split(list(counts)), strict=True):
            if len(run):
                out.index_add_(0, run, added)

    @override
    def shares(
        self, edges: Edges, source: Tensor, destination: Tensor, slope: float, *, loops: bool
    ) -> tuple[Tensor, Tensor | None]:
        row_E, num_rows = edges.rows().long(), edges.num_rows
        score_EH = F.leaky_relu(source[edges.indices] + destination[row_E], slope)
        own_RH = F.leaky_relu(source[:num_rows] + destination, slope) if loops else None
        lowest_RH = torch.full_like(destination, -torch.inf) if own_RH is None else own_RH.clone()
        highest_RH = _highest(score_EH, row_E, lowest_RH)
        power_EH = (score_EH - highest_RH[row_E]).exp()
        total_RH = self._bags(edges.of_values(), power_EH, None)
        if own_RH is None:
            return power_EH / total_RH[row_E], None
        own_power_RH = (own_RH - highest_RH).exp()
        total_RH += own_power_RH
        return power_EH / total_RH[row_E], own_power_RH / total_RH

    @override
    def powers(self, edges: Edges, source: Tensor, destination: Tensor, slope: float) -> tuple[Tensor, Tensor]:
        row_E = edges.rows().long()
        score_EH = F.leaky_relu(source[edges.indices] + destination[row_E], slope)
        highest_RH = _highest(score_EH, row_E, torch.full_like(destination, -torch.inf))
        return (score_EH - highest_RH[row_E]).exp(), highest_RH

    @override
    def shares_backward(
        self,
        edges: Edges,
        source: Tensor,
        destination: Tensor,
        slope: float,
        shares: tuple[Tensor, Tensor | None],
        gradients: tuple[Tensor, Tensor | None],
        sums: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        row_E = edges.rows()
        (share_EH, own_share_RH), (grad_EH, own_grad_RH) = shares, gradients

        def through(gradient: Tensor, raw: Tensor) -> Tensor:
            return torch.where(raw > 0, gradient, gradient * slope)

        of_values = edges.of_values()
        sum_RH = sums
        if sum_RH is None:
            sum_RH = self._bags(of_values, share_EH * grad_EH, None)
            if own_share_RH is not None and own_grad_RH is not None:
                sum_RH += own_share_RH * own_grad_RH
        raw_EH = source[edges.indices] + destination[row_E]
        out_EH = through(share_EH * (grad_EH - sum_RH[row_E]), raw_EH)
        total_RH = self._bags(of_values, out_EH, None)
        if own_share_RH is None or own_grad_RH is None:
            return out_EH, None, total_RH
        own_RH = through(own_share_RH * (own_grad_RH - sum_RH), source[: edges.num_rows] + destination)
        return out_EH, own_RH, total_RH + own_RH


def _plain_bags(edges: Edges, x: Tensor, scale: Tensor | None) -> Tensor:
    """Sums [R, D] of rows of x, each with its edge's scale [E, heads], one edge after the other."""

    def bag(rows: Tensor, weight: Tensor | None) -> Tensor:
        return F.embedding_bag(
            edges.indices,
            rows.contiguous(),
            edges.indptr,
            mode="sum",
            include_last_offset=True,
            per_sample_weights=weight,
        )

    pieces = [
        bag(rows, None if by is None else by.to(x.dtype).contiguous().view(-1)) for rows, by in _panels(x, scale)
    ]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)


def _panels(x: Tensor, scale: Tensor | None) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The columns of rows [S, D] head by head, each with its edges' scale [E, 1]; all at once where there is none."""
    if scale is None:
        yield x, None
    else:
        yield from zip(x.chunk(scale.shape[1], dim=1), scale.split(1, dim=1), strict=True)


def _scaled_start(start: Tensor, by: Tensor | None, out: Tensor) -> Tensor:
    """What sums [n, D] begin with, times ``by`` [n]; in ``out``, where it goes at the end, if that has its type."""
    if by is None:
        return start
    by = by.unsqueeze(1)
    return torch.mul(start, by, out=out) if torch.result_type(start, by) == out.dtype else start * by


def _highest(score_EH: Tensor, row_E: Tensor, lowest_RH: Tensor) -> Tensor:
    """The highest score of each row's edges, but no less than the lowest, in whose place it comes."""
    return lowest_RH.scatter_reduce_(0, row_E.unsqueeze(1).expand_as(score_EH), score_EH, "amax")


def _joined(own: Tensor, received: Tensor | None) -> Tensor:
    return own if received is None else torch.cat([own, received])
