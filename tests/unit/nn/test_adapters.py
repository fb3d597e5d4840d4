"""Wrapping models of PyG and DGL: which block a convolution gets, and what is refused and how."""

from __future__ import annotations

import pickle

import pytest
import torch
from support import models
from support.blocks import unsplit
from support.graphs import random_graph
from support.libraries import needs_dgl
from support.messages import line_with
from support.models import PyGNet, PyGSparseNet, make_model, stacked
from support.steps import CPU
from torch import nn

from gsplit.engine.inputs import blocks_of
from gsplit.errors import InputError
from gsplit.nn.adapters import Adapter, wrap

GRAPH = random_graph(80, 6, seed=5)


def batch(layers=2):
    """Blocks and features of an unsplit mini-batch."""
    segment = unsplit(GRAPH, range(30), [4] * layers)
    return blocks_of(segment, CPU, None), torch.from_numpy(GRAPH.features[segment.vertices])


class Net(nn.Module):
    """Two convolutions of PyG and whatever else a test puts beside them."""

    def __init__(self, convs=2, **others):
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.convs = nn.ModuleList(SAGEConv(5, 5) for _ in range(convs))
        for name, module in others.items():
            setattr(self, name, module)

    def forward(self, x, edge_index):
        for conv in self.convs:
            x = conv(x, edge_index)
        return x


@pytest.mark.parametrize("name", ["pyg-SAGEConv", pytest.param("dgl-GraphConv-both", marks=needs_dgl)])
def test_weights_keep_their_names_and_a_wrapped_model_travels(name):
    model = make_model(name, 5, 3, 2)
    names = set(model.state_dict())
    wrapped = wrap(model)
    assert isinstance(wrapped, Adapter)
    assert wrap(wrapped) is wrapped
    assert set(wrapped.state_dict()) == names
    blocks, x = batch()
    out = wrapped(blocks, x)
    assert out.shape == (30, 3)
    travelled = pickle.loads(pickle.dumps(wrapped))
    assert torch.equal(travelled(blocks, x), out)
    other = make_model(name, 5, 3, 2)
    other.load_state_dict(wrapped.state_dict())
    with torch.no_grad():
        next(other.parameters()).zero_()
    wrapped.load_state_dict(other.state_dict())
    assert not torch.equal(wrapped(blocks, x), out)


def test_the_model_itself_can_still_be_used_with_its_library():
    model = make_model("pyg-SAGEConv", 5, 3, 2)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    before = model(torch.ones(3, 5), edge_index)
    wrapped = wrap(model)
    wrapped(*batch())
    assert torch.equal(model(torch.ones(3, 5), edge_index), before)


@pytest.mark.parametrize(
    "name", ["pyg-SAGEConv", "pyg-adjs", "pyg-data", pytest.param("dgl-SAGEConv", marks=needs_dgl)]
)
def test_vectors_of_a_level_are_those_the_next_convolution_gets(name):
    model = wrap(make_model(name, 5, 3, 3)).eval()
    blocks, x = batch(layers=3)
    first = model.forward_until(1, {1: blocks[1]}, x)
    assert first.shape == (blocks[1].num_destinations, 8)
    assert (first >= 0).all()  # after the activation
    second = model.forward_until(2, {layer: blocks[layer] for layer in (1, 2)}, x)
    assert second.shape == (blocks[2].num_destinations, 8)


def test_other_models_are_returned_as_they_are():
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    assert wrap(model) is model


def pyg(name, *arguments, **options):
    import torch_geometric.nn as g

    return lambda: getattr(g, name)(*arguments, **options)


def watched(conv):
    conv.register_message_forward_hook(lambda _, __, out: out)
    return conv


def mapped(conv):
    conv.lin = nn.Sequential(conv.lin, nn.Tanh())
    return conv


def own_gcn():
    import torch_geometric.nn as g

    return type("Own", (g.GCNConv,), {})


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (pyg("GCNConv", 5, 5, flow="target_to_source"), "GCNConv, flow='target_to_source'"),
        (pyg("GCNConv", 5, 5, aggr="max"), "GCNConv, aggr='max', leave it 'add'"),
        (pyg("GCNConv", 5, 5, decomposed_layers=5), "GCNConv, decomposed_layers=5"),
        (pyg("GCNConv", 5, 5, node_dim=0), "GCNConv, node_dim=0, leave it -2"),
        (lambda: watched(pyg("GCNConv", 5, 5)()), "GCNConv, messages"),
        (lambda: mapped(pyg("GCNConv", 5, 5)()), "GCNConv, lin"),
        (lambda: own_gcn()(5, 5), "Own, use GCNConv itself"),
        (pyg("APPNP", 3, 0.1), "APPNP"),
        (pyg("SuperGATConv", 5, 5), "SuperGATConv"),
        (pyg("GraphNorm", 5), "GraphNorm"),
        (pyg("LayerNorm", 5), "LayerNorm, mode='node'"),
        (pyg("TopKPooling", 5), "TopKPooling"),
        (lambda: nn.InstanceNorm1d(5), "InstanceNorm1d"),
        (lambda: nn.BatchNorm2d(5), "BatchNorm2d, BatchNorm1d"),
        (lambda: nn.BatchNorm1d(5, track_running_stats=False), "BatchNorm1d, running statistics"),
    ],
)
def test_what_cannot_be_split_is_refused_by_name(layer, message):
    with pytest.raises(InputError, match=line_with("extra, cannot be split", message)):
        wrap(Net(extra=layer()))


@pytest.mark.parametrize(
    "layer", [pyg("LayerNorm", 5, mode="node"), pyg("MessageNorm"), pyg("BatchNorm", 5), lambda: nn.LayerNorm(5)]
)
def test_what_looks_at_one_vertex_is_not_refused(layer):
    wrap(Net(extra=layer()))


@needs_dgl
@pytest.mark.parametrize("name", ["ChebConv", "APPNPConv", "TAGConv"])
def test_convolutions_of_dgl_over_several_hops_are_refused(name):
    import dgl.nn as d

    layer = getattr(d, name)(*{"ChebConv": (5, 5, 2), "APPNPConv": (2, 0.1), "TAGConv": (5, 5)}[name])
    with pytest.raises(InputError, match=line_with(f"{name}, cannot be split")):
        wrap(nn.Sequential(layer))


@needs_dgl
def test_a_mixture_of_libraries_is_refused():
    import dgl.nn as d

    with pytest.raises(InputError, match=line_with("DGL (SAGEConv), PyG (SAGEConv)")):
        wrap(Net(extra=d.SAGEConv(5, 5, "mean")))


class Adds(Net):
    def forward(self, x, edge_index):
        return super().forward(x, torch.cat([edge_index, edge_index], dim=1))


class Reads(Net):
    def forward(self, x, edge_index):
        _, col = edge_index
        return super().forward(x, edge_index) / torch.bincount(col, minlength=len(x)).unsqueeze(1)


class Foreign(Net):
    def forward(self, x, edge_index):
        return super().forward(x, torch.zeros(2, 1, dtype=torch.int64))


class SkipsNothing(Net):
    def forward(self, x, edge_index):
        for conv in self.convs:
            x = x + conv(x, edge_index)
        return x


class Whole(Net):
    """With a convolution of the user's own, written for whole graphs."""

    def __init__(self):
        from torch_geometric.nn import MessagePassing

        class Own(MessagePassing):
            def __init__(self):
                super().__init__(aggr="add")
                self.lin = nn.Linear(5, 5)

            def forward(self, x, edge_index):
                return self.propagate(edge_index, x=self.lin(x))

        super().__init__()
        self.convs = nn.ModuleList([Own(), Own()])


class Unknown(Net):
    def forward(self, x, edge_index, temperature):
        return x


class Skips(Net):
    def forward(self, x, edge_index):
        self.convs[0](x, edge_index)
        return self.convs[1](x, edge_index)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Adds, "(cat"),
        (Reads, "forward, edge weights, convolutions"),
        (Foreign, "Foreign"),
        (SkipsNothing, "SkipsNothing, x[: out.shape[0]]"),
        (Whole, "Whole, (x_source, x_destination)"),
        (Unknown, "Unknown, temperature"),
        (lambda: Net(convs=3), "convolutions, layers"),
        (lambda: Net(convs=1), "1, 2, --fan-out"),
        (Skips, "layer 2, Skips, # rows, level 1"),
    ],
)
def test_forwards_that_do_not_fit_are_told_so(make, message):
    with pytest.raises(InputError, match=line_with(message)):
        wrap(make())(*batch())


class OwnConv(nn.Module):
    """A convolution of the user's own, in DGL's message passing."""

    def __init__(self, w_in, w_out):
        super().__init__()
        self.lin = nn.Linear(w_in, w_out)

    def forward(self, block, x):
        import dgl.function as fn

        with block.local_scope():
            block.srcdata["h"] = x
            block.update_all(fn.copy_u("h", "m"), fn.max("m", "h"))
            return self.lin(block.dstdata["h"])


class OwnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = OwnConv(5, 8), OwnConv(8, 3)

    def forward(self, mfgs, feats):
        return self.second(mfgs[1], torch.relu(self.first(mfgs[0], feats)))


@needs_dgl
def test_convolutions_of_ones_own_in_dgl():
    blocks, x = batch()
    wrapped = wrap(OwnNet(), convolutions=[OwnConv])
    assert wrapped(blocks, x).shape == (30, 3)
    assert not isinstance(wrap(OwnNet()), Adapter)


class TwoInOneLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Net()

    def forward(self, x, adjs):
        (edge_index, _, size) = adjs[0]
        return sum(conv((x, x[: size[1]]), edge_index) for conv in self.pair.convs)


def test_several_convolutions_share_a_layer_where_the_graph_says_which():
    blocks, x = batch(layers=1)
    model, x = TwoInOneLayer().double(), x.double()
    out = wrap(model)(blocks, x)
    sources = (x, x[: blocks[1].num_destinations])
    wanted = sum(conv(sources, blocks[1].edge_index()) for conv in model.pair.convs)
    torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-10)


class Native(nn.Module):
    """Our own interface, with a convolution of PyG inside."""

    def __init__(self):
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.conv = SAGEConv(5, 3)

    def forward(self, blocks, x):
        x = blocks[1].exchange(x)
        return self.conv((x, x[: blocks[1].num_destinations]), blocks[1].edge_index())


def test_a_forward_on_blocks_may_call_pyg_itself():
    model = Native()
    assert wrap(model) is model


class ForNeighborLoader(Net):
    def forward(self, x, edge_index, batch_size):
        return super().forward(x, edge_index)[:batch_size]


def test_batch_size_is_the_number_of_targets():
    assert wrap(ForNeighborLoader())(*batch()).shape == (30, 5)


class OddWeightName(nn.Module):
    def __init__(self):
        from torch_geometric.nn import SimpleConv

        super().__init__()
        self.conv = SimpleConv()
        self.scale = nn.Parameter(torch.ones(()))
        self.uses_edge_weight = True

    def forward(self, x, edge_index, edge_weight):
        return self.scale * self.conv(x, edge_index, edge_weight)


def test_attributes_of_the_users_model_say_what_blocks_carry():
    from gsplit.models.prepared import prepare

    model = OddWeightName()
    assert prepare(model).needs["weights"]
    model.uses_edge_weight = False
    assert not prepare(model).needs["weights"]


@needs_dgl
def test_subclasses_and_keywords_of_dgl():
    import dgl.nn as d

    class MyConv(d.SAGEConv):
        pass

    class ByKeyword(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = MyConv(5, 3, "mean")

        def forward(self, blocks, x):
            return self.conv(graph=blocks[0], feat=x)

    blocks, x = batch(layers=1)
    assert wrap(ByKeyword())(blocks, x).shape == (30, 3)


class AsksTheGraph(nn.Module):
    def __init__(self):
        import dgl.nn as d

        super().__init__()
        self.conv = d.SAGEConv(5, 3, "mean")

    def forward(self, g, h):
        return self.conv(g, h * g.num_nodes())


@needs_dgl
def test_a_forward_that_asks_the_one_graph_is_told_to_take_blocks():
    with pytest.raises(InputError, match=line_with("num_nodes, list of blocks")):
        wrap(AsksTheGraph())(*batch(layers=1))


@pytest.mark.parametrize(
    ("make", "taken"),
    [
        (lambda: stacked(PyGNet, models.pyg("SAGEConv")), True),
        (lambda: stacked(PyGNet, models.pyg("GraphConv"), weights=True), True),
        (lambda: stacked(PyGNet, models.pyg("GraphConv", aggr="mean"), weights=True), False),  # over the edges kept
        (lambda: stacked(PyGNet, models.pyg("GATConv")), False),
        (lambda: stacked(PyGSparseNet, models.pyg("SAGEConv")), False),  # a product, not by the block
    ],
)
def test_sums_of_library_models_are_estimates_where_blocks_compute_them(make, taken):
    assert wrap(make()(5, 3, 2)).takes_scales == taken
