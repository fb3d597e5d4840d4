"""Rotating layers give the loss and every gradient of one dense process, and send what the paper says."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.runs import all_equal, config_for, records
from support.threads import in_threads
from support.whole import WholeStep, assert_same, buffers, uneven

import gsplit
from gsplit import TrainConfig
from gsplit.engine.whole.rotated_prices import turns_of
from gsplit.full import GridPlan
from gsplit.full.plans import grids_of
from gsplit.full.rotation import roles_of, rotated, volumes_of_turns
from gsplit.full.rotation.rotated_volumes import paper_words, traffic_of
from gsplit.full.shards import Shard, in_rows
from gsplit.kernels import Edges
from gsplit.runs import checkpoint
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Ticket
from gsplit.train.progress import mini_batch_counts

GRIDS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 2, 2)]
FLAGS = [{"permutation": "double", "row_blocks": 1}, {"permutation": "single", "row_blocks": 3}]
LAYERS = 3
BETWEEN = [
    f"gcn-{name}" for name in ("rms", "residual", "residual-after", "projected-in", "projected-out", "scalegnn")
]
"""What may stand between layers, each alone and together."""


def rotating(sizes):
    return GridPlan(algorithm="rotate", sizes=sizes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rotation")


def steps(member, layout, shared, plan, name, layers):
    """Loss and gradients of two epochs, of which the second keeps the first sum, for all flags."""
    results = []
    for flags in FLAGS:
        step = WholeStep(member, layout, shared, plan, layers, name, **flags)
        results.append([step.gradients()[:2] for _ in range(2)])
    return results


@pytest.mark.cases(5)
@pytest.mark.parametrize("sizes", GRIDS, ids=str)
@pytest.mark.parametrize("name", ["gcn", "weighted-gcn", *BETWEEN])
def test_every_grid_gives_the_gradient_of_one_process(folder, sizes, name):
    trainers, weighted = math.prod(sizes), name.startswith("weighted")
    layout = lay_out(
        random_graph(90, 6, seed=4, weighted=weighted), folder / str(weighted), parts=trainers, method="random"
    )
    results = in_threads(trainers, steps, layout, buffers(), rotating(sizes), name, LAYERS)
    assert_same(layout.graph, results, name, LAYERS)


OTHERS = ["gcn-narrow", "gcn-mean", "gcn-no-loops", "weighted-gcn-mean", "gcn-residual", "gcn-scalegnn"]


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_every_model_gives_the_gradient_of_one_process(folder, name, layers):
    """On four trainers, one without a vertex and one without training vertices; with loops and isolated vertices."""
    layout = uneven(folder, weighted=name.startswith("weighted"))
    sizes = {1: (1, 2, 2), 2: (2, 1, 2), 4: (4, 1, 1)}[layers]
    results = in_threads(4, steps, layout, buffers(), rotating(sizes), name, layers)
    assert_same(layout.graph, results, name, layers)


def sent(member, layout, shared, plans, name):
    """What two epochs sent, and what the formula says, for all plans and flags."""
    found = []
    for plan, flags in itertools.product(plans, FLAGS):
        step = WholeStep(member, layout, shared, plan, LAYERS, name, torch.float32, **flags)
        turns = turns_of(SimpleNamespace(seed=0, **flags), layout, plan, step.user_model)
        projected = step.user_model.projection is not None
        for first in (True, False):
            counts = mini_batch_counts(step.gradients()[2], 0)
            moves = {"first_moves": first or projected, "first_returns": projected}
            wanted = volumes_of_turns(turns, member.rank, 4, **moves)
            found.append(({key: counts[key] for key in wanted}, wanted))
    return found


@pytest.mark.parametrize("name", ["gcn", "gcn-scalegnn"])
def test_what_is_sent_is_what_the_formula_says(folder, name):
    """As integers, on every trainer, by move and in all; on uneven and empty ranges and uneven columns."""
    layout = uneven(folder, weighted=False)
    plans = [rotating(sizes) for sizes in grids_of(4)]
    for of_rank in in_threads(4, sent, layout, buffers(), plans, name):
        for found, wanted in of_rank:
            assert found == wanted
            assert wanted["exchange_forward_bytes"] > 0


def test_there_are_no_more_blocks_of_rows_than_rows():
    """A block without rows would send nothing, but all would wait for each other."""
    edges = Edges(indptr=torch.tensor([0, 2, 2, 3], dtype=torch.int32), indices=torch.tensor([0, 1, 2]).int())
    for asked, wanted in ((1, [3]), (2, [2, 1]), (200, [1, 1, 1])):
        assert [piece.edges.num_rows for piece in in_rows(Shard(edges, None), asked)] == wanted


def trained(member, layout, shared, plan):
    """What an epoch of trained features sent, and the gradient of the own rows."""
    rows = torch.zeros(len(layout.permutation) // 8, 8, requires_grad=True)
    own = SimpleNamespace(of_rows=lambda vertices: lambda: rows[torch.from_numpy(vertices - vertices[0])])
    flags = {"permutation": "double", "row_blocks": 1}
    step = WholeStep(member, layout, shared, plan, 3, "gcn", torch.float32, trained=own, **flags)
    counts = mini_batch_counts(step.gradients()[2], 0)
    turns = turns_of(SimpleNamespace(seed=0, **flags), layout, plan, step.user_model)
    wanted = volumes_of_turns(turns, member.rank, 4, first_returns=True)
    traffic = list(traffic_of(turns, member.rank, first_returns=True))
    return {key: counts[key] for key in wanted}, wanted, sum(sum(move.words) for move in traffic if not move.between)


def test_even_shares_send_what_the_paper_says(tmp_path):
    """On eight trainers, as integers: 2 (g-1)/g of each matrix, and nothing for weights, which are everywhere."""
    graph = random_graph(128, 6, seed=4, features=8, classes=8)
    layout = lay_out(graph, tmp_path, parts=8, method="random")
    layout = replace(layout, offsets=np.arange(0, 129, 16))
    for sizes in [(2, 2, 2), (8, 1, 1), (1, 4, 2), (2, 1, 4)]:
        words = paper_words(sizes, 128, [8, 8, 8, 8])
        assert words == int(words)
        for found, wanted, between in in_threads(8, trained, layout, buffers(), rotating(sizes)):
            assert found == wanted
            assert between == words


@pytest.mark.parametrize(("sizes", "share"), [((2, 2, 2), 4.0)])
def test_the_paper_s_words_by_hand(sizes, share):
    """On a cube of two each layer adds up three planes twice, but the first: n D / 4 words of each, halved."""
    assert paper_words(sizes, 100, [4, 4]) == 100 * 4 / share * (2 + 1 + 1)
    assert paper_words(sizes, 100, [4, 4, 4]) == 100 * 4 / share * (2 + 1 + 1) * 2


def test_blocks_of_rotating_layers_change_their_axes():
    assert [roles_of(layer) for layer in range(1, 5)] == [
        ("z", "x", "y"),
        ("y", "z", "x"),
        ("x", "y", "z"),
        ("z", "x", "y"),
    ]


EXACT = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "dtype": "float64", "model": "gcn", "epochs": 4}
TURNING = {**EXACT, "algorithm": "rotate", "gpus": 4, "grid": (2, 2, 1)}


SCALEGNN = {"norm": "rms", "residual": True, "residual_after": True}
SCALEGNN |= {"input_projection": True, "output_projection": True, "epochs": 5}


@pytest.mark.parametrize(
    "changes", [{}, {"train_features": 6}, SCALEGNN], ids=["features", "trained", "as ScaleGNN has it"]
)
def test_epochs_are_those_of_one_trainer(here, layouts, tmp_path, changes):
    alone, rotating, path = tmp_path / "alone", tmp_path / "rotating", layouts(4).path
    gsplit.train(config=config_for(path, alone, **{**EXACT, **changes}, gpus=1, save_predictions="logits"))
    gsplit.train(config=config_for(path, rotating, **{**TURNING, **changes}, save_predictions="logits"))
    losses = [record["loss"] for record in records(alone)]
    assert [record["loss"] for record in records(rotating)] == pytest.approx(losses, rel=1e-10)
    logits = [np.load(run / "predictions.npy") for run in (alone, rotating)]
    np.testing.assert_allclose(*logits, rtol=0, atol=1e-8)


def dropped(member, layout, sizes):
    """What is left of each block after dropout, by epoch, layer and place of the block."""
    step = WholeStep(member, layout, pool_module.SHARED, rotating(sizes), LAYERS, "gcn", **FLAGS[0])
    step.model.dropout.p = 0.5
    torch.manual_seed(member.rank)
    placed, found = member.on(rotating(sizes).grid), {}
    for epoch in range(2):
        layers, whole = itertools.count(1), rotated.activated

        def noted(*arguments, seed, epoch=epoch, layers=layers, whole=whole):
            layer = next(layers)
            roles, block = roles_of(layer), whole(*arguments, seed=seed)
            found[epoch, layer, placed.coordinate(roles.rows), placed.coordinate(roles.columns)] = (
                block.detach().clone()
            )
            return block

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(rotated, "activated", noted)
            step.batches.make(handle_of(epoch)).logits(step.model)
    return found


def handle_of(epoch):
    return Handle(ticket=Ticket(number=epoch, epoch=epoch, batch=0))


@pytest.mark.parametrize("sizes", [(1, 2, 2), (2, 1, 2), (2, 2, 1)], ids=str)
def test_trainers_with_the_same_block_drop_the_same(pool, folder, sizes):
    """Bit for bit; in other blocks, layers and epochs others are dropped."""
    layout = lay_out(random_graph(90, 6, seed=4), folder / "False", parts=4, method="random")
    first, replicas = {}, 0
    for of_rank in pool.run(4, dropped, layout, sizes):
        for at, block in of_rank.items():
            replicas += at in first
            assert torch.equal(first.setdefault(at, block), block), at
    assert replicas > 0
    zeros = [(block == 0).double().mean().item() for block in first.values()]
    assert 0.6 < np.mean(zeros) < 0.9  # of half that is positive half is dropped
    for (epoch, layer, row, column), block in first.items():
        assert not torch.equal(block == 0, first[1 - epoch, layer, row, column] == 0)
    assert len(first) == 2 * sum(
        math.prod(sizes["xyz".index(axis)] for axis in roles_of(layer)[:2]) for layer in range(1, LAYERS)
    )


def test_a_run_goes_on_and_drops_the_same(here, layouts, tmp_path):
    """Bit-identical on its planes, and under another plan."""
    straight, stopped, path = tmp_path / "straight", tmp_path / "stopped", layouts(4).path
    flags = {**TURNING, "dropout": 0.5, "input_dropout": 0.2}
    gsplit.train(config=config_for(path, straight, **flags))
    gsplit.train(config=config_for(path, stopped, **{**flags, "epochs": 2}))
    gsplit.train(config=TrainConfig.resuming(stopped, epochs=4))
    first, second = (checkpoint.load_state(run, checkpoint.CHECKPOINT)["model"] for run in (straight, stopped))
    assert all_equal(first, second)
    summary = gsplit.train(config=TrainConfig.resuming(stopped, epochs=5, algorithm="columns", grid=None))
    assert summary["epochs"] == 5


def test_rotation_stands_in_the_table_of_plans(layouts, tmp_path):
    config = config_for(layouts(4).path, tmp_path / "run", **TURNING, dry_run=True)
    lines = gsplit.train(config=config)["plans"].splitlines()
    table = {" ".join(line.split()[:2]): line for line in lines}
    assert {f"rotate {'x'.join(map(str, sizes))}" for sizes in grids_of(4)} <= set(table)
    assert lines[-2].startswith("chosen: rotate 2x2x1")
