"""Training on the whole graph, in processes: every plan learns the same, also where a run goes on under another."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.messages import line_with
from support.runs import config_for, own_edges_alone, records

import gsplit
from gsplit import TrainConfig
from gsplit.engine.whole.plan_table import priced_plans
from gsplit.errors import InputError
from gsplit.full.volumes import sent_bytes
from gsplit.launch.resolve import resolve
from gsplit.runs import checkpoint

EXACT = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "dtype": "float64", "epochs": 5}


def logits_of(run, layout):
    return gsplit.predict(run, layout, out=run.with_suffix(".npy"), what="logits", device="cpu")


@pytest.fixture(scope="module")
def wanted():
    """Losses and logits of one trainer, by model."""
    return {}


def by_one_trainer(wanted, layouts, folder, model):
    if model["model"] not in wanted:
        run = folder / "alone"
        gsplit.train(config=config_for(layouts(4).path, run, gpus=1, **EXACT, **model))
        losses = [record["loss"] for record in records(run)]
        wanted[model["model"]] = losses, logits_of(run, layouts(4).path)
    return wanted[model["model"]]


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    "plan",
    [
        {"gpus": 4},
        {"gpus": 4, "algorithm": "1d-sparse"},
        {"gpus": 4, "grid": (2, 2, 1)},
        {"gpus": 4, "algorithm": "2d"},
        {"gpus": 3, "algorithm": "columns"},
        {"gpus": 3, "algorithm": "1d"},
        {"gpus": 2, "algorithm": "1.5d"},
    ],
    ids=lambda plan: "-".join(str(value) for value in plan.values()),
)
@pytest.mark.parametrize("model", [{"model": "sage"}, {"model": "gcn", "norm": "batch"}], ids=["sage", "gcn"])
def test_five_epochs_are_those_of_one_trainer(here, wanted, layouts, tmp_path, plan, model):
    losses, logits = by_one_trainer(wanted, layouts, tmp_path, model)
    run = tmp_path / "run"
    gsplit.train(config=config_for(layouts(4).path, run, **EXACT, **model, **plan))
    assert [record["loss"] for record in records(run)] == pytest.approx(losses, rel=1e-10)
    np.testing.assert_allclose(logits_of(run, layouts(4).path), logits, rtol=0, atol=1e-8)
    assert {record["strategy"] for record in records(run)} == {"full"}


def test_sums_in_the_place_of_rows_are_fewer(here, wanted, layouts, tmp_path):
    losses, _ = by_one_trainer(wanted, layouts, tmp_path, {"model": "sage"})
    sent = []
    for exchange in ("rows", "auto"):
        run, plan = tmp_path / exchange, {"gpus": 4, "algorithm": "1d-sparse", "exchange": exchange}
        gsplit.train(config=config_for(layouts(4).path, run, **{**EXACT, "epochs": 2}, **plan))
        assert [record["loss"] for record in records(run)] == pytest.approx(losses[:2], rel=1e-10)
        sent.append(sum(record["traffic"]["exchange_forward_bytes"] for record in records(run)))
    assert sent[1] < sent[0]


def test_a_run_goes_on_under_another_plan_and_with_other_trainers(here, wanted, layouts, tmp_path, caplog):
    """From sampled mini-batches to the whole graph, too; what was asked for of those is named."""
    losses, logits = by_one_trainer(wanted, layouts, tmp_path, {"model": "sage"})
    run, path = tmp_path / "run", layouts(4).path
    gsplit.train(config=config_for(path, run, **{**EXACT, "epochs": 1, "strategy": "split"}, gpus=4, samplers=0))
    gsplit.train(config=TrainConfig.resuming(run, strategy="full", epochs=2, algorithm="shared"))
    gsplit.train(config=TrainConfig.resuming(run, epochs=4, algorithm="columns", gpus=3))
    gsplit.train(config=TrainConfig.resuming(run, epochs=5, algorithm="auto", grid=(1, 2, 1), gpus=2))
    assert [record["loss"] for record in records(run)] == pytest.approx(losses, rel=1e-10)
    np.testing.assert_allclose(logits_of(run, path), logits, rtol=0, atol=1e-8)
    assert [record["trainers"] for record in records(run)] == [4, 4, 3, 3, 2]
    assert json.loads((run / "resolved.json").read_text())["algorithm"] == "1.5d"


@pytest.mark.parametrize("flags", [{}, {"graph": "move"}], ids=["stays", "moves"])
def test_no_edge_into_another_grid_row_is_read(pool, here, layouts, tmp_path, flags):
    """So no trainer needs the whole graph."""
    config = config_for(layouts(4).path, tmp_path / "run", **EXACT, evaluate="none", grid=(2, 1, 2), **flags)
    gsplit.train(config=config)
    wanted = checkpoint.load_state(config.out, checkpoint.MODEL).values()
    for same in pool.run(4, own_edges_alone, config):
        assert all((weight - other).abs().max() <= 1e-10 for weight, other in zip(wanted, same, strict=True))


def test_the_first_sum_is_taken_once(here, layouts, tmp_path):
    graph = layouts(2).graph
    run = tmp_path / "run"
    gsplit.train(config=config_for(layouts(2).path, run, **EXACT, algorithm="columns"))
    counts = [record["traffic"] for record in records(run)]
    assert counts[0]["host_rows"] == counts[0]["level_0_vertices"] <= graph.num_vertices
    assert [count["host_rows"] for count in counts[1:]] == [0] * 4
    first, *others = (count["computed_edges"] for count in counts)
    degrees = np.diff(graph.indptr)
    assert set(others) == {2 * degrees[graph.train_idx].sum()}  # each of two trainers has half of the columns
    assert first > others[0]


def test_the_first_sum_is_taken_again_after_input_dropout(here, layouts, tmp_path):
    run = tmp_path / "run"
    gsplit.train(config=config_for(layouts(2).path, run, **EXACT, input_dropout=0.5))
    first, *others = (record["traffic"]["computed_edges"] for record in records(run))
    assert set(others) == {first}


def test_a_trace_has_the_moves(here, layouts, tmp_path):
    run = tmp_path / "run"
    gsplit.train(config=config_for(layouts(2).path, run, **{**EXACT, "epochs": 8}, profile=True, grid=(1, 2, 1)))
    events = json.loads((run / "trace.json").read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert names >= {"to_columns", "gather", "product", "reduce_scatter", "to_rows", "forward", "backward"}


def test_plans_are_shown_and_nothing_is_started(layouts, tmp_path, monkeypatch):
    monkeypatch.setattr("gsplit.train.api.launch", None)
    config = config_for(layouts(4).path, tmp_path / "run", **EXACT, dry_run=True)
    lines = gsplit.train(config=config)["plans"].splitlines()
    names = {line.split("  ")[0] for line in lines[2:-2]}
    assert names >= {"shared 4x1x1", "1d 4x1x1", "1d-sparse 4x1x1", "grid 2,2,1", "grid 1,1,4"}
    assert lines[2].split()[:2] == ["shared", "4x1x1"]  # least is sent first
    assert lines[-2].startswith("chosen: shared 4x1x1")
    assert not (tmp_path / "run").exists()


def test_the_table_of_plans_counts_what_travels_narrower(layouts, tmp_path):
    """As trainers count it: --exchange-dtype bfloat16 takes a quarter of float64."""
    path, sent = layouts(4).path, {}
    for dtype in ("model", "bfloat16"):
        flags = {**EXACT, "algorithm": "1d-sparse", "exchange_dtype": dtype}
        found = priced_plans(resolve(config_for(path, tmp_path / dtype, **flags)))
        sent[dtype] = {str(price.plan): sent_bytes(price.sent) for price in found}
    assert set(sent["model"]) > {"shared 4x1x1", "1d 4x1x1", "1d-sparse 4x1x1", "3d 2x2x1"}
    for plan, bytes_sent in sent["model"].items():
        assert sent["bfloat16"][plan] * 4 == bytes_sent
        assert (bytes_sent > 0) == (plan != "shared 4x1x1")


def test_the_table_of_plans_counts_scores_in_their_own_type(layouts, tmp_path):
    """They do not travel narrower; along the columns of a grid alone they travel."""
    path, sent = layouts(4).path, {}
    for dtype in ("model", "bfloat16"):
        flags = {**EXACT, "model": "gat", "out_heads": 4, "algorithm": "1d", "exchange_dtype": dtype}
        found = priced_plans(resolve(config_for(path, tmp_path / dtype, **flags)))
        sent[dtype] = {price.plan.sizes: sent_bytes(price.sent) for price in found if price.plan.algorithm == "3d"}
    assert len(sent["model"]) == 5
    for sizes, wide in sent["model"].items():
        narrow = sent["bfloat16"][sizes]
        assert 4 * narrow > wide if sizes[1] > 1 else 4 * narrow == wide, sizes


def test_a_model_of_users_needs_all_rows(layouts, tmp_path):
    named = {"model": "torch_geometric.nn:GraphSAGE", "algorithm": "2d"}
    with pytest.raises(InputError, match=line_with("shared, 1d, 1d-sparse")):
        gsplit.train(config=config_for(layouts(4).path, tmp_path / "run", **EXACT, **named))


def test_a_store_will_do(here, layouts, tmp_path):
    """It is dealt out inside the run's folder, which then has all that resuming and predicting take."""
    store, run = layouts(4).path.parent / "store", tmp_path / "run"
    gsplit.train(config=config_for(store, run, **{**EXACT, "epochs": 1}, gpus=3))
    gsplit.train(config=TrainConfig.resuming(run, epochs=2))
    other = tmp_path / "other"
    gsplit.train(config=config_for(layouts(2).path, other, **{**EXACT, "epochs": 2}))
    losses = [[record["loss"] for record in records(folder)] for folder in (run, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)
    logits = [logits_of(folder, layout) for folder, layout in ((run, run / "layout"), (other, layouts(2).path))]
    np.testing.assert_allclose(*logits, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "store, --gpus"),
        ({"gpus": 2, "algorithm": "1d-sparse"}, "store, gsplit partition"),
        ({"gpus": 2, "algorithm": "columns", "model": "gat"}, "--grid 1,1,2, --out-heads 1, multiple of 2"),
        ({"gpus": 2, "dry_run": True}, "store, gsplit partition"),
    ],
)
def test_a_store_that_will_not_do(layouts, tmp_path, changes, message):
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.train(config=config_for(layouts(4).path.parent / "store", tmp_path / "run", **{**EXACT, **changes}))
    assert not (tmp_path / "run").exists()
