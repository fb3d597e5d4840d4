"""Edge weights that formulas cannot take are refused before anything starts, by what would compute with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.messages import line_with
from torch import nn
from torch_geometric.nn import GCN, GCNConv, GraphConv

import gsplit
from gsplit import TrainConfig
from gsplit.errors import InputError
from gsplit.launch.resolve import resolve

FEW = (3, 3)
ALL = (-1, -1)
SETS = {"num_layers": 2, "subgraph": "50%"}


def signed(kind):
    """``gentle``: some in-edges are negative, and no degree is; ``harsh``: 1 + the weights is below 0 for some."""
    graph = random_graph(80, 6, seed=4, weighted=True)
    weight, indptr = graph.edge_weight, graph.indptr
    if kind == "positive":
        return graph
    crowded = np.flatnonzero(np.diff(indptr) > 3)[:7]
    for vertex in crowded:
        weight[indptr[vertex]] = -0.5
        weight[indptr[vertex] + 1] = 1.5
    if kind == "harsh":
        for vertex in crowded[:5]:
            weight[indptr[vertex] : indptr[vertex + 1]] *= -2
            weight[indptr[vertex]] = -7
    if kind == "without a sum":  # 1 + the weights is 1e-9 in float64, and 0 in float32
        weight[indptr[crowded[0]] : indptr[crowded[0] + 1]] = 0
        weight[indptr[crowded[0]] : indptr[crowded[0]] + 3] = np.float32(0.1), np.float32(0.2), np.float32(-1.3)
    if kind == "zero":
        weight[:] = 0
    return graph


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = lay_out(signed(kind), tmp_path_factory.mktemp("signs"), parts=2, method="random").path
        return made[kind]

    return of


class Weighed(nn.Module):
    """A convolution of PyG that gets the weights of the graph."""

    def __init__(self, conv=GCNConv, **options):
        super().__init__()
        self.convs = nn.ModuleList(conv(*pair, **options) for pair in ((5, 4), (4, 3)))

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight)
        return x


class Deaf(Weighed):
    uses_edge_weight = False


DIVIDES = "negative weights, # vertices"
REFUSED = {
    "all taken, both": ("harsh", {"fan_out": ALL}, f"gcn, {DIVIDES}"),
    "all taken, mean": ("harsh", {"fan_out": ALL, "normalization": "mean"}, f"gcn, {DIVIDES}"),
    "nothing left": ("without a sum", {"fan_out": ALL}, "gcn, 1 vertex"),
    "no loops": ("without a sum", {"fan_out": ALL, "self_loops": False}, "gcn, 1 vertex"),
    "five of them": ("harsh", {"fan_out": ALL}, "gcn, 5 vertices, --model sage"),
    "whole graph": ("harsh", {"strategy": "full"}, f"gcn, {DIVIDES}"),
    "whole graph, rotating": ("harsh", {"strategy": "full", "algorithm": "rotate"}, f"gcn, {DIVIDES}"),
    "drawn, both": ("gentle", {"fan_out": FEW}, "--fan-out, negative, 7, 7 vertices, --fan-out -1,-1"),
    "drawn, mean": ("gentle", {"fan_out": FEW, "normalization": "mean"}, "--fan-out, negative"),
    "drawn in one hop": ("gentle", {"fan_out": (-1, 5)}, "--fan-out, negative"),
    "micro-batches": ("gentle", {"fan_out": FEW, "strategy": "data"}, "--fan-out, negative"),
    "drawn in evaluation": ("gentle", {"fan_out": ALL, "evaluate": "sampled", "validate_fan_out": FEW},
                            "--evaluate sampled, --evaluate exact"),
    "clusters": ("gentle", {"sampling": "clusters", "clusters": 1, "num_layers": 2}, "--sampling clusters"),
    "uniform": ("gentle", {"sampling": "uniform", **SETS}, "ratio, --estimate unbiased"),
    "saint": ("gentle", {"sampling": "saint", **SETS}, "saint --estimate ratio"),
    "unbiased": ("harsh", {"sampling": "uniform", "estimate": "unbiased", **SETS}, f"gcn, {DIVIDES}"),
    "ladies": ("gentle", {"sampling": "ladies", "layer_sizes": (9, 9)}, "ladies, negative"),
    "fastgcn": ("zero", {"sampling": "fastgcn", "layer_sizes": (9, 9)}, "fastgcn, 0"),
}  # fmt: skip
TAKEN = {
    "all taken": ("gentle", {"fan_out": ALL}),
    "all taken, mean": ("gentle", {"fan_out": ALL, "normalization": "mean"}),
    "whole graph": ("gentle", {"strategy": "full"}),
    "unbiased": ("gentle", {"sampling": "saint", "estimate": "unbiased", **SETS}),
    "no weights": ("harsh", {"fan_out": FEW, "model": "sage"}),
    "attention takes none": ("harsh", {"fan_out": FEW, "model": "gat"}),
    "positive": ("positive", {"fan_out": FEW}),
    "all 0": ("zero", {"fan_out": FEW, "self_loops": False, "normalization": "mean"}),
}


def config(layout, options):
    return TrainConfig(**{"layout": layout, "device": "cpu", "threads": 1, "model": "gcn", **options})


@pytest.mark.parametrize("case", REFUSED)
def test_weights_that_a_formula_cannot_take_are_refused(layout, case):
    kind, options, message = REFUSED[case]
    with pytest.raises(InputError, match=line_with(message)):
        resolve(config(layout(kind), options))


@pytest.mark.parametrize("case", TAKEN)
def test_other_weights_are_taken(layout, case):
    kind, options = TAKEN[case]
    resolve(config(layout(kind), options))


MODELS = {
    "GCNConv": (lambda: Weighed(), f"Weighed, {DIVIDES}, uses_edge_weight = False", "--fan-out"),
    "in PyG's GCN": (lambda: GCN(5, 4, 2, 3), f"GCN, {DIVIDES}", "--fan-out"),
    "no loops": (lambda: Weighed(add_self_loops=False), f"Weighed, {DIVIDES}", "--fan-out"),
    "improved": (lambda: Weighed(improved=True), f"Weighed, 2 for its loop, {DIVIDES}", "--fan-out"),
    "sums": (lambda: Weighed(normalize=False), None, None),
    "GraphConv": (lambda: Weighed(GraphConv), None, None),
    "takes none": (lambda: Deaf(), None, None),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_model_of_pygs_is_asked_for_its_convolutions(layout, case):
    make, whole, drawn = MODELS[case]
    for kind, fan_out, message in (("harsh", ALL, whole), ("gentle", FEW, drawn), ("positive", FEW, None)):
        asked = replace(config(layout(kind), {"fan_out": fan_out}), model="sage")
        if message is None:
            resolve(asked, make())
        else:
            with pytest.raises(InputError, match=line_with(message)):
                resolve(asked, make())


def test_predictions_ask_the_same_of_their_layout(layout, in_pool, tmp_path):
    """A run of a graph with weights above 0, and what the same model is to predict on."""
    run = tmp_path / "run"
    with in_pool():
        gsplit.train(layout("positive"), config(None, {"out": run, "fan_out": FEW, "epochs": 1, "samplers": 0}))
        exact = gsplit.predict(run, layout("gentle"), what="logits", device="cpu", threads=1)
    assert np.isfinite(exact).all()
    with pytest.raises(InputError, match=line_with("gcn, 5 vertices")):
        gsplit.predict(run, layout("harsh"), device="cpu")
    with pytest.raises(InputError, match=line_with("drop --fan-out")):
        gsplit.predict(run, layout("gentle"), device="cpu", fan_out=FEW)


def test_in_edges_of_either_sign_train_alike_by_every_engine(layout, in_pool, tmp_path):
    """One step an epoch with all in-edges: of a mini-batch that two trainers split, and of the whole graph."""
    ways = {
        "split": {"fan_out": ALL, "batch_size": 1000, "samplers": 0},
        "full": {"strategy": "full", "num_layers": 2},
        "grid": {"strategy": "full", "num_layers": 2, "algorithm": "2d", "gpus": 4},
        "rotating": {"strategy": "full", "num_layers": 2, "algorithm": "rotate"},
    }
    found = []
    with in_pool():
        for name, way in ways.items():
            options = {"out": tmp_path / name, "epochs": 3, "lr": 0.1, "dropout": 0.0, "dtype": "float64", **way}
            gsplit.train(layout("gentle"), config(None, options))
            found.append(gsplit.load(tmp_path / name).state_dict())
    for other in found[1:]:
        for key, weights in found[0].items():
            np.testing.assert_allclose(other[key], weights, rtol=1e-6, atol=1e-9)
