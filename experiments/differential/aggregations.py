"""Aggregations of PyG by name: what makes one of a width, and how many times as wide its result is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch_geometric.nn import MLP, aggr

DEGREES = torch.tensor([3, 5, 9, 12, 9, 7, 5, 4, 3, 2, 1])
"""A histogram of in-degrees, as a user hands it over."""


class Aggregation(NamedTuple):
    """One that a convolution may get."""

    make: Callable[[int], Any]
    """Gives one for messages of a width."""
    factor: int = 1
    """How many times as wide the result is."""
    by_column: bool = True
    """Whether it takes messages of any shape, column by column."""


def mlp(*widths: int, **options: Any) -> MLP:
    """PyG's own, whose batch normalisation is on unless told otherwise."""
    return MLP(list(widths), **options)


OWN: dict[str, Aggregation] = {
    **{
        name: Aggregation(lambda _, name=name: name)  # type: ignore[misc]
        for name in ("sum", "mean", "max", "min", "mul", "var", "std", "softmax", "powermean", "median")
    },
    "softmax, learned": Aggregation(lambda width: aggr.SoftmaxAggregation(0.7, learn=True)),
    "softmax, learned by channel": Aggregation(
        lambda width: aggr.SoftmaxAggregation(0.7, learn=True, channels=width), by_column=False
    ),
    "powermean, learned": Aggregation(lambda _: aggr.PowerMeanAggregation(1.5, learn=True)),
    "var, half of its gradient": Aggregation(lambda _: aggr.VarAggregation(semi_grad=True)),
    "quantile, linear": Aggregation(lambda _: aggr.QuantileAggregation(0.3)),
    "quantile, nearest": Aggregation(
        lambda _: aggr.QuantileAggregation(0.8, interpolation="nearest", fill_value=0.5)
    ),
    "quantiles, midpoint": Aggregation(
        lambda _: aggr.QuantileAggregation([0.1, 0.6], interpolation="midpoint"), factor=2, by_column=False
    ),
    "variance preserving": Aggregation(lambda _: aggr.VariancePreservingAggregation()),
    "attentional": Aggregation(
        lambda width: aggr.AttentionalAggregation(nn.Linear(width, 1), nn.Linear(width, width)), by_column=False
    ),
    "attentional, batch norm": Aggregation(
        lambda width: aggr.AttentionalAggregation(mlp(width, 4, 1)), by_column=False
    ),
    "deep sets": Aggregation(
        lambda width: aggr.DeepSetsAggregation(nn.Linear(width, width), nn.Linear(width, width)), by_column=False
    ),
    "deep sets, batch norm": Aggregation(
        lambda width: aggr.DeepSetsAggregation(mlp(width, 4, width), mlp(width, 4, width)), by_column=False
    ),
    "several": Aggregation(lambda _: aggr.MultiAggregation(["mean", "max", "std"]), factor=3, by_column=False),
    "several, added": Aggregation(lambda _: aggr.MultiAggregation(["sum", "min", "median"], mode="sum")),
    "several, projected": Aggregation(
        lambda width: aggr.MultiAggregation(
            ["mean", "var", "softmax"], mode="proj", mode_kwargs={"in_channels": width, "out_channels": width}
        ),
        by_column=False,
    ),
    "several, attended": Aggregation(
        lambda width: aggr.MultiAggregation(
            ["mean", "max"], mode="attn", mode_kwargs={"in_channels": width, "out_channels": width, "num_heads": 1}
        ),
        by_column=False,
    ),
    "degree scaler": Aggregation(
        lambda _: aggr.DegreeScalerAggregation(
            ["mean", "std"], ["identity", "amplification", "attenuation"], DEGREES, train_norm=True
        ),
        factor=6,
        by_column=False,
    ),
    "degree scaler, linear": Aggregation(
        lambda _: aggr.DegreeScalerAggregation(["sum"], ["linear", "inverse_linear"], DEGREES),
        factor=2,
        by_column=False,
    ),
    "set2set": Aggregation(lambda width: aggr.Set2Set(width, processing_steps=2), factor=2, by_column=False),
}
"""Functions of each destination's own neighbours."""

OTHERS: dict[str, Aggregation] = {
    "lstm": Aggregation(lambda width: aggr.LSTMAggregation(width, width)),
    "gru": Aggregation(lambda width: aggr.GRUAggregation(width, width)),
    "sort": Aggregation(lambda _: aggr.SortAggregation(2), factor=2),
    "mlp": Aggregation(lambda width: aggr.MLPAggregation(width, width, 40, num_layers=1)),
    "lcm": Aggregation(lambda width: aggr.LCMAggregation(width, width)),
    "set transformer": Aggregation(lambda width: aggr.SetTransformerAggregation(width)),
    "multiset transformer": Aggregation(lambda width: aggr.GraphMultisetTransformer(width, 2)),
    "patch transformer": Aggregation(lambda width: aggr.PatchTransformerAggregation(width, width, 2, 8)),
    "equilibrium": Aggregation(lambda width: aggr.EquilibriumAggregation(width, width, [4])),
}
"""Those whose result for a destination depends on others at hand, or on the order of neighbours."""
ALL = OWN | OTHERS
