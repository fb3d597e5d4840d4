"""Features that the first layer reads where they lie: the same training, bit for bit, as of copies of them."""

from __future__ import annotations

import copy
from unittest import mock

import pytest
import torch
from support.blocks import unsplit
from support.graphs import lay_out, random_graph
from support.models import DGLNet, PyGNet
from support.runs import all_equal, config_for, train_in_trainer, trainer_of
from torch import nn

import gsplit._core as _core
from gsplit.data import open_layout
from gsplit.engine.inputs import blocks_of
from gsplit.features import FeatureLoader
from gsplit.kernels import StoredRows
from gsplit.nn import GAT, GCN, SAGE, SAGEConv
from gsplit.nn.adapters import wrap

WIDTH = 40  # whole vectors and a part of one
OURS = {"hidden": 8, "dtype": "float32", "dropout": 0.3, "fan_out": (4, 4, 3)}


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    graph = random_graph(300, 10, seed=3, features=WIDTH)
    return lay_out(graph, tmp_path_factory.mktemp("stored"), parts=2).path


def vertices_met(member, config):
    """The vertices of the first mini-batch that each hop met, as this trainer loads them."""
    loaded = []

    def load(loader, ids):
        loaded.append(ids)
        return torch.zeros(len(ids), WIDTH)

    with mock.patch.multiple(FeatureLoader, stores=False, load=load):
        trainer = trainer_of(member, config)
        blocks = next(trainer.feed).blocks
        trainer.close()
    return [loaded[0][block.num_destinations : block.num_own_sources] for block in blocks.values()]


@pytest.mark.parametrize(
    ("changes", "by_id"), [({}, True), ({"hidden": WIDTH}, False), ({"model": "gcn"}, False)], ids=str
)
def test_vertices_are_numbered_by_id_where_a_model_reads_rows_where_they_lie(pool, layout, tmp_path, changes, by_id):
    config = config_for(layout, tmp_path / "run", **{**OURS, **changes})
    for met in pool.run(2, vertices_met, config):
        assert sum(len(ids) for ids in met) > 20
        assert all((ids[1:] > ids[:-1]).all() for ids in met) == by_id


def train_copies(member, config):
    """As ``train_in_trainer``, with all features copied."""
    with mock.patch.object(FeatureLoader, "stores", False):
        return train_in_trainer(member, config)


def kinds_of_rows(member, config):
    """Type of the features of the first mini-batch, all of which are counted as loaded."""
    trainer = trainer_of(member, config)
    mini_batch = next(trainer.feed)
    kind, rows = type(mini_batch.x), mini_batch.loaded.rows
    assert rows == mini_batch.x.shape[0]
    trainer.close()
    return kind


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("model", ["sage", "torch_geometric.nn:GraphSAGE"])
def test_training_is_that_of_copies(pool, layout, tmp_path, model, world):
    changes = {**OURS, "model": model}
    stored = pool.run(world, train_in_trainer, config_for(layout, tmp_path / "stored", **changes))
    copies = pool.run(world, train_copies, config_for(layout, tmp_path / "copies", **changes))
    assert not all_equal(stored[0]["before"], stored[0]["after"])
    for one, other in zip(stored, copies, strict=True):
        assert all_equal(one["after"], other["after"])
    assert stored[0]["summary"]["traffic"] == copies[0]["summary"]["traffic"]


@pytest.mark.parametrize(
    ("changes", "stored"),
    [
        ({}, _core.narrow_fits(8, WIDTH)),
        ({"hidden": WIDTH - 1}, _core.has_wide_products()),
        ({"hidden": WIDTH}, False),  # no narrower than the features
        ({"dtype": "float64"}, False),
        ({"model": "gcn"}, False),
        ({"normalize_features": True}, False),
        ({"input_dropout": 0.1}, False),
        ({"residual": True}, False),
        ({"strategy": "data", "cache": "replicated", "cache_size": "50%"}, False),
        ({"model": "torch_geometric.nn:GraphSAGE"}, _core.narrow_fits(8, WIDTH)),
        ({"model": "torch_geometric.nn:GraphSAGE", "hidden": WIDTH}, False),
        ({"model": "torch_geometric.nn:GAT"}, False),
    ],
    ids=str,
)
def test_rows_are_stored_where_nothing_else_looks_at_them(pool, layout, tmp_path, changes, stored):
    config = config_for(layout, tmp_path / "run", **{**OURS, **changes})
    wanted = StoredRows if stored else torch.Tensor
    assert pool.run(2, kinds_of_rows, config) == [wanted, wanted]


class Scaled(SAGE):
    """Looks at the features before the first layer does."""

    def forward(self, blocks, x):
        return super().forward(blocks, x * 2)


def kind_after_a_hook(member, config):
    """Type of the features of a mini-batch that is made after a user's loop has put a hook on the model."""
    trainer = trainer_of(member, config)
    trainer.model.register_forward_pre_hook(lambda *_: None)
    kind = type(next(trainer.feed).x)
    trainer.close()
    return kind


def test_a_hook_that_a_loop_puts_on_a_model_sees_tensors(pool, layout, tmp_path):
    config = config_for(layout, tmp_path / "run", **{**OURS, "prefetch": 0})
    assert pool.run(2, kind_after_a_hook, config) == [torch.Tensor] * 2


class ScaledConv(SAGEConv):
    """Looks at the rows before they are projected."""

    def forward(self, block, x):
        return super().forward(block, x * 2)


def test_models_that_look_at_the_features_are_given_copies():
    def sage(**changes):
        return SAGE(WIDTH, 8, 3, num_layers=2, **changes)

    assert sage().reads_stored_rows == _core.narrow_fits(8, WIDTH)
    hooked, hooked_within, derived = sage(), sage(), sage()
    hooked.register_forward_pre_hook(lambda *_: None)
    hooked_within.convs[0].lin_neigh.register_forward_hook(lambda *_: None)
    derived.convs[0] = ScaledConv(WIDTH, 8)
    patched, patched_within = sage(), sage()
    patched.forward_layer = patched.forward_layer
    patched_within.convs[0].forward = patched_within.convs[0].forward
    others = [patched, patched_within, hooked, hooked_within, derived, Scaled(WIDTH, 8, 3, num_layers=2)]
    others += [sage(input_projection=True), sage(residual=True), sage(input_dropout=0.5)]
    others += [GCN(WIDTH, 8, 3, num_layers=2), GAT(WIDTH, 8, 3, num_layers=2, heads=2)]
    assert not any(model.reads_stored_rows for model in others)
    rows = StoredRows(table=torch.zeros(5, WIDTH).numpy(), ids=torch.arange(5).numpy())
    seen = []
    changed = sage(input_dropout=0.5)
    changed.input_dropout.forward = lambda x: seen.append(type(x)) or x
    changed.convs[0].forward = lambda block, x: x[:, :8]
    changed.forward_layer(1, nn.Module(), rows)  # such a model may be made of another after it was asked
    assert seen == [torch.Tensor]


def dgl_models():
    """DGL's GraphSAGE twice: the first hands its features on, the second drops out some of them."""
    dgl = pytest.importorskip("dgl.nn")
    for share in (0.0, 0.5):
        yield DGLNet([dgl.SAGEConv(WIDTH, 8, "mean", feat_drop=share), dgl.SAGEConv(8, 3, "mean")])


class LooksLater(PyGNet):
    """Computes with its features from its second forward on."""

    calls = 0

    def forward(self, x, edge_index):
        self.calls += 1
        return super().forward(x if self.calls == 1 else x * 2, edge_index)


class Reads(PyGNet):
    """Makes something of its features, before its first convolution or after the last."""

    def __init__(self, convs, read, *, after):
        super().__init__(convs)
        self.read, self.after = read, after

    def forward(self, x, edge_index):
        if self.after:
            out = super().forward(x, edge_index)
            return out + self.read(x)[: len(out), :1]
        return super().forward(self.read(x), edge_index)


READS = {
    "torch.tensor": lambda x: torch.tensor(x),
    "torch.Tensor": lambda x: torch.Tensor(x),
    "dlpack": lambda x: torch.from_dlpack(x),
    "untyped storage": lambda x: torch.empty(0).set_(x.untyped_storage(), 0, x.shape),
    "torch.func": lambda x: torch.func.grad(lambda rows: (rows**2).sum())(x),
    "an index": lambda x: torch.arange(1000.0)[torch.tensor(x).abs().long()],
}


def pyg_net(cls=PyGNet, **options):
    from torch_geometric.nn import SAGEConv as PyGConv

    return cls([PyGConv(WIDTH, 8, **options), PyGConv(8, 3)])


def test_adapters_say_which_models_need_no_copy():
    reads = _core.narrow_fits(8, WIDTH)
    assert [wrap(model).reads_stored_rows for model in dgl_models()] == [reads, False]
    assert wrap(pyg_net()).reads_stored_rows == reads
    for options in ({"aggr": "max"}, {"root_weight": False}, {"project": True}):
        assert not wrap(pyg_net(**options)).reads_stored_rows


def logits_of(model, layout, stored):
    """Of two forwards of a wrapped model on a mini-batch, by stored rows or by copies; whether none was copied."""
    torch.manual_seed(0)
    wrapped = wrap(model)
    layout = open_layout(layout)
    segment = unsplit(layout.graph, range(60), [4, 4])
    blocks = blocks_of(segment, torch.device("cpu"), None)
    rows = StoredRows(table=layout.graph.features, ids=segment.vertices)
    found = []
    for _ in range(2):
        out = wrapped(blocks, rows if stored else rows.copied(1))
        out.square().sum().backward()
        found.append(out.detach())
    return found, [p.grad for p in wrapped.parameters()], not rows.use.copied


def reads_stored_rows(model, layout):
    """Whether stored rows were not copied; the model computes from them what it computes from copies."""
    other = copy.deepcopy(model)
    (of_stored, grads, reads), (of_copies, wanted, _) = (
        logits_of(model, layout, True),
        logits_of(other, layout, False),
    )
    assert all(torch.equal(a, b) for a, b in zip(of_stored, of_copies, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(grads, wanted, strict=True))
    return reads


@pytest.mark.skipif(not _core.narrow_fits(8, WIDTH), reason="without AVX2 nothing is read where it lies")
@pytest.mark.parametrize(
    ("make", "reads"),
    [
        (pyg_net, True),
        (lambda: pyg_net(LooksLater), False),
        (lambda: next(dgl_models()), True),
        (lambda: pyg_net(root_weight=False), False),  # it did not say so, and is given them all the same
    ],
    ids=["hands on", "computes with them later", "DGL", "needs a copy"],
)
def test_a_model_that_uses_its_features_after_all_gets_their_values(layout, make, reads):
    torch.manual_seed(1)
    model = make()
    assert reads_stored_rows(model, layout) == reads


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.skipif(not _core.narrow_fits(8, WIDTH), reason="without AVX2 nothing is read where it lies")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("read", READS)
def test_whatever_makes_tensors_of_features_makes_them_of_their_values(layout, read, after):
    torch.manual_seed(1)
    model = pyg_net(lambda convs: Reads(convs, READS[read], after=after))
    assert not reads_stored_rows(model, layout)
