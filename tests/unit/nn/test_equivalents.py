"""Convolutions that blocks compute: the same as the library's own code, and only those that are what they seem."""

from __future__ import annotations

import pytest
import torch
from support.blocks import unsplit
from support.graphs import random_graph
from support.libraries import needs_dgl
from support.steps import CPU
from torch import nn
from torch_geometric import nn as geometric

from gsplit.engine.inputs import blocks_of
from gsplit.features import EdgeLoader
from gsplit.nn import GATConv, SAGEConv
from gsplit.nn.adapters import adapter, wrap
from gsplit.nn.adapters.equivalents import equivalent_of

N = 80


def batch(*, weighted=False):
    """The block of an unsplit layer, and float64 features."""
    graph = random_graph(N, 6, seed=5, weighted=weighted)
    edges = EdgeLoader(graph, device=CPU, dtype=torch.float64, weights=True, degrees=False)
    segment = unsplit(graph, range(30), [4], edge_ids=edges.weights)
    x = torch.randn(len(segment.vertices), 6, dtype=torch.float64, requires_grad=True)
    return blocks_of(segment, CPU, None, **edges.load(segment)), x


class Net(nn.Module):
    def __init__(self, conv, call=None):
        super().__init__()
        self.conv, self._call = conv.double(), call

    def forward(self, x, edge_index):
        return self._call(self.conv, x, edge_index) if self._call else self.conv(x, edge_index)


class SparseNet(Net):
    def forward(self, x, adj_t):
        return self.conv(x, adj_t)


class WeightedNet(Net):
    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight)


def watch(monkeypatch, cls, name, calls):
    """Have the calls of a method listed."""
    original = getattr(cls, name)

    def listed(*arguments, **named):
        calls.append(name)
        return original(*arguments, **named)

    monkeypatch.setattr(cls, name, listed)


def both_ways(monkeypatch, make, *, weighted=False, uses=True):
    """Result and gradients by the block, and by the library's code; ``uses``: whether the block computes at all."""
    found = []
    for known in (True, False):
        torch.manual_seed(0)
        model = make()
        if not known:
            monkeypatch.setattr(adapter, "equivalent_of", lambda _: None)
        wrapped = wrap(model)
        blocks, x = batch(weighted=weighted)
        computed = []
        if known:
            for name in ("sum", "mean", "self_and_mean"):
                watch(monkeypatch, type(blocks[1]), name, computed)
        out = wrapped(blocks, x)
        assert bool(computed) == (uses and known)
        gradients = torch.autograd.grad(out.square().sum(), [x, *model.parameters()], allow_unused=True)
        found.append([out, *gradients])
        monkeypatch.undo()
    for ours, theirs in zip(*found, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def gin():
    return geometric.GINConv(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)), train_eps=True, eps=0.3)


def pairs(conv, x, edge_index):
    return conv((x, x[:30] * 2), edge_index)


SAME = {
    "sage": lambda: Net(geometric.SAGEConv(6, 3)),
    "sage-wide": lambda: Net(geometric.SAGEConv(6, 9)),
    "sage-sum": lambda: Net(geometric.SAGEConv(6, 3, aggr="sum")),
    "sage-options": lambda: Net(geometric.SAGEConv(6, 3, normalize=True, project=True, bias=False)),
    "sage-without-root": lambda: Net(geometric.SAGEConv(6, 3, root_weight=False)),
    "sage-pair": lambda: Net(geometric.SAGEConv((6, 6), 3), pairs),
    "graph": lambda: Net(geometric.GraphConv(6, 3)),
    "graph-pair": lambda: Net(geometric.GraphConv(6, 3), pairs),
    "gin": lambda: Net(gin()),
}


@pytest.mark.parametrize("name", SAME)
def test_the_block_gives_what_the_library_gives(monkeypatch, name):
    both_ways(monkeypatch, SAME[name])


def test_edge_weights_that_are_handed_on(monkeypatch):
    both_ways(monkeypatch, lambda: WeightedNet(geometric.GraphConv(6, 3)), weighted=True)


@pytest.mark.parametrize("conv", [lambda: geometric.SAGEConv(6, 3), lambda: geometric.GraphConv(6, 3), gin])
def test_edge_weights_inside_a_sparse_adjacency_count(monkeypatch, conv):
    both_ways(monkeypatch, lambda: SparseNet(conv()), weighted=True, uses=False)
    both_ways(monkeypatch, lambda: SparseNet(conv()), weighted=False)


class Twice(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def sage_with(**parts):
    conv = geometric.SAGEConv(6, 3)
    for name, part in parts.items():
        setattr(conv, name, part)
    return conv


def hooked(register):
    conv = geometric.SAGEConv(6, 3)
    register(conv)
    return conv


OTHERWISE = {
    "another class": lambda: Net(sage_with(lin_l=Twice(6, 3))),
    "a bias too many": lambda: Net(sage_with(lin_r=nn.Linear(6, 3))),
    "several maps": lambda: Net(sage_with(lin_l=nn.Sequential(nn.Linear(6, 3), nn.Tanh()))),
    "another aggregation": lambda: Net(sage_with(aggr_module=geometric.MaxAggregation())),
    "a hook on a map": lambda: Net(hooked(lambda c: c.lin_l.register_forward_hook(lambda _, __, out: 2 * out))),
    "a hook on messages": lambda: Net(hooked(lambda c: c.register_message_forward_hook(lambda _, __, out: 2 * out))),
    "a parametrised map": lambda: Net(hooked(lambda c: nn.utils.parametrizations.weight_norm(c.lin_l.double()))),
    "no own rows": lambda: Net(
        geometric.SAGEConv((6, 6), 3), lambda conv, x, e: conv((x, None), e, size=(len(x), 30))
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_not_as_its_class_makes_it_is_called_as_it_is(monkeypatch, name):
    both_ways(monkeypatch, OTHERWISE[name], uses=False)


def test_a_hook_that_comes_later_is_seen():
    model = Net(geometric.SAGEConv(6, 3))
    wrapped = wrap(model)
    blocks, x = batch()
    before = wrapped(blocks, x)
    seen = []
    model.conv.lin_l.register_forward_hook(lambda *_: seen.append(True))
    torch.testing.assert_close(wrapped(blocks, x), before, rtol=1e-10, atol=1e-10)
    assert seen


def test_subclasses_are_not_known():
    own = type("Own", (geometric.SAGEConv,), {"__module__": geometric.SAGEConv.__module__})
    assert equivalent_of(geometric.SAGEConv(6, 3)) is not None
    assert equivalent_of(own(6, 3)) is None
    assert equivalent_of(geometric.SAGEConv(6, 3, aggr="max")) is None


@needs_dgl
def test_dgls_map_with_a_bias_is_not_known():
    from dgl.nn.pytorch import SAGEConv as DGLSAGEConv

    conv = DGLSAGEConv(6, 3, "mean")
    assert equivalent_of(conv) is not None
    conv.fc_neigh = nn.Linear(6, 3)
    assert equivalent_of(conv) is None


@pytest.mark.parametrize("outputs", [3, 9])
def test_our_layer_calls_maps_that_are_more_than_their_weights(outputs):
    blocks, x = batch()
    conv = SAGEConv(6, outputs).double()
    plain = conv(blocks[1], x)
    conv.lin_self.register_forward_hook(lambda _, __, out: out + 1)
    torch.testing.assert_close(conv(blocks[1], x), plain + 1, rtol=1e-10, atol=1e-10)
    conv = SAGEConv(6, outputs).double()
    nn.utils.spectral_norm(conv.lin_self)
    conv(blocks[1], x).sum().backward()
    assert (conv.lin_self.weight_orig.grad != 0).any()
    conv = SAGEConv(6, outputs)
    with torch.autocast("cpu", torch.bfloat16):
        assert conv(blocks[1], x.float()).dtype == torch.bfloat16


def test_dropout_in_place_drops():
    blocks, x = batch()
    conv = GATConv(6, 4, heads=2).double()
    kept = conv(blocks[1], x)
    conv.dropout = nn.Dropout(1.0, inplace=True)
    assert torch.equal(conv(blocks[1], x), conv.bias.expand(30, -1))
    assert not torch.equal(kept, conv.bias.expand(30, -1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_in_half_precision(dtype):
    blocks, x = batch()
    conv = GATConv(6, 4, heads=2)
    rows = x.detach().float().requires_grad_()
    exact = torch.autograd.grad(conv(blocks[1], rows).square().sum(), rows)[0]
    half = x.detach().to(dtype).requires_grad_()
    out = conv.to(dtype)(blocks[1], half)
    (gradient,) = torch.autograd.grad(out.square().sum(), half)
    assert (gradient.float() - exact).norm() <= 0.1 * exact.norm()
