"""The kernels of the C++ core, for rows on the CPU; ``csrc/aggregate.hpp`` opens with what bounds them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import override

import gsplit._core as _core
from gsplit.kernels.sums import SHORT, Edges, Kernels, Sums, computed_in, whole_rows

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
"""Types of rows that the core has kernels for."""
PIECE_ROWS = 1024
"""Rows in a short type that are added to at a time, beside which their sums take no memory to speak of."""


class Core(Kernels):
    """The C++ core, on as many threads as PyTorch has; rows float32, float64 or bfloat16 on the CPU."""

    @override
    def transposed(self, edges: Edges, num_sources: int, *, order: bool) -> Edges:
        indptr = torch.empty(num_sources + 1, dtype=torch.int32)
        rows = torch.empty_like(edges.indices)
        positions = torch.empty_like(edges.indices) if order else None
        _core.transpose_edges(edges.indptr, edges.indices, indptr, rows, positions, threads=torch.get_num_threads())
        return Edges(indptr=indptr, indices=rows, order=positions)

    @override
    def split(self, edges: Edges, num_own: int, count: int | None = None, *, order: bool) -> tuple[Edges, Edges]:
        del count  # it is counted on the way

        def room() -> tuple[Tensor, Tensor, Tensor | None]:
            indices = torch.empty_like(edges.indices)
            return torch.empty_like(edges.indptr), indices, torch.empty_like(indices) if order else None

        own, received = room(), room()
        number = _core.split_edges(edges.indptr, edges.indices, num_own, own, received)

        def part(arrays: tuple[Tensor, Tensor, Tensor | None], count: int) -> Edges:
            indptr, indices, positions = arrays
            return Edges(
                indptr=indptr, indices=indices[:count], order=None if positions is None else positions[:count]
            )

        return part(own, number), part(received, len(edges.indices) - number)

    @override
    def sum(self, sums: Sums) -> None:
        edges, weight, factor, scale = sums.edges, sums.weight, sums.factor, sums.scale
        _core.sum_rows(
            edges.indptr,
            edges.indices,
            whole_rows(sums.own),
            None if sums.received is None else whole_rows(sums.received),
            sums.out,
            start=None if sums.start is None else whole_rows(sums.start),
            factor=None if factor is None else factor.detach().contiguous(),
            weight=None if weight is None else whole_rows(weight.to(computed_in(sums.own.dtype))),
            order=None if weight is None else edges.order,
            degrees=sums.degrees,
            scale=None if scale is None else scale.contiguous(),
            start_scale=None if sums.start_scale is None else sums.start_scale.contiguous(),
            threads=torch.get_num_threads(),
        )

    @override
    def dot(self, edges: Edges, own: Tensor, received: Tensor | None, left: Tensor, heads: int) -> Tensor:
        out = own.new_empty((len(edges.indices), heads), dtype=computed_in(own.dtype))
        more = None if received is None else whole_rows(received)
        threads = torch.get_num_threads()
        _core.dot_rows(edges.indptr, edges.indices, whole_rows(own), more, whole_rows(left), out, threads=threads)
        return out

    @override
    def add(self, out: Tensor, rows: Tensor, values: Tensor, counts: Sequence[int]) -> None:
        once = sum(count > 0 for count in counts) <= 1  # then no row comes twice; the core rounds one after the other
        if out.dtype not in SHORT or (once and out.dtype == torch.bfloat16):
            _core.add_rows(out, rows, values)
            return
        for piece in rows.argsort(stable=True).split(PIECE_ROWS):  # added up in float32, and rounded once
            touched, places = rows[piece].unique_consecutive(return_inverse=True)
            wide = out[touched].to(computed_in(out.dtype))
            _core.add_rows(wide, places.to(torch.int32), values[piece].to(wide.dtype))
            out[touched] = wide.to(out.dtype)

    @override
    def shares(
        self, edges: Edges, source: Tensor, destination: Tensor, slope: float, *, loops: bool
    ) -> tuple[Tensor, Tensor | None]:
        own = torch.empty_like(destination, memory_format=torch.contiguous_format) if loops else None
        powers = self._powers(edges, source, destination, slope, own=own)
        if own is not None:
            own.exp_()
        _core.attention_shares(edges.indptr, edges.indices, powers, own, threads=torch.get_num_threads())
        return powers, own

    @override
    def powers(self, edges: Edges, source: Tensor, destination: Tensor, slope: float) -> tuple[Tensor, Tensor]:
        highest = torch.empty_like(destination, memory_format=torch.contiguous_format)
        return self._powers(edges, source, destination, slope, highest=highest), highest

    def _powers(
        self,
        edges: Edges,
        source: Tensor,
        destination: Tensor,
        slope: float,
        *,
        own: Tensor | None = None,
        highest: Tensor | None = None,
    ) -> Tensor:
        """Powers of the edges; ``own`` gets the scores of the loops, less the highest of each row."""
        out = source.new_empty((len(edges.indices), source.shape[1]))
        _core.attention_scores(
            edges.indptr,
            edges.indices,
            whole_rows(source),
            whole_rows(destination),
            slope,
            out=out,
            own_out=own,
            highest_out=highest,
            threads=torch.get_num_threads(),
        )
        return out.exp_()

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
        share, own_share = shares
        of_edges = whole_rows(gradients[0])
        of_loops = None if gradients[1] is None else whole_rows(gradients[1])
        of_destinations = torch.empty_like(destination, memory_format=torch.contiguous_format)
        _core.attention_backward(
            edges.indptr,
            edges.indices,
            whole_rows(source),
            whole_rows(destination),
            slope,
            whole_rows(share),
            None if own_share is None else whole_rows(own_share),
            of_edges,
            of_loops,
            of_destinations,
            None if sums is None else whole_rows(sums),
            threads=torch.get_num_threads(),
        )
        return of_edges, of_loops, of_destinations
