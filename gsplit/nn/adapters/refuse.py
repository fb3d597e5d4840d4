"""Layers that cannot be split are refused, by name and with the reason."""

from __future__ import annotations

from collections.abc import Collection

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from gsplit.errors import InputError
from gsplit.nn.adapters.aggregators import why_not_own
from gsplit.nn.adapters.dgl import DGL_CONVOLUTIONS
from gsplit.nn.adapters.pyg import without_pairs
from gsplit.nn.norm import CONVERTED, BatchNorm

SEVERAL_HOPS = "one layer of it reaches several hops, so a block does not hold what it needs"
ALL_VERTICES = "it needs all vertices of the graph at once"
DGL_REASONS = {
    **dict.fromkeys(
        ("APPNPConv", "ChebConv", "DenseChebConv", "SGConv", "TAGConv", "TWIRLSConv", "GatedGraphConv"), SEVERAL_HOPS
    ),
    **dict.fromkeys(
        ("GCN2Conv", "DGNConv", "PNAConv", "EGNNConv", "GroupRevRes"),
        "it takes no block, only a graph whose sources are its destinations",
    ),
}
PYG_BATCH_NORMS = {
    "GraphNorm",
    "InstanceNorm",
    "PairNorm",
    "MeanSubtractionNorm",
    "DiffGroupNorm",
    "GraphSizeNorm",
    "HeteroBatchNorm",
}


def refuse_inadmissible(model: nn.Module, computed: Collection[nn.Module] = ()) -> None:
    """Look whether every layer of a model can be split.

    Args:
        model: of the user's.
        computed: its layers that blocks compute, whatever the library's own code takes.

    Raises:
        InputError: for the first layer that cannot be split.
    """
    for path, layer in model.named_modules():
        reason = None if layer in computed else _reason(layer)
        if reason:
            where = f"the model's {path} is a {type(layer).__name__}" if path else f"a {type(layer).__name__}"
            raise InputError(f"{where}, which cannot be split: {reason}")


def _reason(layer: nn.Module) -> str | None:
    if isinstance(layer, _InstanceNorm):
        return "each trainer would normalise by its own rows; use LayerNorm or BatchNorm"
    if isinstance(layer, _BatchNorm):
        if type(layer) not in (*CONVERTED, BatchNorm):
            return "of the batch normalisations only BatchNorm1d and SyncBatchNorm themselves can be"
        if not layer.track_running_stats:
            return (
                "without running statistics it cannot be evaluated vertex by vertex; drop track_running_stats=False"
            )
    for cls in type(layer).__mro__:
        name, module = cls.__name__, cls.__module__
        graph_wide = name in PYG_BATCH_NORMS or (name == "LayerNorm" and getattr(layer, "mode", "") == "graph")
        if module.startswith("torch_geometric.nn.norm") and graph_wide:
            return "it normalises over all vertices at hand; use BatchNorm, or LayerNorm(mode='node')"
        if module.startswith(("torch_geometric.nn.pool", "dgl.nn.pytorch.glob")):
            return ALL_VERTICES
        if module.startswith(DGL_CONVOLUTIONS) and name in DGL_REASONS:
            return DGL_REASONS[name]
    return why_not_own(layer) or without_pairs(layer)
