"""Predictions are those of the whole graph on one processor, whatever the layout, the trainers and the request."""

from __future__ import annotations

import copy
import os

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.commands import children_here
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.models import make_model, names
from support.predictions import predicted, whole_graph_vectors
from support.runs import all_equal, config_for, train_in_trainer
from torch import nn

import gsplit
from gsplit.data import open_store
from gsplit.device.precision import Precision
from gsplit.engine.evaluation import Evaluator
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objective import objective_of
from gsplit.errors import InputError, ProcessDied
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.nn import SAGE

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
ASKED = np.array([7, 299, 7, 0, 150, 3, 150, 150, 42])  # neither sorted nor distinct


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(5)
    return SAGE(5, 6, 3, num_layers=3, dropout=0.5).double()


@pytest.fixture(scope="module")
def graph(layouts):
    return open_store(layouts(1).path.parent / "store").graph


@pytest.mark.cases(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_exact_vectors_of_each_level(pool, layouts, graph, model, tmp_path, world, dtype):
    expected = whole_graph_vectors(graph, model, 3)
    for asked in (np.arange(300), ASKED):
        for level in (1, 2, 3):
            values = predicted(pool, layouts(world), model, asked, tmp_path / "job", level=level, dtype=dtype)
            assert values.dtype == dtype
            np.testing.assert_allclose(values, expected[level][asked], rtol=0, atol=TOLERANCE[dtype])
        classes = predicted(pool, layouts(world), model, asked, tmp_path / "job", classes=True, dtype=dtype)
        assert classes.dtype == np.int64
        assert classes.tolist() == expected[3][asked].argmax(axis=1).tolist()


class Whole(nn.Module):
    """A user's model that does not offer its layers one at a time, but stops where it is told."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, blocks, x):
        return self.forward_until(3, blocks, x)

    def forward_until(self, last, blocks, x):
        for layer in range(1, last + 1):
            x = self.inner.forward_layer(layer, blocks[layer], x)
        return x


@pytest.mark.parametrize("world", [1, 3])
def test_models_without_forward_layer(pool, layouts, graph, model, tmp_path, world):
    expected = whole_graph_vectors(graph, model, 3)
    for fan_out in ((), (-1, -1, -1)):
        for level in (1, 3):
            values = predicted(
                pool, layouts(world), Whole(model), ASKED, tmp_path / "job", level=level, fan_out=fan_out
            )
            np.testing.assert_allclose(values, expected[level][ASKED], rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sampled_vectors_do_not_depend_on_the_trainers(pool, layouts, graph, model, tmp_path, dtype):
    exact = whole_graph_vectors(graph, model, 3)
    # Mini-batches of two leave trainers without a target.
    for asked, batch_size in ((np.random.default_rng(0).permutation(300), 50), (ASKED, 2)):
        for level in (2, 3):
            changes = {"level": level, "fan_out": (3, 2, 2), "dtype": dtype, "batch_size": batch_size}
            alone = predicted(pool, layouts(1), model, asked, tmp_path / "1", **changes)
            assert np.abs(alone - exact[level][asked]).max() > 0.1
            for world in (2, 3, 4):
                values = predicted(pool, layouts(world), model, asked, tmp_path / "P", **changes)
                np.testing.assert_allclose(values, alone, rtol=0, atol=TOLERANCE[dtype])
            other = predicted(pool, layouts(1), model, asked, tmp_path / "1", **changes, seed=2)
            assert np.abs(alone - other).max() > 0.1


def test_a_layer_draws_the_same_number_whichever_level_is_wanted(pool, layouts, graph, model, tmp_path):
    expected = whole_graph_vectors(graph, model, 3)
    for level, fan_out in ((1, (1, 1, -1)), (2, (1, -1, -1))):
        values = predicted(pool, layouts(2), model, ASKED, tmp_path / "job", level=level, fan_out=fan_out)
        np.testing.assert_allclose(values, expected[level][ASKED], rtol=0, atol=1e-10)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "name", names(["gat-all", "gcn", "pyg-SAGEConv", "pyg-GATConv-no-loops", "pyg-batch-norm", "dgl-GraphConv-both"])
)
def test_other_models_with_edge_weights(pool, tmp_path, name):
    graph = random_graph(90, 6, seed=3, weighted=True)
    model = make_model(name, 5, 3, 2).double()
    asked = np.arange(90)[::-1]
    alone, three = (lay_out(graph, tmp_path, parts=parts) for parts in (1, 3))
    for level in (1, 2):
        changes = {"level": level, "num_layers": 2}
        exact = predicted(pool, alone, model, asked, tmp_path / "job", **changes)
        assert len(np.unique(exact, axis=0)) > 45  # without self loops isolated vertices are alike
        # Out-degrees drawn by a mini-batch are not those of the graph, whatever the fan-outs.
        for fan_out in ((),) if name == "dgl-GraphConv-both" else ((), (-1, -1)):
            values = predicted(pool, three, model, asked, tmp_path / "job", fan_out=fan_out, **changes)
            np.testing.assert_allclose(values, exact, rtol=0, atol=1e-10)
        few = predicted(pool, three, model, asked[:4], tmp_path / "job", **changes)
        np.testing.assert_allclose(few, exact[:4], rtol=0, atol=1e-10)


def test_multi_label_classes_are_zeros_and_ones(pool, tmp_path):
    graph = random_graph(80, 6, seed=2, classes=4, multi_label=True)
    model = SAGE(5, 6, 4, num_layers=2).double()
    layout = lay_out(graph, tmp_path, parts=3)
    values = predicted(pool, layout, model, [3, 1, 3], tmp_path / "job", num_layers=2, classes=True)
    assert values.dtype == np.uint8
    assert values.tolist() == (whole_graph_vectors(graph, model, 2)[2][[3, 1, 3]] > 0).astype(int).tolist()


def rows_loaded(member, layout, model, own_by_rank):
    """Feature rows that a trainer reads for the vectors of its vertices."""
    features = layout.graph.features
    loader = FeatureLoader(HostRows(features), device=member.device, dtype=torch.float64, normalize=False, threads=1)
    edges = EdgeLoader(layout.graph, device=member.device, dtype=torch.float64, weights=False, degrees=False)
    evaluator = Evaluator(
        layout,
        member,
        SplitLoader(layout, member.device, loader, edges),
        objective_of("classes"),
        pool_module.SHARED.levels,
        num_layers=3,
        precision=Precision(dtype=torch.float64),
        threads=1,
    )
    for _ in evaluator.vectors(model, own_by_rank[member.rank], 3):
        pass
    return loader.counters.rows


def test_only_what_the_request_depends_on_is_computed(pool, tmp_path):
    # 0 <- 1 <- 2 <- ... <- 39, cut in the middle; a vector of level 3 depends on 4 vertices.
    n = 40
    graph = random_graph(n, 1)
    path = {"indptr": np.minimum(np.arange(n + 1), n - 1), "indices": np.arange(1, n, dtype=np.int32)}
    layout = lay_out(type(graph)(**{**graph.__dict__, **path}), tmp_path, parts=2, method="range")
    vertex = int(np.argsort(layout.permutation)[18])  # its neighbours 20 and 21 belong to the other trainer
    own = [np.array([vertex]), np.empty(0, np.int64)]
    if vertex >= layout.offsets[1]:
        own.reverse()
    loaded = pool.run(2, rows_loaded, layout, SAGE(5, 6, 3, num_layers=3).double(), own)
    # Level 1 is needed of 18, 19 (with 20 read) and of 20 (with 21 read).
    assert sorted(loaded) == [2, 3]


@pytest.fixture
def run(pool, layouts, tmp_path):
    """A run of one epoch, trained with two trainers."""
    config = config_for(layouts(2).path, tmp_path / "run", epochs=1, dtype="float64", fan_out=(3, 3, 3))
    config.out.mkdir()
    (config.out / "config.json").write_text(config.to_json())
    pool.run(2, train_in_trainer, config)
    return config.out


def test_from_a_run_with_processes_of_its_own(run, layouts, graph, tmp_path, caplog):
    expected = whole_graph_vectors(graph, gsplit.load(run), 3)
    out = tmp_path / "values.npy"
    values = gsplit.predict(run, layouts(3).path, vertices=ASKED, out=out, what="embeddings", device="cpu")
    np.testing.assert_allclose(values, expected[2][ASKED], rtol=0, atol=1e-10)
    assert np.array_equal(np.load(out), values)
    assert not caplog.records
    assert sorted(os.listdir(tmp_path)) == ["run", "values.npy"]


class Broken(SAGE):
    def forward_layer(self, layer, block, x):
        raise ArithmeticError("no such weather")


class WithoutLayers(nn.Module):
    pass


@pytest.fixture
def custom_run(pool, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "run", epochs=0, fan_out=(3, 3, 3))
    config.out.mkdir()
    (config.out / "config.json").write_text(config.to_json())
    pool.run(2, train_in_trainer, config, SAGE(5, 8, 3, num_layers=3))
    return config.out


def test_a_trainer_that_fails_leaves_nothing(custom_run, layouts, tmp_path):
    model = Broken(5, 8, 3, num_layers=3)
    untouched, others = copy.deepcopy(model.state_dict()), children_here()
    with pytest.raises(ProcessDied, match="ArithmeticError: no such weather"):
        gsplit.predict(custom_run, layouts(2).path, out=tmp_path / "x.npy", model=model, device="cpu")
    assert all_equal(model.state_dict(), untouched)
    assert os.listdir(tmp_path) == ["run"]
    assert children_here() <= others


def test_what_is_refused_before_a_process_starts(run, layouts, tmp_path, monkeypatch):
    monkeypatch.setattr("gsplit.predict.api.start", None)
    wide = lay_out(random_graph(30, 3, features=9), tmp_path / "wide", parts=1)
    for arguments, message in [
        ({"layout": wide.path}, "9, run, 5"),
        ({"vertices": [0, 300]}, "2, 300, 0 .. 299"),
        ({"vertices": []}, "vertices"),
        ({"what": "embeddings", "layer": 4}, "--layer, 4, 3"),
        ({"fan_out": (3, 3)}, "--fan-out, 2, 3"),
    ]:
        with pytest.raises(InputError, match=line_with(message)):
            gsplit.predict(**{"run": run, "layout": layouts(2).path, "out": tmp_path / "x.npy", **arguments})
    assert sorted(os.listdir(tmp_path)) == ["run", "wide"]


def test_another_graph_is_taken_with_a_warning(run, tmp_path, caplog):
    graph = random_graph(60, 4, seed=8)
    other = lay_out(graph, tmp_path / "other", parts=1)
    values = gsplit.predict(run, other.path, what="logits", device="cpu")
    np.testing.assert_allclose(values, whole_graph_vectors(graph, gsplit.load(run), 3)[3], rtol=0, atol=1e-10)
    says(caplog.text, "another store", str(other.path))


def test_embeddings_need_a_model_that_gives_them(run, layouts, monkeypatch):
    monkeypatch.setattr("gsplit.predict.api.load_described", lambda *_: (WithoutLayers(), {}, None))
    with pytest.raises(InputError, match=line_with("WithoutLayers, forward_layer, forward_until")):
        gsplit.predict(run, layouts(2).path, what="embeddings", device="cpu")
