"""Aggregations of PyG, and what DGL has in their place: which are functions of each destination's own neighbours.

A destination's neighbours are computed together with those of others, on one trainer or on several, in training and
in evaluation; its result must not depend on which. PyG's aggregations on ``OWN_NEIGHBOURS`` give the same in any
company (each is held against one process on the whole graph, tests/processes/test_aggregations.py). Those on
``REFUSED`` do not; most of them write the lists of neighbours to a table as wide as the longest one at hand
(``to_dense_batch``), and compute with the padding. What is on neither list is a user's own, or younger than these
lists, and is tried with a few destinations before a run (:mod:`gsplit.engine.evaluation.company`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

OWN_NEIGHBOURS = frozenset(
    {
        *("SumAggregation", "MeanAggregation", "MaxAggregation", "MinAggregation", "MulAggregation"),
        *("VarAggregation", "StdAggregation", "SoftmaxAggregation", "PowerMeanAggregation"),
        *("MedianAggregation", "QuantileAggregation", "VariancePreservingAggregation"),
        # Of the neighbours' rows by modules of the user's, which are looked at one by one like all others.
        *("AttentionalAggregation", "DeepSetsAggregation"),
        # Several of the others, whose results are joined row by row.
        *("MultiAggregation", "FusedAggregation"),
        # By the destination's own in-degree; what that is divided by is given when it is constructed, and is saved.
        "DegreeScalerAggregation",
        # Attention within each list, and an LSTM over its own steps, of which each destination makes as many.
        "Set2Set",
    }
)
"""PyG's aggregations whose result for a destination depends on its own neighbours alone, in any order."""
PADDED = "it pads lists of neighbours to the longest one at hand and computes with the padding"
ORDERED = "its result depends on the order in which neighbours stand"
INSTEAD = "use mean, max, softmax, AttentionalAggregation or another that needs no table of neighbours"
REFUSED = {
    **dict.fromkeys(("LSTMAggregation", "GRUAggregation", "LCMAggregation"), PADDED),
    **dict.fromkeys(("MLPAggregation", "PatchTransformerAggregation"), f"{PADDED}; {ORDERED}, too"),
    **dict.fromkeys(
        ("SetTransformerAggregation", "GraphMultisetTransformer"),
        "it attends over a table of neighbours as wide as the longest list at hand, also for vertices without any",
    ),
    "SortAggregation": (
        "it sorts a table of neighbours padded to the longest list at hand, by one channel, whose ties stand in an "
        "order that depends on it"
    ),
    "EquilibriumAggregation": "it minimises an energy that is a mean over all destinations at hand",
}
"""PyG's aggregations that cannot be split, with the reason."""
AGGREGATIONS = "torch_geometric.nn.aggr"
QUANTILES = ("QuantileAggregation", "MedianAggregation")


def why_not_own(layer: nn.Module) -> str | None:
    """Why an aggregation is no function of each destination's own neighbours; None for any that is, or may be."""
    for cls in type(layer).__mro__:
        if cls.__module__.startswith(AGGREGATIONS) and cls.__name__ in REFUSED:
            return f"{REFUSED[cls.__name__]}; {INSTEAD}"
    of_dgl = any(cls.__module__.startswith("dgl.nn") for cls in type(layer).__mro__)
    if of_dgl and getattr(layer, "_aggre_type", None) == "lstm":
        return f"with aggregator_type='lstm' {ORDERED}, which graphs keep in different ways; use mean, gcn or pool"
    return None


def is_quantile(layer: nn.Module) -> bool:
    """Return whether a module is one of PyG's quantiles, which get the forward of :class:`QuantileForward`."""
    return type(layer).__module__.startswith(AGGREGATIONS) and type(layer).__name__ in QUANTILES


class QuantileForward:
    """PyG's quantiles, of any number of edges.

    PyG 2.8 finds the q-th neighbour by its place among all edges at hand, in the type of the model: beyond 2**24
    edges in float32 that is another neighbour, and long before that the share between two neighbours is wrong. It
    also fails where there is no edge, and where the first list is empty. Here places are counted within each list.
    """

    def __init__(self, aggregation: nn.Module) -> None:
        self._aggregation = aggregation

    def __call__(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """Quantiles of the rows x of each list; arguments and result are as in PyG.

        Raises:
            NotImplementedError: without ``index``, as in PyG.
        """
        given: Any = self._aggregation
        given.assert_index_present(index)
        assert index is not None
        dim = x.dim() + dim if dim < 0 else dim
        ones_before, ones_after = (1,) * dim, (1,) * (x.dim() - dim - 1)
        count = torch.bincount(index, minlength=dim_size or 0)
        place = given.q * (count - 1).clamp(min=0)  # [Q, lists]
        shape = (*x.shape[:dim], len(count), len(place), *x.shape[dim + 1 :])
        if x.shape[dim]:
            x, order = x.sort(dim=dim)
            lists = index.view(*ones_before, -1, *ones_after).expand_as(x).take_along_dim(order, dim)
            x = x.take_along_dim(lists.sort(dim=dim, stable=True).indices, dim)
            first = count.cumsum(0) - count

            def neighbours(places: Tensor) -> Tensor:
                at = (first + places.long()).clamp(max=x.shape[dim] - 1)
                return x.index_select(dim, at.t().reshape(-1)).view(shape)

            if given.interpolation in ("lower", "higher", "nearest"):
                to_whole = {"lower": torch.floor, "higher": torch.ceil, "nearest": torch.round}[given.interpolation]
                quantiles = neighbours(to_whole(place))
            else:
                low, high = neighbours(place.floor()), neighbours(place.ceil())
                between = place.frac().to(x.dtype).t().reshape(*ones_before, *place.t().shape, *ones_after)
                quantiles = low + (high - low) * (between if given.interpolation == "linear" else 0.5)
        else:
            quantiles = x.new_zeros(shape) + x.sum()
        empty = (count == 0).view(*ones_before, -1, 1, *ones_after)
        quantiles = quantiles.masked_fill(empty, given.fill_value)
        if len(place) == 1:
            return quantiles.squeeze(dim + 1)
        return quantiles.flatten(dim + 1, dim + 2)
