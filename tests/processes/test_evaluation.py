"""Evaluation that fits: the memory it takes is known before, and scores of samples depend on nothing but the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.cgroups import give_memory
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.models import make_model, names
from support.runs import config_for, records, stopped_and_gone_on, train_in_trainer

import gsplit
from gsplit.config.train import TrainConfig
from gsplit.device.precision import Precision
from gsplit.engine.evaluation import Evaluator, ExactLevels, evaluation_memory, sampled_targets, validated
from gsplit.engine.evaluation.evaluation_memory import buffer_bytes
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objective import objective_of
from gsplit.errors import InputError
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.launch.resolve import resolve
from gsplit.models.prepared import prepare

LAYERS = 2
PLAIN, MIXED = (Precision.named(name) for name in ("32", "bf16-mixed"))


@pytest.fixture(scope="module")
def graph():
    return random_graph(240, 9, seed=8)


@pytest.fixture(scope="module")
def lay(graph, tmp_path_factory):
    place = tmp_path_factory.mktemp("layouts")
    return lambda parts, method="metis": lay_out(graph, place / method, parts=parts, method=method)


def evaluated(member, layout, name, fan_outs, metrics):
    """Logits of all vertices (trainer 0), and scores of the validation vertices, on mini-batches of 32."""
    model, needs = prepare(make_model(name, layout.graph.num_features, layout.graph.num_classes, LAYERS))
    model.double()
    graph, dtype = layout.graph, torch.float64
    features = FeatureLoader(HostRows(graph.features), device=member.device, dtype=dtype, normalize=False, threads=1)
    loader = SplitLoader(
        layout, member.device, features, EdgeLoader(graph, device=member.device, dtype=dtype, **needs)
    )
    evaluator = Evaluator(
        layout,
        member,
        loader,
        objective_of(False),
        pool_module.SHARED.levels,
        num_layers=LAYERS,
        precision=Precision(dtype=dtype),
        threads=1,
        metrics=metrics,
        fan_outs=fan_outs,
        seed=5,
    )
    before, sampled_targets.TARGETS = sampled_targets.TARGETS, 32
    try:
        return evaluator.all_logits(model), evaluator.scores(model, graph.valid_idx)
    finally:
        sampled_targets.TARGETS = before


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", names(["sage", "gat", "gcn", "pyg-GATConv", "dgl-GraphConv-both"]))
def test_sampled_logits_are_the_same_for_any_number_of_trainers_and_any_parts(pool, lay, name):
    (alone, scores), *_ = pool.run(1, evaluated, lay(1), name, (3, 2), ())
    for world, method in ((2, "metis"), (3, "random"), (4, "metis")):
        results = pool.run(world, evaluated, lay(world, method), name, (3, 2), ())
        np.testing.assert_allclose(results[0][0], alone, rtol=0, atol=1e-12)
        assert [found for _, found in results] == [scores] * world
    (exact, _), *_ = pool.run(2, evaluated, lay(2), name, None, ())
    assert np.abs(alone - exact).max() > 0.1
    if name != "dgl-GraphConv-both":  # which divides by the out-degrees that a mini-batch has
        (all_neighbours, _), *_ = pool.run(2, evaluated, lay(2), name, (-1, -1), ())
        np.testing.assert_allclose(all_neighbours, exact, rtol=0, atol=1e-10)


def test_metrics_of_samples_are_the_same_for_any_number_of_trainers(pool, lay):
    metrics = ("macro-f1", "auroc")
    found = [pool.run(p, evaluated, lay(p), "sage", (3, 2), metrics)[0][1] for p in (1, 2, 4)]
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    assert found[0] == pytest.approx(found[2], abs=1e-12)


def test_the_vertices_to_validate_on_are_the_same_under_every_layout(lay):
    chosen = [sorted(layout.permutation[validated(layout, 10, 3)].tolist()) for layout in (lay(1), lay(3, "random"))]
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0])) == 10
    layout = lay(3)
    assert set(validated(layout, 10, 3)) < set(layout.graph.valid_idx)
    assert set(validated(layout, 10, 4)) != set(validated(layout, 10, 3))
    for number in (None, len(layout.graph.valid_idx), 10**9):
        assert np.array_equal(validated(layout, number, 3), layout.graph.valid_idx)


def test_what_waits_for_scores_that_never_come_is_refused(lay, tmp_path):
    config = config_for(lay(2).path, tmp_path / "run", validate_every=0, validate_every_batches=2, gpus=2)
    resolve(replace(config, early_stop=2))  # three mini-batches an epoch
    with pytest.raises(InputError, match=line_with("2, --validate-every-batches 2")):
        resolve(replace(config, batch_size=60, lr_schedule="plateau"))
    with pytest.raises(InputError, match=line_with("--validate-every, 0")):
        resolve(replace(config, strategy="full", fan_out=(-1, -1), early_stop=2))
    with pytest.raises(InputError, match=line_with("1, --validate-vertices")):
        resolve(replace(config, metrics="auroc", validate_vertices=1))


def test_a_run_is_validated_on_samples_of_some_vertices(pool, lay, tmp_path):
    """Neither how often nor on what a run validates changes what it learns."""
    config = config_for(lay(3).path, tmp_path / "exact", dtype="float64", epochs=2)
    exact = pool.run(3, train_in_trainer, config)[0]
    changes = {
        "evaluate": "sampled",
        "validate_fan_out": (2, 1),
        "validate_vertices": 20,
        "validate_every_batches": 1,
    }
    sampled = pool.run(3, train_in_trainer, replace(config, out=tmp_path / "sampled", **changes))[0]
    assert [r["loss"] for r in records(tmp_path / "sampled")] == [r["loss"] for r in records(tmp_path / "exact")]
    assert {name: 20 * r["valid_accuracy"] % 1 for name, r in enumerate(records(tmp_path / "sampled"))} == {
        0: 0,
        1: 0,
    }
    assert sampled["summary"]["test_accuracy"] != exact["summary"]["test_accuracy"]
    assert records(tmp_path / "sampled", "validation")
    alone = replace(config, layout=lay(1).path, out=tmp_path / "alone", **changes)
    of_one = pool.run(1, train_in_trainer, alone)[0]
    scores = [[r["valid_accuracy"] for r in records(out)] for out in (tmp_path / "alone", tmp_path / "sampled")]
    assert scores[0] == scores[1]
    assert of_one["summary"]["test_accuracy"] == sampled["summary"]["test_accuracy"]


def test_a_run_that_validates_within_epochs_goes_on_as_if_it_had_not_stopped(pool, lay, tmp_path):
    config = config_for(
        lay(2).path, tmp_path / "whole", epochs=3, validate_every_batches=2, lr_schedule="plateau", lr_patience=0
    )
    whole = pool.run(2, train_in_trainer, config)[0]
    gone_on = pool.run(2, stopped_and_gone_on, replace(config, out=tmp_path / "stopped"), 3)[0]
    assert all(torch.equal(tensor, gone_on["after"][name]) for name, tensor in whole["after"].items())
    keys = ("epoch", "batch", "valid_accuracy")
    found = [
        [[r[key] for key in keys] for r in records(tmp_path / out, "validation")] for out in ("whole", "stopped")
    ]
    assert found[0] == found[1] != []


def exact(member, layout, name, precision):
    """Logits of all vertices and their type (trainer 0), and bytes of the two buffers of levels, without logits."""
    torch.manual_seed(0)
    model, needs = prepare(make_model(name, layout.graph.num_features, layout.graph.num_classes, 3))
    shared = pool_module.SHARED.levels
    for buffer in shared:
        member.barrier()
        if member.rank == 0:
            buffer.clear()
        member.barrier()
    levels = ExactLevels(
        layout,
        member,
        SplitLoader.from_host(layout, needs, dtype=precision.dtype, row_dtype=precision.rows, device=member.device),
        shared,
        num_layers=3,
        precision=precision,
        threads=1,
        max_edges=300,
    )
    own = levels.own(np.arange(layout.graph.num_vertices))
    rows = {int(v): row for chunk, rows in levels.vectors(model, own) for v, row in zip(chunk, rows, strict=True)}
    return rows, [buffer.num_bytes for buffer in shared]


@pytest.mark.parametrize("name", names(("sage", "gcn-scalegnn", "gat", "pyg-SAGEConv", "pyg-GATConv")))
def test_levels_in_bfloat16_take_half_and_give_logits_in_float32(pool, lay, name):
    layout = lay(3)
    (plain, plain_bytes), (mixed, mixed_bytes) = (
        ({v: row for rows, _ in found for v, row in rows.items()}, found[0][1])
        for found in (pool.run(3, exact, layout, name, precision) for precision in (PLAIN, MIXED))
    )
    assert [2 * num_bytes for num_bytes in mixed_bytes] == plain_bytes
    assert min(mixed_bytes) > 0
    assert plain.keys() == mixed.keys() == set(range(layout.graph.num_vertices))
    wanted, found = (torch.stack([rows[v] for v in sorted(rows)]) for rows in (plain, mixed))
    assert wanted.dtype == found.dtype == torch.float32
    assert not torch.equal(wanted, found)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2**-5 * float(wanted.abs().max()))  # of three layers
    even, odd = (num_bytes // 4 // len(plain) for num_bytes in plain_bytes)
    assert list(buffer_bytes([len(plain)] * 3, [1, odd, even, 1], MIXED)) == mixed_bytes


@pytest.mark.parametrize("model", ["sage", "torch_geometric.nn:GraphSAGE"])
def test_too_little_memory_is_said_before_anything_is_started(lay, tmp_path, monkeypatch, model):
    layout = lay(2)
    config = TrainConfig(layout=layout.path, out=tmp_path / "run", fan_out=(4, 4, 4), model=model, hidden=64, gpus=2)
    rows = evaluation_memory.rows_of_levels(layout, layout.graph.valid_idx, 3)  # more than for the test vertices
    widths = [layout.graph.num_features, 64, 64, layout.graph.num_classes]
    chunks = 2 * evaluation_memory.chunk_bytes(layout, widths, PLAIN, 2)
    needed = sum(evaluation_memory.buffer_bytes(rows, widths, PLAIN)) + chunks
    give_memory(monkeypatch, tmp_path, needed + 100)
    resolve(config)
    give_memory(monkeypatch, tmp_path, needed - 100)
    with pytest.raises(InputError, match=line_with("# KiB, 64")):
        gsplit.train(config=config)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "run").exists()
    resolve(replace(config, evaluate="sampled"))
    give_memory(monkeypatch, tmp_path, 100)
    with pytest.raises(InputError, match=line_with("# KiB, --evaluate none")):
        resolve(replace(config, evaluate="sampled", save_predictions="logits"))
    resolve(replace(config, evaluate="none"))
    give_memory(monkeypatch, tmp_path, needed + 100)
    with pytest.raises(InputError, match=line_with("--save-predictions")):
        gsplit.train(config=replace(config, save_predictions="logits"))


def test_predictions_that_do_not_fit_are_refused_as_well(pool, lay, tmp_path, monkeypatch):
    config = config_for(lay(2).path, tmp_path / "run", epochs=1, hidden=64)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(config.to_json())
    pool.run(2, train_in_trainer, config)
    give_memory(monkeypatch, tmp_path, 10_000)
    with pytest.raises(InputError, match=line_with("--fan-out")):
        gsplit.predict(tmp_path / "run", lay(2).path, out=tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()
