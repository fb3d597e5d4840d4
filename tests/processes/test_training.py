"""Whole runs with several trainers: the same model as one trainer learns, exact evaluation, resuming."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.runs import all_equal, config_for, records, train_in_trainer

import gsplit
from gsplit.data import open_layout, open_store
from gsplit.nn import SAGE
from gsplit.runs import checkpoint

MODELS = [
    {"model": "sage"},
    {"model": "gat", "heads": 2, "norm": "batch", "residual": True},
    {"model": "gcn", "input_projection": True, "norm": "layer"},
    {"model": "torch_geometric.nn:GraphSAGE", "model_args": "norm=batch_norm"},
    {"model": "torch_geometric.nn:GAT", "model_args": "v2=True,heads=2"},
]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("world", "model"),
    [*((world, MODELS[0]) for world in (2, 3, 4)), *((3, model) for model in MODELS[1:])],
    ids=lambda value: value["model"] if isinstance(value, dict) else str(value),
)
def test_after_5_epochs_in_float64_the_logits_of_all_vertices_agree(pool, weighted_layouts, tmp_path, world, model):
    layouts = weighted_layouts
    changes = {"epochs": 5, "dtype": "float64", "fan_out": (5, 4, 3), "validate_every": 2, **model}
    alone, *_ = pool.run(1, train_in_trainer, config_for(layouts(1).path, tmp_path / "1", **changes))
    together = pool.run(world, train_in_trainer, config_for(layouts(world).path, tmp_path / "P", **changes))
    assert np.abs(alone["logits"] - together[0]["logits"]).max() <= 1e-8
    assert alone["summary"]["test_accuracy"] == together[0]["summary"]["test_accuracy"]
    assert alone["summary"]["loss"] == pytest.approx(together[0]["summary"]["loss"], rel=1e-10)
    assert all(all_equal(together[0]["after"], other["after"]) for other in together)  # bit-equal trainers


@pytest.mark.parametrize("world", [2, 4])
def test_every_parameter_moves_and_starts_equal(pool, layouts, tmp_path, world):
    config = config_for(layouts(world).path, tmp_path / "run", epochs=1, batch_size=1000, dropout=0.3)
    results = pool.run(world, train_in_trainer, config)
    for result in results:
        assert all_equal(result["before"], results[0]["before"])
        assert all_equal(result["after"], results[0]["after"])
        for name, before in result["before"].items():
            assert not torch.equal(before, result["after"][name]), name


def dense_logits(graph, model):
    """Full-graph GraphSAGE by dense algebra, in the store's order."""
    n = graph.num_vertices
    mean = np.zeros((n, n))
    for v in range(n):
        for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]:
            mean[v, u] += 1
    mean /= np.maximum(mean.sum(axis=1, keepdims=True), 1)
    h = graph.features.astype(np.float64)
    for i, conv in enumerate(model.convs):
        w_self, bias, w_neigh = (t.detach().double().numpy() for t in conv.parameters())
        h = h @ w_self.T + bias + mean @ h @ w_neigh.T
        h = h if i == model.num_layers - 1 else np.maximum(h, 0)
    return h


@pytest.mark.parametrize("world", [1, 3])
def test_evaluation_is_exact_and_in_global_ids(pool, tmp_path, world):
    graph = random_graph(90, 7, seed=4)
    layout = lay_out(graph, tmp_path, parts=world)
    config = config_for(layout.path, tmp_path / "run", dtype="float64", save_predictions="classes")
    result, *_ = pool.run(world, train_in_trainer, config)
    model = gsplit.load(tmp_path / "run")
    logits = dense_logits(graph, model)
    assert np.load(tmp_path / "run" / "predictions.npy").tolist() == logits.argmax(axis=1).tolist()
    right = logits.argmax(axis=1) == graph.labels
    assert result["summary"]["test_accuracy"] == pytest.approx(right[graph.test_idx].mean())
    assert result["summary"]["valid_accuracy"] == pytest.approx(right[graph.valid_idx].mean())


def dense_gcn(graph, model):
    """Full-graph GCN by dense algebra, with edge weights and loops, in the store's order."""
    n = graph.num_vertices
    matrix = np.eye(n)
    for v in range(n):
        for at in range(graph.indptr[v], graph.indptr[v + 1]):
            matrix[v, graph.indices[at]] += graph.edge_weight[at]
    degrees = matrix.sum(axis=1)
    matrix /= np.sqrt(np.outer(degrees, degrees))
    h = graph.features.astype(np.float64)
    for i, conv in enumerate(model.convs):
        h = matrix @ h @ conv.lin.weight.detach().double().numpy().T + conv.bias.detach().double().numpy()
        h = h if i == model.num_layers - 1 else np.maximum(h, 0)
    return h


@pytest.mark.parametrize("world", [1, 3])
def test_edge_weights_reach_the_layout_the_blocks_and_the_evaluation(pool, tmp_path, world):
    graph = random_graph(90, 7, seed=4, weighted=True)
    layout = lay_out(graph, tmp_path, parts=world)
    config = config_for(layout.path, tmp_path / "run", dtype="float64", model="gcn", validate_every=0)
    result, *_ = pool.run(world, train_in_trainer, config)
    logits = dense_gcn(graph, gsplit.load(tmp_path / "run"))
    np.testing.assert_allclose(result["logits"], logits, rtol=0, atol=1e-10)


def test_a_model_that_comes_in_evaluation_mode_is_trained_with_its_dropout(pool, layouts, tmp_path):
    model = SAGE(5, 8, 3, num_layers=2, dropout=0.5)
    results = []
    for mode in (True, False):
        config = config_for(layouts(2).path, tmp_path / str(mode), validate_every=1)
        results.append(pool.run(2, train_in_trainer, config, model.train(mode))[0])
    assert all_equal(results[0]["after"], results[1]["after"])


class WholeOnly(torch.nn.Module):
    """A user's model that does not offer its layers one at a time."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, blocks, x):
        return self.inner(blocks, x)


def both_evaluations(member, config):
    from support.runs import trainer_of

    trainer = trainer_of(member, config)
    evaluator = trainer.evaluator
    by_layer = evaluator.all_logits(trainer.model)
    evaluator._exact._max_edges = 60  # chunks of a few vertices; some have more edges than that alone
    chunked = evaluator.all_logits(trainer.model)
    by_target = evaluator.all_logits(WholeOnly(trainer.model))
    return by_layer, chunked, by_target


@pytest.mark.parametrize("world", [1, 3])
def test_evaluation_does_not_depend_on_chunks_or_way(pool, layouts, tmp_path, world):
    config = config_for(layouts(world).path, tmp_path / "run", dtype="float64", fan_out=(3, 3, 3))
    by_layer, chunked, by_target = pool.run(world, both_evaluations, config)[0]
    np.testing.assert_allclose(chunked, by_layer, rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_target, by_layer, rtol=0, atol=1e-12)


@pytest.mark.parametrize("world", [2, 4])
def test_empty_parts_uneven_batches_and_isolated_vertices(pool, tmp_path, world):
    # 0 - 1   2   3: one edge, two isolated vertices; four parts of one vertex each, or two of two.
    graph = random_graph(4, 0, features=3, classes=2)
    indptr, indices = np.array([0, 1, 2, 2, 2]), np.array([1, 0], np.int32)
    graph = type(graph)(
        **{
            **graph.__dict__,
            "indptr": indptr,
            "indices": indices,
            "train_idx": np.array([0, 2, 3]),
            "valid_idx": np.array([1]),
            "test_idx": np.empty(0, np.int64),
        }
    )
    layout = lay_out(graph, tmp_path, parts=world)
    config = config_for(layout.path, tmp_path / "run", batch_size=2, epochs=3, fan_out=(2, -1))
    summary = pool.run(world, train_in_trainer, config)[0]["summary"]
    assert summary["test_accuracy"] is None
    assert np.isfinite(summary["loss"])
    assert summary["traffic"]["sampled_edges"] >= 3


@pytest.mark.parametrize("world", [1, 3])
def test_multi_label_scores_with_micro_f1(pool, tmp_path, world):
    graph = random_graph(80, 6, seed=2, classes=4, multi_label=True)
    graph.labels[graph.test_idx[0]] = 1.0
    layout = lay_out(graph, tmp_path, parts=world)
    config = config_for(layout.path, tmp_path / "run", epochs=4, save_predictions="classes")
    summary = pool.run(world, train_in_trainer, config)[0]["summary"]
    said = np.load(tmp_path / "run" / "predictions.npy")[graph.test_idx] > 0
    true = graph.labels[graph.test_idx] > 0
    f1 = 2 * (said & true).sum() / (said.sum() + true.sum())
    assert summary["test_f1"] == pytest.approx(f1)


def test_best_validation_is_what_is_tested_and_kept(pool, layouts, tmp_path):
    # A rate so large that it gets worse again.
    config = config_for(layouts(2).path, tmp_path / "run", epochs=6, lr=0.5, dtype="float64")
    result, _ = pool.run(2, train_in_trainer, config)
    epochs = records(tmp_path / "run")
    scores = [record["valid_accuracy"] for record in epochs]
    summary = result["summary"]
    assert [record["epoch"] for record in epochs] == [1, 2, 3, 4, 5, 6]
    assert summary["valid_accuracy"] == max(scores)
    assert summary["best_epoch"] == scores.index(max(scores)) + 1
    assert checkpoint.describe_state(tmp_path / "run", "model")["epoch"] == summary["best_epoch"]
    assert summary["best_epoch"] < 6
    kept = checkpoint.load_state(tmp_path / "run", checkpoint.MODEL)
    assert not all_equal(kept, result["after"])
    assert all_equal(kept, checkpoint.load_state(tmp_path / "run", checkpoint.CHECKPOINT)["best"]["model"])
    graph = open_store(layouts(2).path.parent / "store").graph
    right = dense_logits(graph, gsplit.load(tmp_path / "run")).argmax(axis=1) == graph.labels
    assert summary["test_accuracy"] == pytest.approx(right[graph.test_idx].mean())
    for name, record in summary["traffic"].items():
        assert record == sum(r["traffic"][name] for r in epochs)


@pytest.mark.parametrize("world", [2, 4])
def test_resuming_between_epochs_changes_nothing(pool, layouts, tmp_path, world):
    path = layouts(world).path
    whole = pool.run(world, train_in_trainer, config_for(path, tmp_path / "whole", epochs=4, dropout=0.5))
    pool.run(world, train_in_trainer, config_for(path, tmp_path / "part", epochs=2, dropout=0.5))
    resumed = config_for(path, tmp_path / "part", epochs=4, dropout=0.5)
    rest = pool.run(world, train_in_trainer, resumed, None, True)
    assert all_equal(whole[0]["after"], rest[0]["after"])
    for kind in ("epoch", "mini-batch"):
        for first, second in zip(*(records(tmp_path / run, kind) for run in ("whole", "part")), strict=True):
            timeless = ({**record, "seconds": 0, "stages": 0} for record in (first, second))
            assert next(timeless) == next(timeless)


def test_layout_order_of_predictions_is_the_store_s(pool, layouts, tmp_path):
    for world in (1, 2):
        config = config_for(layouts(world).path, tmp_path / f"{world}", dtype="float64", save_predictions="logits")
        pool.run(world, train_in_trainer, config)
    one, two = (np.load(tmp_path / f"{world}" / "predictions.npy") for world in (1, 2))
    assert one.shape == (300, open_layout(layouts(1).path).graph.num_classes)
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-8)
