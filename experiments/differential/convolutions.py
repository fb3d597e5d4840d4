"""Convolutions of PyG and DGL by name: what makes one of two widths, and what its forward takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from torch import nn

from experiments.differential.aggregations import ALL, DEGREES, OTHERS, OWN, Aggregation
from experiments.differential.nets import EdgeMap, HandMade

PLAIN = ("x, edge_index", "x, edge_index", "x, adjs", "data")
SPARSE = (*PLAIN, "x, adj_t")
WEIGHTS, ATTRIBUTES = ("x, edge_index, edge_weight",), ("x, edge_index, edge_attr",)
BLOCKS, DGL_WEIGHTS, DGL_ATTRIBUTES = ("blocks, x", "g, x"), ("blocks, x, weights",), ("blocks, x, attributes",)


class Convolution(NamedTuple):
    """A kind of convolution."""

    make: Callable[[int, int, dict[str, Any]], nn.Module]
    """Gives one from the width of its rows, that of its results, and options that were drawn."""
    forms: tuple[str, ...]
    """Names of :data:`experiments.differential.nets.FORMS` that call it as it wants to be called."""
    options: dict[str, tuple[Any, ...]]
    """Options by name, each with the values that are drawn from; ``aggr`` has names of aggregations."""
    weight: float = 1.0
    """How often it is drawn; those that are refused whatever their options say, seldom."""
    whole: bool = False
    """Whether what it gives depends on out-degrees in the mini-batch, so that all vertices have to be targets."""


def pyg(name: str, **fixed: Any) -> Callable[[int, int, dict[str, Any]], nn.Module]:
    """What makes a convolution of PyG by its class."""

    def make(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
        import torch_geometric.nn as g

        return getattr(g, name)(w_in, w_out, **fixed, **_with_aggregation(options, w_out if name in OF_OUT else w_in))

    return make


OF_OUT = {
    *("GATConv", "GATv2Conv", "TransformerConv", "ResGatedGraphConv", "GeneralConv", "GENConv", "NNConv", "GMMConv"),
    *("FiLMConv", "LEConv", "FeaStConv"),
}
"""Convolutions whose messages are as wide as their results."""


def _with_aggregation(options: dict[str, Any], width: int) -> dict[str, Any]:
    if "aggr" not in options:
        return options
    return {**options, "aggr": ALL[options["aggr"]].make(width)}


def of_map(name: str, twice: bool = False, **fixed: Any) -> Callable[[int, int, dict[str, Any]], nn.Module]:
    """What makes one of those that PyG calls with a network in the place of widths; ``twice``: of pairs of rows."""

    def make(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
        import torch_geometric.nn as g

        norm = options.get("inner_norm")
        middle = [nn.BatchNorm1d(6)] if norm == "batch" else [nn.LayerNorm(6)] if norm == "layer" else []
        network = nn.Sequential(nn.Linear((1 + twice) * w_in, 6), *middle, nn.Tanh(), nn.Linear(6, w_out))
        rest = {key: value for key, value in options.items() if key != "inner_norm"}
        return getattr(g, name)(network, **fixed, **_with_aggregation(rest, w_out if twice else w_in))

    return make


def square(name: str, *first: Any, widths: int = 1, **fixed: Any) -> Callable[[int, int, dict[str, Any]], nn.Module]:
    """What makes a convolution that leaves the width of rows as it is, behind a linear map."""

    def make(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
        import torch_geometric.nn as g

        made = getattr(g, name)(*(w_out,) * widths, *first, **fixed, **_with_aggregation(options, w_out))
        return Behind(nn.Linear(w_in, w_out), made)

    return make


class Behind(nn.Module):
    """A convolution behind a linear map of all rows."""

    def __init__(self, lin: nn.Module, conv: nn.Module) -> None:
        super().__init__()
        self.lin, self.conv = lin, conv

    def forward(self, x: Any, *arguments: Any, **named: Any) -> Any:
        """What the convolution gives for mapped rows."""
        x = self.lin(x) if not isinstance(x, tuple) else tuple(self.lin(one) for one in x)
        return self.conv(x, *arguments, **named)


def dgl(name: str, *between: Any, zero: bool = True, **fixed: Any) -> Callable[[int, int, dict[str, Any]], nn.Module]:
    """What makes a convolution of DGL by its class; ``zero``: whether it has a flag for vertices without in-edges."""

    def make(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
        import dgl.nn as d

        allowed = {"allow_zero_in_degree": True} if zero else {}
        return getattr(d, name)(w_in, w_out, *between, **allowed, **fixed, **options)

    return make


def dgl_of_map(name: str) -> Callable[[int, int, dict[str, Any]], nn.Module]:
    """The same of those that take a network."""

    def make(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
        import dgl.nn as d

        return getattr(d, name)(nn.Linear(w_in, w_out), **options)

    return make


def _dgl_nn(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
    import dgl.nn as d

    return d.NNConv(w_in, w_out, EdgeMap(w_in, w_out), **options)


def _pyg_nn(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
    import torch_geometric.nn as g

    return g.NNConv(w_in, w_out, EdgeMap(w_in, w_out), **_with_aggregation(options, w_out))


def _hand_made(w_in: int, w_out: int, options: dict[str, Any]) -> nn.Module:
    chosen: Aggregation = ALL[options["aggr"]]
    return HandMade(w_in, w_out, chosen.make(w_in), chosen.factor)


SELDOM = 0.15
COLUMNS = tuple(name for name, one in OWN.items() if one.by_column and one.factor == 1)
LEVEL = tuple(name for name, one in ALL.items() if one.factor == 1)
YES_NO = (True, False)
BY_COLUMN: dict[str, tuple[Any, ...]] = {"aggr": COLUMNS}
HEADS: dict[str, tuple[Any, ...]] = {"heads": (1, 2, 3), "concat": (False,)}

PYG: dict[str, Convolution] = {
    "SAGEConv": Convolution(
        pyg("SAGEConv"), SPARSE, {"aggr": LEVEL, "project": YES_NO, "root_weight": YES_NO, "normalize": YES_NO}
    ),
    "GraphConv": Convolution(pyg("GraphConv"), (*SPARSE, *WEIGHTS * 2), {"aggr": LEVEL}),
    "GCNConv": Convolution(
        pyg("GCNConv"),
        ("x, edge_index", "data", "x, adj_t", *WEIGHTS * 3),
        {"improved": YES_NO, "add_self_loops": (None, False), "normalize": (True, True, False), "bias": YES_NO},
    ),
    "GATConv": Convolution(pyg("GATConv"), PLAIN, {**HEADS, "add_self_loops": YES_NO, "residual": YES_NO}),
    "GATConv, attributes": Convolution(
        pyg("GATConv", edge_dim=1), ATTRIBUTES, {**HEADS, "fill_value": ("mean", 0.5, "max")}
    ),
    "GATv2Conv": Convolution(pyg("GATv2Conv"), PLAIN, {**HEADS, **BY_COLUMN, "share_weights": YES_NO}),
    "GATv2Conv, attributes": Convolution(pyg("GATv2Conv", edge_dim=1), ATTRIBUTES, HEADS),
    "TransformerConv": Convolution(pyg("TransformerConv"), PLAIN, {**HEADS, "beta": YES_NO}),
    "TransformerConv, attributes": Convolution(pyg("TransformerConv", edge_dim=1), ATTRIBUTES, HEADS),
    "GINConv": Convolution(
        of_map("GINConv"), SPARSE, {"aggr": LEVEL, "train_eps": YES_NO, "inner_norm": (None, "batch", "layer")}
    ),
    "GINEConv": Convolution(of_map("GINEConv", edge_dim=1), ATTRIBUTES, {"train_eps": YES_NO, "aggr": LEVEL}),
    "EdgeConv": Convolution(
        of_map("EdgeConv", twice=True), PLAIN, {"aggr": LEVEL, "inner_norm": (None, "batch", "layer")}
    ),
    "GENConv": Convolution(
        pyg("GENConv"),
        PLAIN,
        {
            **{"aggr": LEVEL, "norm": ("batch", "layer", None), "msg_norm": YES_NO},
            **{"learn_msg_scale": YES_NO, "bias": YES_NO},
        },
    ),
    "GeneralConv": Convolution(
        pyg("GeneralConv"),
        PLAIN,
        {
            **{"aggr": ("sum", "mean", "max"), "heads": (1, 2), "attention": YES_NO},
            **{"skip_linear": YES_NO, "directed_msg": (True, True, False)},
        },
    ),
    "ResGatedGraphConv": Convolution(pyg("ResGatedGraphConv"), PLAIN, {"aggr": COLUMNS, "root_weight": YES_NO}),
    "SimpleConv": Convolution(square("SimpleConv", widths=0), PLAIN, {"aggr": LEVEL, "combine_root": (None, "sum")}),
    "LEConv": Convolution(pyg("LEConv"), (*PLAIN, *WEIGHTS), BY_COLUMN),
    "MFConv": Convolution(pyg("MFConv"), PLAIN, {"max_degree": (3, 10), "aggr": LEVEL}),
    "FiLMConv": Convolution(pyg("FiLMConv"), PLAIN, {"aggr": LEVEL}),
    "FeaStConv": Convolution(pyg("FeaStConv"), PLAIN, {"heads": (1, 2), "add_self_loops": YES_NO}),
    "GMMConv": Convolution(pyg("GMMConv", dim=1, kernel_size=2), ATTRIBUTES, {"aggr": COLUMNS}),
    "NNConv": Convolution(_pyg_nn, ATTRIBUTES, {"aggr": LEVEL}),
    "CGConv": Convolution(square("CGConv", dim=1), ATTRIBUTES, {"batch_norm": YES_NO, "aggr": LEVEL}),
    "WLConvContinuous": Convolution(square("WLConvContinuous", widths=0), (*PLAIN, *WEIGHTS), {}),
    "ClusterGCNConv": Convolution(pyg("ClusterGCNConv"), PLAIN, {}, SELDOM),
    "AGNNConv": Convolution(square("AGNNConv", widths=0), PLAIN, {}, SELDOM),
    "SGConv": Convolution(pyg("SGConv"), PLAIN, {"K": (1, 2)}, SELDOM),
    "TAGConv": Convolution(pyg("TAGConv"), PLAIN, {"K": (1, 2)}, SELDOM),
    "ChebConv": Convolution(pyg("ChebConv"), PLAIN, {"K": (1, 2)}, SELDOM),
    "ARMAConv": Convolution(pyg("ARMAConv"), PLAIN, {}, SELDOM),
    "APPNP": Convolution(square("APPNP", 2, 0.1, widths=0), PLAIN, {}, SELDOM),
    "LGConv": Convolution(square("LGConv", widths=0), PLAIN, {}, SELDOM),
    "EGConv": Convolution(pyg("EGConv", num_heads=1), PLAIN, {}, SELDOM),
    "SuperGATConv": Convolution(pyg("SuperGATConv"), PLAIN, {}, SELDOM),
    "PNAConv": Convolution(
        pyg("PNAConv", aggregators=["mean", "max"], scalers=["identity"], deg=DEGREES), PLAIN, {}, SELDOM
    ),
    "MixHopConv": Convolution(pyg("MixHopConv", powers=[0, 1]), PLAIN, {}, SELDOM),
    "PDNConv": Convolution(pyg("PDNConv", edge_dim=1, hidden_channels=4), ATTRIBUTES, {}, SELDOM),
    "GatedGraphConv": Convolution(square("GatedGraphConv", 1), PLAIN, {}, SELDOM),
    "PANConv": Convolution(pyg("PANConv", filter_size=2), PLAIN, {}, SELDOM),
    "HypergraphConv": Convolution(pyg("HypergraphConv"), PLAIN, {}, SELDOM),
    "by hand": Convolution(_hand_made, (*PLAIN, *WEIGHTS), {"aggr": (*ALL, *OWN, *OWN)}, weight=6.0),
}
DGL: dict[str, Convolution] = {
    "SAGEConv": Convolution(
        dgl("SAGEConv", zero=False), (*BLOCKS, *DGL_WEIGHTS), {"aggregator_type": ("mean", "gcn", "pool", "lstm")}
    ),
    "GraphConv": Convolution(dgl("GraphConv"), (*BLOCKS, *DGL_WEIGHTS), {"norm": ("right", "none")}),
    "GraphConv, by out-degrees": Convolution(
        dgl("GraphConv"), (*BLOCKS, *DGL_WEIGHTS), {"norm": ("both", "left")}, whole=True
    ),
    "GATConv": Convolution(dgl("GATConv", 1), BLOCKS, {"residual": YES_NO}),
    "GATv2Conv": Convolution(dgl("GATv2Conv", 1), BLOCKS, {"residual": YES_NO, "share_weights": YES_NO}),
    "DotGatConv": Convolution(dgl("DotGatConv", num_heads=1), BLOCKS, {}),
    "EdgeGATConv": Convolution(
        lambda w_in, w_out, options: dgl("EdgeGATConv", w_out, 1)(w_in, 1, options), DGL_ATTRIBUTES, {}
    ),
    "GINConv": Convolution(
        dgl_of_map("GINConv"),
        (*BLOCKS, *DGL_WEIGHTS),
        {"aggregator_type": ("sum", "max", "mean"), "learn_eps": YES_NO},
    ),
    "NNConv": Convolution(_dgl_nn, DGL_ATTRIBUTES, {"aggregator_type": ("sum", "mean", "max"), "residual": YES_NO}),
    "GMMConv": Convolution(dgl("GMMConv", 1, 2), DGL_ATTRIBUTES, {"aggregator_type": ("sum", "mean", "max")}),
    "EdgeConv": Convolution(dgl("EdgeConv"), BLOCKS, {"batch_norm": YES_NO}),
    "SGConv": Convolution(dgl("SGConv"), BLOCKS, {"k": (1, 2)}, SELDOM),
    "TAGConv": Convolution(dgl("TAGConv", zero=False), BLOCKS, {"k": (1, 2)}, SELDOM),
    "ChebConv": Convolution(dgl("ChebConv", zero=False, k=2), BLOCKS, {}, SELDOM),
}


@functools.cache
def kinds() -> dict[str, Convolution]:
    """All of them, under the name of their library; DGL's where it can be imported."""
    found = {f"PyG {name}": kind for name, kind in PYG.items()}
    try:
        import dgl  # noqa: F401
    except ImportError:
        return found
    return found | {f"DGL {name}": kind for name, kind in DGL.items()}


def drawn_options(kind: Convolution, random: Random) -> dict[str, Any]:
    """A value for each option; those of refused aggregations are rare, since one of them refuses a whole model."""
    options = {}
    for name, values in kind.options.items():
        value = random.choice(values)
        if value in OTHERS and random.random() < 0.7:
            value = random.choice([other for other in values if other not in OTHERS])
        options[name] = value
    return options
