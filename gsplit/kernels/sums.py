"""Edges row by row, and the sums over them that a layer takes: what every set of kernels computes.

A long list is summed by blocks, so that its sum is as exact as one over a few edges (``csrc/long_sums.hpp``).
Nothing here knows autograd: :mod:`gsplit.nn.aggregate` and :mod:`gsplit.nn.attention` call kernels forward and, over
the transposed edges, backward. No kernel makes a tensor of edges x features.

Legend: R rows of the result, S sources, E edges, D features, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

import torch
from torch import Tensor

core_rests = [False]
"""Whether the core computes nothing, and PyTorch's operations do on the CPU what they do on accelerators."""


SHORT = (torch.bfloat16, torch.float16)
"""Types that rows are stored and sent in, and nothing is added up in."""


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """The type that rows of a type are added up in: float32 of shorter ones, else their own."""
    return torch.float32 if dtype in SHORT else dtype


@dataclass(frozen=True, kw_only=True)
class Edges:
    """Edges row by row: those of row r are ``indptr[r] .. indptr[r + 1]``."""

    indptr: Tensor
    """int32 [R + 1]."""
    indices: Tensor
    """Source of each edge, int32 [E]."""
    order: Tensor | None = None
    """Position of each edge in arrays of edges, int32 [E]; None: edge e has position e."""

    @property
    def num_rows(self) -> int:
        """Number of rows, R."""
        return len(self.indptr) - 1

    def rows(self) -> Tensor:
        """Row of each edge, int32 [E]."""
        rows = torch.arange(self.num_rows, dtype=torch.int32, device=self.indptr.device)
        return torch.repeat_interleave(rows, self.indptr.diff(), output_size=len(self.indices))

    def of_values(self) -> Edges:
        """The same rows, where each edge's source is the edge itself: sums over values of edges [E, D]."""
        device = self.indices.device
        return Edges(indptr=self.indptr, indices=torch.arange(len(self.indices), dtype=torch.int32, device=device))

    def from_row(self, first: int, end: int, places: tuple[int, int] | None = None) -> Edges:
        """The edges of rows ``first`` .. ``end`` alone, which begin at row 0.

        ``places`` are those of the first edge and behind the last one; without them the device is asked.
        """
        if first == 0 and end == self.num_rows:
            return self
        begin, stop = places or (int(self.indptr[first]), int(self.indptr[end]))
        indptr = self.indptr[first : end + 1] - begin
        order = None if self.order is None else self.order[begin:stop]
        return Edges(indptr=indptr, indices=self.indices[begin:stop], order=order)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of rows over edges: what to sum, how each is scaled, and where the result goes.

    ``out[r] = start_scale[r] start[r] + scale[r]/degrees[r] * sum over edges of factor weight row(source)``
    """

    edges: Edges
    """R rows of edges."""
    own: Tensor
    """[S', D] rows of the first sources."""
    received: Tensor | None
    """[S - S', D] rows of the other sources; None: there are no others."""
    out: Tensor
    """[R, D], written; its rows may lie apart. Like ``start`` it may be in the type that the rows are added up in."""
    _: KW_ONLY
    start: Tensor | None = None
    """[at most R, D] what the first rows begin with; it may be ``out``."""
    factor: Tensor | None = None
    """[S] of each source."""
    weight: Tensor | None = None
    """[E, H]; the columns are dealt out to the heads in equal runs."""
    degrees: Tensor | None = None
    """int32 [R] by which the sums are divided, but not by 0; for a mean, the numbers of edges."""
    scale: Tensor | None = None
    """[R] by which the sums are multiplied; like all factors in the type that the rows are added up in."""
    start_scale: Tensor | None = None
    """[len(start)] by which the start is multiplied."""
    width: int | None = None
    """Columns of the rows that these are a slice of, in whose order edges are added; None: these are all, D."""


class Kernels(Protocol):
    """The sums that a layer takes. Source i is ``own[i]`` or ``received[i - len(own)]``."""

    def transposed(self, edges: Edges, num_sources: int, *, order: bool) -> Edges:
        """The edges of every source: rows are sources, ``indices`` rows, ``order`` (if asked) positions."""

    def split(self, edges: Edges, num_own: int, count: int | None = None, *, order: bool) -> tuple[Edges, Edges]:
        """The edges from sources below ``num_own``, and the others, whose sources count from there.

        Both have all R rows, and (if asked) ``order``, the positions that their edges had. ``count`` is the number of
        the former; without it a device is asked.
        """

    def sum(self, sums: Sums) -> None:
        """Take sums of rows over edges, and write them to ``sums.out``."""

    def dot(self, edges: Edges, own: Tensor, received: Tensor | None, left: Tensor, heads: int) -> Tensor:
        """Dot products [E, heads] of row r of ``left`` [R, D] and each of its sources, head by head.

        They are in the type that the rows are added up in.
        """

    def add(self, out: Tensor, rows: Tensor, values: Tensor, counts: Sequence[int]) -> None:
        """``out[rows[i]] += values[i]``, one after the other, the same every time.

        Args:
            out: [R, D].
            rows: int32 [n], in runs that have each row at most once.
            values: [n, D].
            counts: lengths of the runs.
        """

    def shares(
        self, edges: Edges, source: Tensor, destination: Tensor, slope: float, *, loops: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Softmax of LeakyReLU(source + destination) over the edges of each row.

        Args:
            edges: R rows of edges.
            source: [S, H]; the first R belong to the rows themselves.
            destination: [R, H].
            slope: of the LeakyReLU below 0.
            loops: whether each row has an edge from itself, too.

        Returns:
            [E, H] and, with loops, [R, H].
        """

    def powers(self, edges: Edges, source: Tensor, destination: Tensor, slope: float) -> tuple[Tensor, Tensor]:
        """Powers of what :meth:`shares` takes the softmax of, each over that of its row's highest.

        They are what is known of shares where a row has edges elsewhere, too.

        Args:
            edges: R rows of edges.
            source: [S, H].
            destination: [R, H].
            slope: of the LeakyReLU below 0.

        Returns:
            ``exp(score - highest)`` [E, H] and the highest score of each row [R, H], -inf of one without edges.
        """

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
        """Backward of :meth:`shares`: gradients of each edge's sum [E, H], of the loops' [R, H], of ``destination``.

        ``gradients``, those of the shares, may be overwritten. ``sums`` [R, H] are those of shares times gradients
        over all edges of each row, where some are elsewhere; None: none are.
        """


def whole_rows(x: Tensor) -> Tensor:
    """A tensor whose rows are contiguous each, which may lie apart, outside of autograd."""
    x = x.detach()
    return x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
