"""Training on graphs of several types: what one trainer learns, more learn too; rows that are trained; bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.messages import line_with
from support.runs import all_equal, config_for, records, run_for, train_in_trainer
from support.typed_graphs import lay_out_types, random_typed_graph, with_features
from support.typed_models import dense_levels

import gsplit
from gsplit import TrainConfig
from gsplit.data import Schema
from gsplit.engine.objective import mini_batch_loss, objective_of
from gsplit.engine.rows.trained import initial_rows
from gsplit.engine.typed.refused import check_trained
from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.sampling import reach_of
from gsplit.train import loop

RGCN = {"model": "rgcn", "precision": "64", "train_features": 4, "batch_size": 6}
OPTIONS = {
    "plain": {},
    "bases-batch-norm": {"bases": 2, "norm": "batch", "residual": True},
    "fan-out-of": {"fan_out_of": "r2=0,2,r0=-1,3", "norm": "layer", "output_projection": True},
    "rgat": {"model": "rgat", "heads": 2},
    "untyped": {"model": "sage", "evaluate": "sampled"},
    "sampled": {"edge_weights": True, "evaluate": "sampled", "metrics": ("macro-f1",)},
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """typed(parts): layouts of one graph of four types, the last without features."""
    folder = tmp_path_factory.mktemp("typed")
    graph = random_typed_graph(4, 6, seed=38, weighted=True)
    return lambda parts: lay_out_types(graph, folder, parts=parts)


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("world", "options"),
    [
        *((2, "fan-out-of"), (3, "bases-batch-norm"), (2, "sampled"), (3, "rgat"), (4, "untyped"), (4, "plain")),
        *((3, "plain"), (4, "rgat")),
    ],
)
def test_after_5_epochs_in_float64_the_logits_of_all_targets_agree(pool, typed, tmp_path, world, options):
    train_alone_and_together(pool, pool, typed, tmp_path, world, options)


@pytest.mark.cases(1)
@pytest.mark.parametrize("options", OPTIONS)
def test_five_trainers_agree_too(pool, pool_of_five, typed, tmp_path, options):
    train_alone_and_together(pool, pool_of_five, typed, tmp_path, 5, options)


def train_alone_and_together(pool, pool_of_world, typed, tmp_path, world, options):
    flags = {**RGCN, **OPTIONS[options], "epochs": 5, "validate_every": 2}
    alone, *_ = pool.run(1, train_in_trainer, config_for(typed(1).path, tmp_path / "1", **flags))
    together = pool_of_world.run(world, train_in_trainer, config_for(typed(world).path, tmp_path / "P", **flags))
    assert np.abs(alone["logits"] - together[0]["logits"]).max() <= 1e-8
    assert alone["summary"]["loss"] == pytest.approx(together[0]["summary"]["loss"], rel=1e-10)
    assert alone["summary"]["best_epoch"] == together[0]["summary"]["best_epoch"]
    assert all(all_equal(together[0]["after"], other["after"]) for other in together)
    one, several = (records(tmp_path / name)[-1]["traffic"] for name in "1P")
    for once in ("sampled_edges", "computed_edges", "level_0_vertices", "host_rows", "host_to_device_bytes"):
        assert one[once] == several[once]  # nothing is loaded or computed twice
    assert several["exchange_forward_messages"] > 0


def test_groups_and_data_parallelism_learn_the_same_of_micro_batches(pool, typed, tmp_path):
    """Of a graph whose types all have features; draws are those of micro-batches, so all neighbours are taken."""
    layout = lay_out_types(with_features(random_typed_graph(4, 6, seed=38)), tmp_path, parts=4).path
    flags = {"model": "rgcn", "precision": "64", "fan_out": (-1, -1)}
    ways = {1: {}, 2: {"strategy": "data"}, 4: {"split_group": 2}}
    found = [
        pool.run(world, train_in_trainer, config_for(layout, tmp_path / f"{world}", **flags, **way))[0]
        for world, way in ways.items()
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other["logits"], found[0]["logits"], rtol=0, atol=1e-8)


def test_sampled_evaluation_takes_the_fan_outs_of_relations_of_their_own(pool, typed, tmp_path):
    schema = typed(1).graph.schema
    reach = reach_of([schema.ends(number) for number in range(6)], [[1] * 6] * 2, target=0)
    all_of_each = {f"r{number}": (-1, -1) for number in reach.relations[1]}
    flags = {**RGCN, "fan_out": (1, 1), "fan_out_of": all_of_each, "epochs": 1}
    ways = {}, {"evaluate": "sampled"}, {"evaluate": "sampled", "validate_fan_out": (1, 1)}
    exact, sampled, few = (
        pool.run(1, train_in_trainer, config_for(typed(1).path, tmp_path / str(number), **flags, **way))[0]["logits"]
        for number, way in enumerate(ways)
    )
    np.testing.assert_allclose(sampled, exact, rtol=0, atol=1e-10)
    assert np.abs(few - exact).max() > 1e-3


def learned(member, config):
    """Rows that are trained and their last gradient, by global id (trainer 0), and weights before training."""
    trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    loop.train(trainer)
    return before, trainer.trained.gathered(), trainer.trained._gathered(trainer.trained.own.grad)


@pytest.mark.parametrize("world", [1, 3])
def test_rows_that_are_trained_are_a_parameter_of_one_dense_process(pool, typed, tmp_path, world):
    layout, flags = typed(3), {**RGCN, "fan_out": (-1, -1), "epochs": 1, "batch_size": 1000, "evaluate": "none"}
    config = config_for(layout.path, tmp_path / "run", **flags)
    (before, found, gradient), *_ = pool.run(world, learned, config)
    graph, ids = layout.graph, layout.permutations[3]
    model = run_for(replace(config, out=tmp_path / "again"), 1).new_model().double()
    model.load_state_dict(before)
    rows = torch.from_numpy(initial_rows(config.seed, ids, 4, 3)).requires_grad_()
    train = torch.from_numpy(np.array(graph.train_idx))
    logits = dense_levels(layout, model, trained={3: rows})[2][0][train]
    labels = torch.from_numpy(np.array(graph.labels))[train]
    mini_batch_loss(objective_of(graph.task), logits, labels, len(train)).backward()
    torch.testing.assert_close(gradient[ids], rows.grad, rtol=1e-10, atol=1e-13)
    assert rows.grad.abs().max() > 0
    optimizer = torch.optim.Adam([rows], lr=config.lr)
    optimizer.step()
    torch.testing.assert_close(found[ids], rows.detach(), rtol=1e-10, atol=1e-10)


def test_a_run_goes_on_as_if_it_had_not_ended_also_with_other_trainers(here, typed, tmp_path):
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    flags = {**RGCN, "gpus": 2, "dropout": 0.2, "bases": 2}
    layout = typed(2).path
    gsplit.train(config=config_for(layout, straight, **flags, epochs=3))
    gsplit.train(config=config_for(layout, stopped, **flags, epochs=1))
    gsplit.train(config=TrainConfig.resuming(stopped, epochs=3))
    one, two = (checkpoint.load_state(run, checkpoint.CHECKPOINT) for run in (straight, stopped))
    assert all_equal(one["model"], two["model"])
    assert torch.equal(one["trained"]["rows"], two["trained"]["rows"])
    gsplit.train(config=TrainConfig.resuming(stopped, epochs=4, gpus=1))
    with pytest.raises(InputError, match=line_with("in_features")):
        gsplit.train(config=TrainConfig.resuming(stopped, epochs=5, train_features=5))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"train_features": None}, ("t3", "no features", "--train-features 64")),
        ({"model": "gat"}, ("--model gat", "t0, t1, t2, t3", "--model rgcn")),
        ({"model": "torch_geometric.nn:GraphSAGE"}, ("torch_geometric.nn:GraphSAGE", "--model rgcn")),
        ({"cache": "replicated"}, ("--cache replicated",)),
        ({"strategy": "full", "fan_out": (20, 20, 20), "num_layers": 2}, ("--strategy full",)),
        ({"sampling": "ladies", "layer_sizes": (5, 5)}, ("--sampling ladies",)),
        ({"task": "links"}, ("--task links",)),
        ({"feature_dtype": "float16"}, ("--feature-dtype float16",)),
        ({"strategy": "data"}, ("--train-features 4", "--split-group 2")),
        ({"fan_out_of": dict.fromkeys(("r1", "r2", "r5"), (0, 0))}, ("--train-features 4", "no effect")),
        ({"fan_out_of": {"r9": (1, 1)}}, ("--fan-out-of", "r9")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_several_types_do_not_go_with_is_refused_in_a_line(typed, tmp_path, flags, words):
    config = config_for(typed(2).path, tmp_path / "run", **{**RGCN, "gpus": 2, **flags})
    with pytest.raises(InputError, match=line_with(*words)):
        gsplit.train(config=config)
    assert not (tmp_path / "run").exists()


def test_rows_that_are_trained_stay_on_one_host(typed, tmp_path):
    config = run_for(config_for(typed(2).path, tmp_path / "run", **RGCN), 2).config
    check_trained(config, typed(2))
    with pytest.raises(InputError, match=line_with("--train-features 4", "2 hosts")):
        check_trained(replace(config, hosts=2), typed(2))


def test_weights_of_another_schema_are_no_beginning(here, typed, tmp_path):
    """Weights have the numbers of types and relations in their names: equal names and shapes do not make them fit."""
    graph = typed(1).graph
    relations = tuple(replace(each, name=f"other {each.name}") for each in graph.schema.relations)
    schema = Schema(graph.schema.types, relations)
    other = lay_out_types(replace(graph, schema=schema), tmp_path, parts=1).path
    gsplit.train(config=config_for(typed(1).path, tmp_path / "run", **RGCN, epochs=1))
    gsplit.train(config=config_for(typed(1).path, tmp_path / "same", **RGCN, epochs=1, init_from=tmp_path / "run"))
    with pytest.raises(InputError, match=line_with("--init-from", "relations")):
        gsplit.train(config=config_for(other, tmp_path / "on", **RGCN, epochs=1, init_from=tmp_path / "run"))


def test_edge_weights_of_no_relation_are_refused(tmp_path):
    layout = lay_out_types(random_typed_graph(4, 6, seed=38), tmp_path, parts=1).path
    with pytest.raises(InputError, match=line_with("--edge-weights", "no effect")):
        gsplit.train(config=config_for(layout, tmp_path / "run", **RGCN, edge_weights=True))


def test_a_model_of_several_types_wants_several_types(layouts, tmp_path):
    with pytest.raises(InputError, match=line_with("--model rgcn", "has one")):
        gsplit.train(config=config_for(layouts(1).path, tmp_path / "run", model="rgcn"))
