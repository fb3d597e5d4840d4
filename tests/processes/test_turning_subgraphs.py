"""Subgraphs whose layers rotate: what is learned is what one trainer a group learns from the same sets."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from support.gridded import EXACT, LAID_OUT, RULES, assert_close, counted, learned, sets_of
from support.messages import line_with
from support.runs import (
    all_equal,
    break_edges_into,
    config_for,
    records,
    stopped_and_gone_on,
    train_in_trainer,
    trainer_of,
)

import gsplit
from gsplit import TrainConfig
from gsplit.engine.own_ranges import bounds_of
from gsplit.errors import InputError
from gsplit.full import GridPlan
from gsplit.full.rotation import Planes, Turns, orders_of, roles_of, volumes_of_turns
from gsplit.runs import checkpoint
from gsplit.train import loop

GCN = {**EXACT, "model": "gcn"}
TURNING = {**GCN, "algorithm": "rotate"}
SCALEGNN = {"norm": "rms", "residual": True, "residual_after": True}
SCALEGNN |= {"input_projection": True, "output_projection": True}
MODELS = {
    "weighted": {},
    "weighted mean": {"normalization": "mean", "num_layers": 2},
    "weighted, as ScaleGNN has it": SCALEGNN,
    "no loops": {"self_loops": False, "num_layers": 4, "row_blocks": 2},
    "rms": {"norm": "rms", "num_layers": 4},
    "residual": {"residual": True},
}


@pytest.fixture(scope="module")
def wanted():
    """Weights, losses and scores of one trainer a group, by model, rule and number of groups."""
    return {}


def alone(layout, run, groups, **flags):
    """Weights and losses of one trainer a group, without a grid."""
    flags = {name: value for name, value in flags.items() if name != "row_blocks"}
    return learned(layout, run, gpus=groups, split_group=1, **{**GCN, **flags})


@pytest.mark.cases(6)
@pytest.mark.parametrize(("model", "rule", "laid_out"), list(itertools.product(MODELS, RULES, LAID_OUT)))
def test_weights_are_those_of_one_trainer_a_group(
    here, wanted, layouts, weighted_layouts, tmp_path, model, rule, laid_out
):
    groups, grid = laid_out
    flags, name = {**MODELS[model], **RULES[rule]}, (model, rule, groups)
    layout = (weighted_layouts if "weighted" in model else layouts)(4)
    if name not in wanted:
        wanted[name] = alone(layout, tmp_path / "alone", groups, **flags)
    weights, losses, _ = wanted[name]
    gpus = groups * math.prod(grid)
    same, same_losses, _ = learned(layout, tmp_path / "run", gpus=gpus, grid=grid, **{**TURNING, **flags})
    assert same_losses == pytest.approx(losses, rel=1e-10)
    assert_close(weights, same)


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "grid"), [(2, (2, 2, 1)), (2, (2, 1, 2)), (1, (2, 2, 2))])
def test_eight_trainers_learn_it_too(in_pool, layouts, tmp_path, groups, grid):
    flags = {**SCALEGNN, **RULES["uniform"], "epochs": 1}
    with in_pool():
        weights, *_ = alone(layouts(8), tmp_path / "alone", groups, **flags)
    same, *_ = learned(layouts(8), tmp_path / "run", gpus=8, grid=grid, **{**TURNING, **flags})
    assert_close(weights, same)


@pytest.mark.cases(1)
@pytest.mark.parametrize("rule", ["uniform", "saint", "clusters"])
def test_epochs_and_scores_are_those_of_one_trainer_a_group(here, weighted_layouts, tmp_path, rule):
    flags = {**RULES[rule], **SCALEGNN, "epochs": 5, "save_predictions": "logits", "optimizer": "adam", "lr": 0.01}
    flags |= {"momentum": 0.0}
    alone(weighted_layouts(4), tmp_path / "alone", 2, **flags)
    learned(weighted_layouts(4), tmp_path / "run", gpus=4, grid=(2, 1, 1), **{**TURNING, **flags})
    runs = tmp_path / "alone", tmp_path / "run"
    np.testing.assert_allclose(*(np.load(run / "predictions.npy") for run in runs), rtol=0, atol=1e-8)
    scores, same = ([record["valid_accuracy"] for record in records(run)] for run in runs)
    assert scores == same


def turns_of_set(grid, of_trainers, model, classes, features):
    """Who has what of a set, of which [P, 2] numbers of all vertices and of training vertices are given."""
    every, targets = of_trainers.T
    own = every.tolist()
    if model is SCALEGNN:
        more = {"normalised": 3, "owned": np.diag(every)}
        return Turns(grid, (own, own), targets.tolist(), [8, 8, 8, 8], 2, **more)
    return Turns(grid, (own, own), targets.tolist(), [features, 8, 8, classes], 2)


@pytest.mark.cases(2)
@pytest.mark.parametrize("exchange_dtype", ["model", "bfloat16"])
@pytest.mark.parametrize("model", [{}, SCALEGNN], ids=["gcn", "as ScaleGNN has it"])
@pytest.mark.parametrize(
    ("groups", "grid"),
    [(1, (2, 2, 1)), (1, (2, 1, 2)), (1, (1, 2, 2)), (2, (2, 1, 1)), (2, (1, 2, 1)), (1, (1, 1, 4))],
)
def test_what_moves_is_what_the_formula_says(pool, layouts, tmp_path, groups, grid, model, exchange_dtype):
    """As integers, on every trainer and in every mini-batch; each row of features is loaded once an epoch."""
    inside = math.prod(grid)
    layout, plan = layouts(inside), GridPlan(algorithm="rotate", sizes=grid)
    flags = {**TURNING, **RULES["uniform"], **model, "grid": grid, "exchange_dtype": exchange_dtype, "row_blocks": 2}
    config = config_for(layout.path, tmp_path / "run", evaluate="none", **flags)
    travels, loaded, keys = 2 if exchange_dtype == "bfloat16" else 8, 0, {}
    for rank, mini_batches in enumerate(pool.run(groups * inside, counted, config)):
        group, place = divmod(rank, inside)
        for epoch, batch, counts, key in mini_batches:
            of_trainers = sets_of(layout, epoch, batch, groups)[group]
            turns = turns_of_set(plan.grid, of_trainers, model, layout.graph.num_classes, layout.graph.num_features)
            returns = model is SCALEGNN
            found = volumes_of_turns(turns, place, travels, square_itemsize=8, first_returns=returns)
            assert {name: counts[name] for name in found} == found, (rank, epoch, batch)
            loaded += counts["host_rows"]
            assert keys.setdefault((epoch, batch, group), key) == key  # or trainers would drop apart
    assert loaded == EXACT["epochs"] * layout.graph.num_vertices
    assert sum(found.values())
    assert len(set(keys.values())) == len(keys)


def of_own_blocks_alone(member, config):
    """Weights that are learned where edges into vertices of none of this trainer's blocks of rows lead nowhere."""
    trainer = trainer_of(member, config)
    grid = GridPlan(algorithm="rotate", sizes=config.grid).grid
    bounds = bounds_of(trainer.layout, grid.world)
    planes = Planes(grid, member.rank, orders_of(bounds, 0, double=False))
    needed = {peer for layer in range(1, config.num_layers + 1) for peer in planes.peers(roles_of(layer).rows)}
    owner_N = np.repeat(np.arange(grid.world), np.diff(bounds))
    break_edges_into(trainer.layout.graph, ~np.isin(owner_N, list(needed)))
    loop.train(trainer)
    return len(needed), [parameter.detach() for parameter in trainer.model.parameters()]


def test_no_edge_into_another_block_of_rows_is_read(pool, here, weighted_layouts, tmp_path):
    """Of two layers on a grid of 1 x 2 x 2 trainers each sums over the rows of three, without degrees of sources."""
    flags = {**TURNING, **RULES["uniform"], "num_layers": 2, "grid": (1, 2, 2), "evaluate": "none"}
    flags |= {"normalization": "mean"}
    weights, *_ = learned(weighted_layouts(4), tmp_path / "alone", gpus=4, **flags)
    config = config_for(weighted_layouts(4).path, tmp_path / "run", **flags)
    for needed, same in pool.run(4, of_own_blocks_alone, config):
        assert needed == 3
        assert_close(weights, dict(zip(weights, same, strict=True)))


def test_a_run_goes_on_bit_for_bit(pool, layouts, tmp_path):
    """In the middle of an epoch, and what is dropped, too."""
    flags = {**TURNING, **RULES["uniform"], **SCALEGNN, "grid": (1, 2, 1), "dropout": 0.5, "input_dropout": 0.2}
    config = config_for(layouts(4).path, tmp_path / "straight", **flags)
    straight = pool.run(4, train_in_trainer, config)
    parts = pool.run(4, stopped_and_gone_on, replace(config, out=tmp_path / "parts"), 3)
    for whole, gone_on in zip(straight, parts, strict=True):
        assert all_equal(whole["after"], gone_on["after"])


def test_a_run_goes_on_under_another_plan_and_grid(here, layouts, tmp_path):
    """With other trainers, too, with rows at rest, and without a grid."""
    flags = {**RULES["uniform"], "gpus": 4, "epochs": 4, "norm": "rms"}
    weights, *_ = learned(layouts(4), tmp_path / "alone", grid=(2, 2, 1), **{**TURNING, **flags})
    run = tmp_path / "run"
    learned(layouts(4), run, grid=(2, 2, 1), **{**TURNING, **flags, "epochs": 1})
    gsplit.train(config=TrainConfig.resuming(run, epochs=2, grid=(1, 3, 1), gpus=3))
    gsplit.train(config=TrainConfig.resuming(run, epochs=3, grid=(1, 1, 2), gpus=2, algorithm="auto"))
    gsplit.train(config=TrainConfig.resuming(run, epochs=4, grid=None, gpus=1))
    assert_close(weights, checkpoint.load_state(run, checkpoint.MODEL), 1e-8)


MISTAKES = {
    "sage": ({"model": "sage"}, ("--algorithm rotate", "--model gcn", "sage")),
    "batch norm": ({"norm": "batch"}, ("--algorithm rotate", "--norm batch", "none or rms")),
    "of neighbours": ({"sampling": "neighbours", "subgraph": None}, ("--grid 2,1,1", "--sampling is neighbours")),
    "no grid": ({"grid": None}, ("--algorithm rotate", "--strategy split", "without --grid")),
    "another algorithm": ({"algorithm": "1.5d"}, ("--algorithm 1.5d", "--strategy split", "3d or rotate")),
    "data": ({"strategy": "data", "grid": None}, ("--algorithm rotate", "--strategy data")),
    "dry run": ({"dry_run": True}, ("--dry-run", "--strategy full")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_is_refused_in_a_line(layouts, tmp_path, mistake):
    changes, words = MISTAKES[mistake]
    flags = {**TURNING, **RULES["uniform"], "grid": (2, 1, 1), **changes}
    with pytest.raises(InputError, match=line_with(*words)):
        gsplit.train(config=config_for(layouts(4).path, tmp_path / "run", **flags))
    assert not (tmp_path / "run").exists()


def test_a_loop_of_one_s_own_finds_no_blocks(layouts, tmp_path):
    config = config_for(layouts(4).path, tmp_path / "run", grid=(2, 1, 1), **{**TURNING, **RULES["uniform"]})
    with pytest.raises(InputError, match=line_with("loop", "--algorithm rotate", "use 3d")):
        gsplit.train(config=config, loop=print)
    assert not (tmp_path / "run").exists()
