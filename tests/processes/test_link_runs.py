"""Whole runs on links: the same for any number of trainers, groups and samplers, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.graphs import lay_out, random_graph
from support.links import linked_graph, linked_layouts
from support.messages import line_with, says
from support.runs import records, trainer_of

import gsplit
from gsplit import TrainConfig
from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.train import loop as loop_of_trainer

BASE = {
    "device": "cpu",
    "threads": 1,
    "samplers": 0,
    "task": "links",
    "fan_out": (4, 3),
    "batch_size": 60,
    "hidden": 8,
    "epochs": 2,
    "lr": 0.01,
    "dropout": 0.0,
    "dtype": "float64",
    "metrics": "mrr,hits@3,auroc,ap",
    "validate_every": 0,
}
BOTH = {"negatives": "uniform:2,joint:6/25,in-batch,near:2", "corrupt": "both", "score": "mlp", "loss": "softmax"}


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    return linked_layouts(tmp_path_factory.mktemp("links"), given=True, hard=3)


def trained(layout, out, **changes):
    """The summary of a run, and what it learned."""
    summary = gsplit.train(config=TrainConfig(**{"layout": layout.path, "out": out, **BASE, **changes}))
    return dict(summary), checkpoint.load_state(out, checkpoint.MODEL)


def assert_near(weights, wanted, bound=1e-8):
    assert weights.keys() == wanted.keys()
    for name, weight in weights.items():
        assert (weight - wanted[name]).abs().max() <= bound * max(1.0, float(wanted[name].abs().max())), name


@pytest.mark.parametrize("model", ["sage", pytest.param("gat", marks=pytest.mark.slow)])
def test_any_number_of_trainers_learns_the_same(here, layouts, tmp_path, model):
    wanted, weights = trained(layouts(1), tmp_path / "1", model=model, **BOTH)
    assert "pair_decoder.first.weight" in weights
    for world in (2, 3, 4):
        summary, found = trained(layouts(world), tmp_path / str(world), model=model, **BOTH)
        assert_near(found, weights)
        for name in ("loss", "test_mrr", "test_hits@3", "test_auroc", "test_ap"):
            assert summary[name] == pytest.approx(wanted[name], rel=1e-8), name
        counts = ("pairs", "candidates", "sampled_edges", "computed_vertices", "level_0_vertices")
        assert [summary["traffic"][key] for key in counts] == [wanted["traffic"][key] for key in counts]
        assert summary["traffic"]["score_rows"] > 0
    assert wanted["traffic"]["score_rows"] == 0
    assert wanted["ranking"]["candidates"] == "all"


@pytest.mark.parametrize(
    "changes",
    [
        {"strategy": "data"},
        {"split_group": 2},
        {"strategy": "data", "cache": "partitioned", "cache_size": "40%"},
        {"accumulate": 3, "clip_grad_norm": 0.5},
        {"precision": "bf16-mixed", "dtype": None},
        {"exchange": "auto"},
        {"score_at": "destination", "loss": "bce", "split_group": 2, "bulk": 2},
    ],
    ids=str,
)
def test_strategies_caches_and_recipes_go_with_links(here, layouts, tmp_path, changes):
    summary, weights = trained(layouts(4), tmp_path / "run", **{"loss": "bpr", "score": "distmult"} | changes)
    number = len(layouts(1).graph.links.train)
    loops = int((layouts(1).graph.links.train[:, 0] == layouts(1).graph.links.train[:, 1]).sum())
    assert summary["traffic"]["pairs"] == 2 * (number - loops)
    assert all(weight.isfinite().all() for weight in weights.values())
    assert summary["loss"] < records(tmp_path / "run")[0]["loss"]


@pytest.fixture(scope="module")
def weighed(tmp_path_factory):
    drawn = {"equal": (3.0,), "unequal": (0.0, 0.5, 4.0)}
    return {
        name: linked_layouts(tmp_path_factory.mktemp(name), given=True, weights=values)
        for name, values in drawn.items()
    }


@pytest.mark.parametrize("loss", ["bce", pytest.param("margin", marks=pytest.mark.slow)])
def test_weights_of_pairs_count_in_the_mean(here, layouts, weighed, tmp_path, loss):
    """Equal ones change nothing; with others any number of trainers learns the same, wherever pairs are scored."""
    about = {"loss": loss, "negatives": "uniform:2", "accumulate": 2}
    plain, wanted = trained(layouts(2), tmp_path / "plain", **about)
    summary, found = trained(weighed["equal"](2), tmp_path / "equal", **about)
    assert_near(found, wanted)
    assert summary["loss"] == pytest.approx(plain["loss"], rel=1e-10)
    alone, wanted = trained(weighed["unequal"](1), tmp_path / "alone", **about)
    assert alone["loss"] != pytest.approx(plain["loss"], rel=1e-3)
    summary, found = trained(
        weighed["unequal"](3), tmp_path / "run", **about, score_at="destination" if loss == "bce" else "source"
    )
    assert_near(found, wanted)
    assert summary["loss"] == pytest.approx(alone["loss"], rel=1e-10)
    trained(weighed["unequal"](1), tmp_path / "edges", **about, pairs="edges")


def weighed_loop(run):
    for batch in run:
        positive, negative, masked = batch.pairs.scores(run.model(batch.blocks, batch.x), run.decoder)
        each = F.softplus(-positive) + F.softplus(negative).masked_fill(masked, 0).sum(dim=1)
        run.backward((each * batch.pairs.weights).sum())
        run.step()


def a_sum(positive, negative, mask):
    return F.softplus(-positive).sum() + F.softplus(negative).masked_fill(mask, 0).sum()


def test_weights_of_pairs_are_told_to_loops_and_losses(here, weighed, tmp_path):
    layout = weighed["unequal"](2)
    config = TrainConfig(**BASE, layout=layout.path, out=tmp_path / "run", negatives="joint:9")
    gsplit.train(config=config, loop=weighed_loop)
    with pytest.raises(InputError, match=line_with("weights, a_sum, a value for each pair")):
        gsplit.train(config=replace(config, out=tmp_path / "sum"), loss=a_sum)


class Products(torch.nn.Module):
    """A decoder of a user's."""

    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, source, destination):
        return (source * destination * self.weight).sum(dim=1)


class Dropping(Products):
    """A decoder with dropout."""

    def forward(self, source, destination):
        return super().forward(F.dropout(source, 0.5, self.training), destination)


def test_a_decoder_drops_nothing_in_evaluation(here, layouts, tmp_path):
    changes = {"score": f"{__name__}:Dropping", "lr": 1e-30}
    summaries = [trained(layouts(world), tmp_path / str(world), **changes)[0] for world in (1, 3)]
    for name in str(BASE["metrics"]).split(","):
        one, other = (summary[f"test_{name}"] for summary in summaries)
        assert one == pytest.approx(other, rel=1e-12), name


def test_a_model_of_pyg_and_a_decoder_of_ones_own(here, layouts, tmp_path):
    changes = {"model": "torch_geometric.nn:GraphSAGE", "score": f"{__name__}:Products", "loss": "margin"}
    _, wanted = trained(layouts(1), tmp_path / "1", **changes)
    _, found = trained(layouts(3), tmp_path / "3", **changes)
    assert_near(found, wanted)
    assert any(name.startswith("pair_decoder.") for name in found)


def test_a_resumed_run_is_the_same_to_the_bit(here, layouts, tmp_path):
    layout = layouts(3)
    _, whole = trained(layout, tmp_path / "whole", epochs=3, **BOTH)
    trained(layout, tmp_path / "run", epochs=1, **BOTH)
    gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=3))
    found = checkpoint.load_state(tmp_path / "run", checkpoint.MODEL)
    assert all(torch.equal(found[name], whole[name]) for name in whole)


def loop(run):
    for batch in run:
        h = run.model(batch.blocks, batch.x)
        positive, negative, masked = batch.pairs.scores(h, run.decoder)
        counted = F.softplus(negative) if masked is None else F.softplus(negative)[~masked]
        run.backward(F.softplus(-positive).sum() + counted.sum())
        run.step()


@pytest.mark.parametrize("score_at", ["source", "destination"])
def test_a_loop_of_ones_own_learns_what_the_engine_does(here, layouts, tmp_path, score_at):
    about = {"negatives": "uniform:3", "score": "distmult"}
    wanted, weights = trained(layouts(2), tmp_path / "engine", **about)
    changes = {"layout": layouts(2).path, "out": tmp_path / "run", "score_at": score_at}
    found = gsplit.train(config=TrainConfig(**BASE, **about, **changes), loop=loop)
    assert_near(checkpoint.load_state(tmp_path / "run", checkpoint.MODEL), weights, 1e-12)
    for name in ("pairs", "candidates", "masked_candidates"):
        assert found["traffic"][name] == wanted["traffic"][name]
    assert (found["traffic"]["score_rows"] < wanted["traffic"]["score_rows"]) == (score_at == "destination")


def test_a_saved_model_has_its_decoder(here, layouts, tmp_path):
    _, weights = trained(layouts(2), tmp_path / "run", score="mlp", score_args="hidden=3,layers=3")
    model = gsplit.load(tmp_path / "run")
    assert [layer.out_features for layer in model.pair_decoder.rest] == [3, 1]
    assert torch.equal(model.pair_decoder.first.weight, weights["pair_decoder.first.weight"])


@pytest.mark.parametrize(("first", "second"), [("links", "vertices"), ("vertices", "links"), ("links", "links")])
def test_a_run_begins_with_the_encoder_of_another_task(here, layouts, tmp_path, first, second, caplog):
    tasks = {"links": {"score": "mlp"}, "vertices": {"task": "vertices", "metrics": None}}
    _, given = trained(layouts(2), tmp_path / "first", **tasks[first])
    changes = {"init_from": tmp_path / "first", "epochs": 0, "seed": 9, **tasks[second]}
    _, taken = trained(layouts(2), tmp_path / "second", **changes)
    same = {name for name in taken if name in given and torch.equal(taken[name], given[name])}
    assert {name for name in given if name.startswith("convs.0")} <= same
    assert same == given.keys() if first == second else not any("decoder" in name for name in same)
    assert any("decoder" in record.message for record in caplog.records) == (first != second)


REFUSED = [
    ({"task": "links", "pairs": "train"}, "plain", "--edge-split, --pairs edges"),
    ({"strategy": "full", "fan_out": (-1, -1)}, "links", "--strategy full, split"),
    ({"sampling": "ladies", "layer_sizes": (9, 9), "fan_out": (-1, -1)}, "links", "--sampling ladies, neighbours"),
    ({"negatives": "in-batch", "batch_size": 1}, "links", "--negatives in-batch, --batch-size 1"),
    ({"negatives": "far:4"}, "links", "--negatives far:4, uniform"),
    ({"negatives": "joint:4/1"}, "links", "joint:4/1, chunks, 2"),
    ({"negatives": "joint:4/"}, "links", "joint:4/, chunks, 2"),
    ({"negatives": "joint:x/8"}, "links", "--negatives joint:x/8, joint:1"),
    ({"negatives": "uniform:4/2"}, "links", "--negatives uniform:4/2, uniform:1"),
    ({"negatives": "joint:4/300", "batch_size": 200}, "links", "--negatives joint:4/300, 300 pairs, 200"),
    ({"negatives": "joint:4/150", "batch_size": 200, "strategy": "data"}, "links", "joint:4/150, micro-batch, 100"),
    ({"corrupt": "both"}, "links", "--corrupt both, uniform:1, 2"),
    ({"corrupt": "both", "negatives": "hard:2"}, "hard", "--corrupt both, hard:2"),
    ({"negatives": "near:2", "loss": "softmax", "log_q": True}, "links", "--log-q, near"),
    ({"negatives": "uniform:2", "corrupt": "both", "loss": "softmax", "log_q": True}, "links", "--log-q, --corrupt"),
    ({"negatives": "near:2"}, "one way", "--negatives near:2, two steps"),
    ({"negatives": "uniform:0"}, "links", "--negatives uniform:0, 1"),
    ({"negatives": "hard:2"}, "links", "--negatives hard:2"),
    ({"negatives": "hard:4"}, "hard", "--negatives hard:4, 3 of each pair"),
    ({"negatives": "hard:2", "pairs": "edges"}, "hard", "--negatives hard:2, --pairs edges"),
    ({"negatives": "uniform:60"}, "links", "--negatives uniform:60, 60 vertices"),
    ({"negatives": "joint:61"}, "links", "--negatives joint:61, 60 vertices"),
    ({"negatives": "in-batch", "degree_share": 0.5}, "links", "--degree-share 0.5, --negatives in-batch"),
    ({"negatives": "near:2", "negatives_from": "destinations"}, "links", "--negatives-from destinations, near:2"),
    (
        {"negatives": "in-batch", "batch_size": 3, "strategy": "data"},
        "links",
        "--negatives in-batch, --batch-size 3, 2 groups",
    ),
    ({"metrics": "accuracy"}, "links", "--metrics accuracy, mrr"),
    ({"metrics": "hits@0"}, "links", "hits@0"),
    ({"task": "vertices", "metrics": "mrr"}, "links", "--metrics mrr"),
    ({"loss": "cross-entropy"}, "links", "--loss cross-entropy, bce"),
    ({"task": "vertices", "metrics": None, "loss": "softmax"}, "links", "--loss softmax"),
    ({"margin": 2.0}, "links", "--margin 2.0, --loss margin"),
    ({"temperature": 2.0}, "links", "--temperature 2.0, --loss softmax"),
    ({"task": "vertices", "metrics": None, "negatives": "uniform:2"}, "links", "--negatives uniform:2"),
    ({"log_q": True}, "links", "--log-q, --loss softmax"),
    ({"score_at": "destination", "loss": "softmax"}, "links", "--score-at destination, --loss softmax, bce"),
    ({"score_at": "destination", "loss": "bpr"}, "links", "--score-at destination, --loss bpr, bce"),
    ({"score_at": "destination", "negatives": "joint:4"}, "links", "--score-at destination, --negatives joint:4"),
    ({"score": "product"}, "links", "--score product, dot"),
    ({"score": "torch.nn:Bilinear"}, "links", "Bilinear, in1_features, --score-args in1_features=VALUE"),
    (
        {"score": "torch.nn:Bilinear", "score_args": "in1_features=8,in2_features=8,out_features=1"},
        "links",
        "torch.nn:Bilinear, [6, 1], [6, 8], [6]",
    ),
    ({"score": "mlp", "score_args": "depth=2"}, "links", "--score-args depth, mlp, hidden and layers"),
    ({"score_args": "hidden=2"}, "links", "--score-args hidden=2, --score dot, mlp"),
    ({"evaluate_negatives": "some"}, "links", "--evaluate-negatives, some"),
    ({"evaluate_negatives": "uniform:9999999"}, "links", "--evaluate-negatives, 9999999, 1048576"),
    ({"evaluate_negatives": "uniform:3", "evaluate": "none"}, "links", "--evaluate-negatives, --evaluate none"),
    ({"evaluate_negatives": "given"}, "links", "given"),
    ({"class_weights": "1,2,3"}, "links", "--class-weights 1,2,3"),
    ({"save_predictions": "classes"}, "links", "--save-predictions"),
    ({"cache": "replicated", "cache_size": "10%", "strategy": "data"}, "links", "--cache replicated"),
    ({"loss": "bce", "label_smoothing": 0.1}, "links", "--label-smoothing 0.1"),
    ({"train_features": 8}, "bare", "no features, --features"),
]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusing")
    linked = {name: linked_graph(60, 5, given=True, hard=hard) for name, hard in {"links": 0, "hard": 3}.items()}
    indptr = np.concatenate([np.zeros(30, np.int64), np.arange(31)])  # into 30 .. 59 from others alone
    one_way = replace(linked["links"], indptr=indptr, indices=np.arange(30, dtype=np.int32))
    bare = replace(linked["links"], features=None)
    graphs = {**linked, "plain": random_graph(60, 5), "one way": one_way, "bare": bare}
    return {name: lay_out(graph, folder / name, parts=2) for name, graph in graphs.items()}


@pytest.mark.parametrize(("changes", "layout", "parts"), REFUSED, ids=str)
def test_each_mistake_has_one_line_and_writes_nothing(refusing, tmp_path, changes, layout, parts):
    with pytest.raises(InputError) as error:
        trained(refusing[layout], tmp_path / "run", **changes)
    says(error.value, parts)
    assert not (tmp_path / "run").exists()


def test_a_mini_batch_of_many_pairs_is_warned_of(here, refusing, tmp_path, caplog):
    trained(refusing["links"], tmp_path / "run", batch_size=100, metrics=None, epochs=1)
    assert any(all(part in record.message for part in ("--batch-size 100", "tenth")) for record in caplog.records), (
        line_with()
    )


def warnings_of(member, config):
    with mock.patch("gsplit.train.epochs.logger.warning") as warning:
        loop_of_trainer.train(trainer_of(member, config))
    return [call.args[0] % call.args[1:] for call in warning.call_args_list]


@pytest.mark.parametrize(
    ("pairs", "changes"),
    [([[i, i] for i in range(5)], {"negatives": "uniform:2,joint:3"}), ([[3, 4]], {"negatives": "in-batch"})],
)
def test_pairs_that_teach_nothing_are_warned_of(pool, tmp_path, pairs, changes):
    graph = linked_graph(30, 4, given=True)
    layout = lay_out(replace(graph, links=replace(graph.links, train=np.array(pairs))), tmp_path, parts=2)
    changes = {**BASE, "loss": "bpr", "metrics": None, "epochs": 1, **changes}
    config = TrainConfig(layout=layout.path, out=tmp_path / "run", **changes)
    (said,), nothing = pool.run(2, warnings_of, config)
    says(said, "epoch 1, pair")
    assert nothing == []
    assert records(tmp_path / "run")[0]["loss"] is None


def test_a_graph_without_labels_or_training_vertices_is_for_links(here, tmp_path):
    graph = linked_graph(80, 6)
    none = np.empty(0, np.int64)
    bare = replace(graph, labels=np.full(80, -1), num_classes=0, train_idx=none, valid_idx=none, test_idx=none)
    layout = lay_out(bare, tmp_path, parts=2)
    summary, _ = trained(layout, tmp_path / "run", task=None, metrics=None, validate_every=1)
    assert summary["metrics"] == ["mrr"]
    assert summary["best_epoch"] is not None
    assert json.loads((tmp_path / "run" / "resolved.json").read_text())["task"] == "links"
