"""PyG's GCN and models of its GCNConv on blocks, against PyG itself on the whole graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.blocks import unsplit
from support.graphs import lay_out, random_graph, with_signs
from support.messages import line_with
from support.steps import CPU
from torch import nn
from torch_geometric.nn import GCN, GCNConv

import gsplit
from gsplit.config.train import TrainConfig
from gsplit.engine.inputs import SplitLoader
from gsplit.errors import InputError
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.models.prepared import prepare
from gsplit.runs import checkpoint


def graph_of(*, weighted: bool | str = False):
    """Some vertices have a loop, none has two: PyG would keep one of them."""
    graph = random_graph(150, 9, seed=8, features=6, weighted=bool(weighted))
    destination = np.repeat(np.arange(150), np.diff(graph.indptr))
    _, first = np.unique(destination * 150 + graph.indices, return_index=True)
    loops = (graph.indices == destination)[first]
    assert 0 < loops.sum() < 100
    counts = np.bincount(destination[first], minlength=150)
    weight = None if graph.edge_weight is None else graph.edge_weight[first]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    graph = replace(graph, indptr=indptr, indices=graph.indices[first], edge_weight=weight)
    if weighted != "signs":
        return graph
    graph = with_signs(graph)
    graph.edge_weight[graph.indices == destination[first]] = 2.5  # PyG gives no loop to a vertex that has one
    return graph


def edges_of(graph):
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    weight = None if graph.edge_weight is None else torch.from_numpy(graph.edge_weight)
    return torch.from_numpy(np.stack([graph.indices, destination]).astype(np.int64)), weight


def on_blocks(model, graph, layers, dtype):
    """Logits of all vertices over all neighbours, as blocks compute them."""
    prepared, needs = prepare(model)
    edges = EdgeLoader(graph, device=CPU, dtype=dtype, **needs)
    segment = unsplit(graph, range(graph.num_vertices), [-1] * layers, edge_ids=edges.weights)
    rows = FeatureLoader(HostRows(graph.features), device=CPU, dtype=dtype, normalize=False, threads=1)
    inputs = SplitLoader(type("Layout", (), {"graph": graph}), CPU, rows, edges)
    return prepared(*inputs.inputs(segment, None))


OPTIONS = {
    "plain": {},
    "cat": {"jk": "cat"},
    "max": {"jk": "max"},
    "lstm": {"jk": "lstm"},
    "last": {"jk": "last"},
    "cached": {"cached": True},
    "improved": {"improved": True, "jk": "cat"},
    "no-loops": {"add_self_loops": False},
    "sums": {"normalize": False, "bias": False},
}


WEIGHTED = [(name, weighted) for name in OPTIONS for weighted in (False, True, "signs")]
WEIGHTED.remove(("no-loops", "signs"))  # where weights cancel, nothing is left to divide by: such a run is refused


@pytest.mark.parametrize(("name", "weighted"), WEIGHTED)
def test_the_logits_are_pygs_over_the_whole_graph(name, weighted):
    graph = graph_of(weighted=weighted)
    edge_index, weight = edges_of(graph)
    for dtype, near in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        torch.manual_seed(1)
        model = GCN(6, 16, 3, 4, norm="layer_norm", norm_kwargs={"mode": "node"}, **OPTIONS[name]).to(dtype).eval()
        x = torch.from_numpy(graph.features).to(dtype)
        theirs = model(x, edge_index, None if weight is None else weight.to(dtype))
        ours = on_blocks(model, graph, 3, dtype)
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near * theirs.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_logits_are_pygs_in_mixed_precision(dtype):
    """Rows alone are rounded, and no degree, which float16 may not even reach: float64 is held against."""
    graph = graph_of(weighted=True)
    graph = replace(graph, edge_weight=graph.edge_weight * 1e5)
    edge_index, weight = edges_of(graph)
    torch.manual_seed(1)
    model = GCN(6, 16, 3, 4).eval()
    with torch.autocast("cpu", dtype):
        ours = on_blocks(model, graph, 3, torch.float32).double()
    theirs = model.double()(torch.from_numpy(graph.features).double(), edge_index, weight.double())
    assert (ours - theirs).norm() <= 2**-7 * theirs.norm()


class Unweighted(nn.Module):
    """A forward that takes no weights, on a graph that has some."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(6, 4)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class Forgetful(Unweighted):
    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index)


class Says(Forgetful):
    uses_edge_weight = False


class Pairs(Unweighted):
    def forward(self, x, edge_index):
        return self.conv((x, x), edge_index)


def test_a_model_that_takes_no_weights_has_degrees_without_them():
    graph, model = graph_of(weighted=True), Unweighted().double()
    theirs = model(torch.from_numpy(graph.features).double(), edges_of(graph)[0])
    torch.testing.assert_close(on_blocks(model, graph, 1, torch.float64), theirs, rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError, match=line_with("GCNConv, edge_weight")):
        on_blocks(Forgetful().double(), graph, 1, torch.float64)
    on_blocks(Says().double(), graph, 1, torch.float64)
    with pytest.raises(InputError, match=line_with("GCNConv, Pairs")):
        on_blocks(Pairs().double(), graph, 1, torch.float64)


@pytest.mark.parametrize("jk", [None, "cat", "max"])
def test_a_run_of_pygs_gcn_is_pygs_gcn(tmp_path, in_pool, jk):
    """Logits of a trained model, of two trainers, equal PyG's with the weights that were saved; and back again."""
    graph = graph_of()
    layout, run = lay_out(graph, tmp_path, parts=2).path, tmp_path / "run"
    arguments = "" if jk is None else f"jk={jk}"
    config = TrainConfig(
        out=run, model="torch_geometric.nn:GCN", model_args=arguments, fan_out=(3, 3), hidden=8, epochs=2, lr=0.05,
        dropout=0.0, batch_size=30, device="cpu", threads=1, samplers=0, save_predictions="logits",
    )  # fmt: skip
    with in_pool():
        gsplit.train(layout, config)
    theirs = GCN(6, 8, 2, graph.num_classes, jk=jk).eval()
    before = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    saved = checkpoint.load_state(run, checkpoint.MODEL)
    theirs.load_state_dict(saved)
    assert any((before[name] != tensor).any() for name, tensor in saved.items())
    logits = theirs(torch.from_numpy(graph.features), edges_of(graph)[0])
    ours = torch.from_numpy(np.load(run / "predictions.npy"))
    torch.testing.assert_close(ours, logits, rtol=1e-6, atol=1e-6 * logits.abs().max().item())
    gsplit.load(run).load_state_dict(before)
