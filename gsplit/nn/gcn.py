"""Graph convolution (Kipf and Welling, ICLR 2017, equation 2), with edge weights and with sampling.

    both:  h_v' = b + W ( h_v / d_v + r_v * sum over u of w_uv h_u / sqrt(d_u d_v) )
    mean:  h_v' = b + W ( h_v + sum over u of w_uv h_u ) / ( 1 + sum over u of w_uv )

d = 1 + the sum of the weights (1 each without weights) of all in-edges in the *whole* graph, so that the factors
do not depend on what was drawn; with links, of the graph without the edges that the mini-batch asks for.
r_v = (weights of all in-edges) / (weights of those drawn) makes up for the edges that were not: the sum is then
unbiased where weights are equal, and over full neighbourhoods r_v is 1 and ``both`` is what PyG's ``GCNConv``
computes. ``mean`` is the "gcn" aggregator of GraphSAGE. With ``loops=False``, for a graph
that has loops already, the terms of v itself (and the 1 in d) are left out.

Weights may be negative as long as d is above 0, and all in-edges are taken: a ratio of weights needs one sign.

W and the sums commute; the block decides which comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from gsplit.kernels import computed_in
from gsplit.nn.layered import Between, LayeredModel
from gsplit.nn.neighbourhood import Factors, Neighbourhood
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import has_hooks

NORMALIZATIONS = ("both", "mean")


@dataclass(frozen=True, kw_only=True)
class Divisor:
    """A normalisation's divisor, or its square: the weights of all in-edges of a vertex, and of its loop.

    It must be above 0, or there must be nothing to divide (:mod:`gsplit.engine.sampled.edge_weights`).
    """

    loop: float
    """Weight of the loop that is added; 0 for none."""
    where_none: bool = False
    """Whether a vertex that has a loop of its own gets no other."""


class GCNConv(nn.Module):
    """One layer of GCN.

    Args:
        in_features: width of the sources.
        out_features: width of the destinations.
        normalization: ``both`` or ``mean``, as in the equations of this module. ``both`` wants blocks with degrees.
        loops: add an edge of weight 1 from each vertex to itself.

    Raises:
        ValueError: for another normalization.

    Examples:
        >>> conv = GCNConv(4, 2, normalization="mean")
        >>> conv(block, torch.ones(3, 4)).shape  # the block of gsplit.nn.Block's example
        torch.Size([2, 2])
    """

    def __init__(
        self, in_features: int, out_features: int, *, normalization: str = "both", loops: bool = True
    ) -> None:
        super().__init__()
        if normalization not in NORMALIZATIONS:
            raise ValueError(f"normalization must be one of {', '.join(NORMALIZATIONS)}, not {normalization!r}")
        self.normalization, self.loops = normalization, loops
        self.lin = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.lin.weight)

    @property
    def divisor(self) -> Divisor:
        """The divisor of both normalisations."""
        return Divisor(loop=float(self.loops))

    @property
    def calls_forward_alone(self) -> bool:
        """True where nothing but :meth:`forward` is called for the layer: no hooks, no other forward."""
        return type(self) is GCNConv and "forward" not in vars(self) and not has_hooks(self)

    def forward(self, block: Neighbourhood, x: Tensor) -> Tensor:
        """Rows of the destinations [num_destinations, out] for rows of the own sources [num_own_sources, in]."""
        return self.forward_finished(block, x, None)

    def forward_finished(self, block: Neighbourhood, x: Tensor, finish: Finish | None) -> Tensor:
        """``finish`` of the rows of :meth:`forward`."""
        return block.projected(x, self.lin, lambda rows: self._normalised_sum(block, rows), self.bias, finish)

    def _normalised_sum(self, block: Neighbourhood, x: Tensor) -> Tensor:
        """The normalised sums over in-edges and loops, [num_destinations, D]."""
        return block.normalised_sum(x, self._factors(block, computed_in(x.dtype)), weighted=True)

    def _factors(self, block: Neighbourhood, dtype: torch.dtype) -> Factors:
        if self.normalization == "mean":
            return mean_factors(block.sampled_weight().to(dtype), loops=self.loops)
        return factors_on_block(block, dtype, 1.0 if self.loops else None)


def factors_on_block(block: Neighbourhood, dtype: torch.dtype, loops: Tensor | float | None) -> Factors:
    """The factors of ``both``, as :func:`symmetric_factors` makes them.

    Args:
        block: with degrees.
        dtype: in which rows are added up.
        loops: weight of the edge from each own source to itself that is added to the graph's, one for all or
            [num_own_sources]; None for none.
    """
    sources = block.graph_degrees().to(dtype)
    rows = sources[: block.num_destinations]  # they come first
    missing = None if block.sums_all else missing_share(rows, block.sampled_weight().to(dtype))
    return symmetric_factors(rows, sources, loops, missing)


def mean_factors(drawn: Tensor, *, loops: bool) -> Factors:
    """The factors of ``mean``: of weights [n] of the in-edges that sums stand for, and of loops of weight 1."""
    share = _or_one(float(loops) + drawn).reciprocal()
    return Factors(sums=share, own=share if loops else None)


def symmetric_factors(
    rows: Tensor, sources: Tensor, loops: Tensor | float | None, missing: Tensor | None = None
) -> Factors:
    """The factors of ``both``.

    Args:
        rows, sources: [n] and [m] weights of all in-edges in the whole graph, of what is summed for and of what is
            summed.
        loops: weight of the loop of each, which is not among these: one for all or [m], where the sources begin with
            the rows; None for none.
        missing: [n] what :func:`missing_share` says; None where sums stand for all in-edges.
    """
    of_loops = loops[: len(rows)] if isinstance(loops, Tensor) else loops
    of_rows = _inverse_root(rows, of_loops)
    own = None if of_loops is None else of_rows.square() * of_loops
    sums = of_rows if missing is None else missing * of_rows
    return Factors(sources=_inverse_root(sources, loops), sums=sums, own=own)


def missing_share(degrees: Tensor, drawn: Tensor) -> Tensor:
    """What makes up for in-edges that were not drawn, r [n]: the weights of all over those of the drawn ones."""
    return _or_one(degrees) / _or_one(drawn)


def _inverse_root(degrees: Tensor, loops: Tensor | float | None) -> Tensor:
    """``d ** -0.5``; 0 where d is, as PyG has it: without loops a vertex without in-edges gives nothing."""
    whole = degrees if loops is None else degrees + loops
    return torch.where(whole > 0, whole.rsqrt(), torch.zeros_like(whole))


def _or_one(values: Tensor) -> Tensor:
    """The values, but 1 where there is nothing to divide by: the sum above it is 0 there.

    None is below 0: what is drawn has no negative weights (:mod:`gsplit.engine.sampled.edge_weights`).
    """
    return torch.where(values > 0, values, torch.ones_like(values))


class GCN(LayeredModel):
    """Layers of :class:`GCNConv` with ReLU and dropout between them.

    Args:
        normalization, loops: arguments of :class:`GCNConv`.
        in_features, hidden, out_features, num_layers, between: arguments of :class:`LayeredModel`.

    Examples:
        >>> model = GCN(100, 16, 47, num_layers=2, norm="rms")  # as gsplit train --model gcn --hidden 16 makes it
        >>> model.num_layers
        2
    """

    uses_edge_weight = True
    uses_source_rows = False

    def __init__(
        self,
        in_features: int,
        hidden: int,
        out_features: int,
        *,
        num_layers: int,
        normalization: str = "both",
        loops: bool = True,
        **between: Unpack[Between],
    ) -> None:
        def conv(_: int, w_in: int, w_out: int) -> GCNConv:
            return GCNConv(w_in, w_out, normalization=normalization, loops=loops)

        super().__init__(in_features, hidden, out_features, conv, num_layers=num_layers, **between)
        self.uses_degrees = normalization == "both"
