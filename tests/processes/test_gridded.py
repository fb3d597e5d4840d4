"""Subgraphs on process grids: what is learned is what one trainer a group learns from the same sets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.gridded import EXACT, LAID_OUT, RULES, assert_close, counted, learned, sets_of
from support.hosts import train_placed
from support.messages import line_with
from support.runs import config_for, own_edges_alone

import gsplit
from gsplit import TrainConfig
from gsplit.errors import InputError
from gsplit.full import GridPlan
from gsplit.full.volumes import Widths, volumes, widths_of_sums
from gsplit.runs import checkpoint

MODELS = {
    "sage": {"model": "sage"},
    "gcn, batch norm": {"model": "gcn", "norm": "batch"},
    "sage, rms, residual, projected": {
        "model": "sage",
        "norm": "rms",
        "residual": True,
        "input_projection": True,
        "output_projection": True,
    },
    "gat": {"model": "gat", "heads": 4, "out_heads": 2},
}
ALL = [
    case
    for case in itertools.product(MODELS, RULES, LAID_OUT)
    if case[:2] != ("gat", "unbiased")  # attention is a mean
]


@pytest.fixture(scope="module")
def wanted():
    """Weights, losses and edges of one trainer a group, by model, rule and number of groups."""
    return {}


@pytest.mark.cases(7)
@pytest.mark.parametrize(("model", "rule", "laid_out"), ALL)
def test_weights_are_those_of_one_trainer_a_group(here, wanted, weighted_layouts, tmp_path, model, rule, laid_out):
    groups, grid = laid_out
    flags, layout, name = {**MODELS[model], **RULES[rule]}, weighted_layouts(4), (model, rule, groups)
    if name not in wanted:
        wanted[name] = learned(layout, tmp_path / "alone", gpus=groups, split_group=1, **flags)
    (weights, losses, edges), (same, same_losses, same_edges) = (
        wanted[name],
        learned(layout, tmp_path / "run", gpus=groups * int(np.prod(grid)), grid=grid, **flags),
    )
    assert same_losses == pytest.approx(losses, rel=1e-10)
    assert same_edges == edges
    assert_close(weights, same)


@pytest.mark.cases(3)
@pytest.mark.parametrize("model", ["sage", "gat"])
@pytest.mark.parametrize("exchange_dtype", ["model", "bfloat16"])
@pytest.mark.parametrize(
    ("groups", "grid"),
    [(1, (2, 2, 1)), (1, (2, 1, 2)), (1, (1, 2, 2)), (2, (2, 1, 1)), (2, (1, 1, 2)), (1, (1, 1, 4))],
)
def test_what_moves_is_what_the_formula_says(pool, layouts, tmp_path, groups, grid, exchange_dtype, model):
    """As integers, on every trainer and in every mini-batch; each row of features is loaded once an epoch."""
    inside = int(np.prod(grid))
    layout, world, plan = layouts(inside), groups * inside, GridPlan(algorithm="3d", sizes=grid)
    flags = {**EXACT, **RULES["uniform"], "grid": grid, "exchange_dtype": exchange_dtype, "evaluate": "none"}
    if model == "gat":
        flags |= {"heads": 4, "out_heads": 4}
    config = config_for(layout.path, tmp_path / "run", model=model, **flags)
    pairs = [(layout.graph.num_features, 8), (8, 8), (8, layout.graph.num_classes)]
    widths = widths_of_sums(pairs, first_kept=False, first_returns=False, epoch=0)
    if model == "gat":
        widths = [Widths(wide, wide, 4) for wide in (8, 8, 4 * layout.graph.num_classes)]
    of_ranks, loaded = pool.run(world, counted, config), 0
    for rank, mini_batches in enumerate(of_ranks):
        group, place = divmod(rank, inside)
        for epoch, batch, counts, _ in mini_batches:
            every, targets = sets_of(layout, epoch, batch, groups)[group].T
            sizes = np.stack([every, every, every, targets], axis=1)
            travels = 2 if exchange_dtype == "bfloat16" else 8
            wanted = volumes(plan, sizes, widths, travels, place, score_itemsize=8)
            assert {key: counts[key] for key in wanted} == wanted, (rank, epoch, batch)
            loaded += counts["host_rows"]
    assert loaded == EXACT["epochs"] * layout.graph.num_vertices
    assert sum(wanted.values())


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_no_edge_into_another_grid_row_is_read(pool, here, layouts, weighted_layouts, tmp_path, model):
    """Nor what it weighs, for GCN's degrees."""
    flags = {**EXACT, **RULES["uniform"], "model": model, "grid": (2, 2, 1), "evaluate": "none"}
    layout = layouts(4) if model == "sage" else weighted_layouts(4)
    weights, *_ = learned(layout, tmp_path / "alone", gpus=4, **flags)
    for same in pool.run(4, own_edges_alone, config_for(layout.path, tmp_path / "run", **flags)):
        for weight, other in zip(weights.values(), same, strict=True):
            assert (weight - other).abs().max() <= 1e-10


def test_what_grids_have_no_use_for_is_told(here, layouts, tmp_path, caplog):
    flags = {**EXACT, **RULES["clusters"], "model": "sage", "grid": (1, 1, 2), "gpus": 2, "epochs": 1, "samplers": 2}
    learned(layouts(2), tmp_path / "run", **flags, exchange="auto", cache="partitioned")
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for flag in ("--samplers 2", "--exchange auto", "--cache partitioned"):
        assert any(line.startswith(flag) and "no effect with --grid 1,1,2" in line for line in told), told


MISTAKES = {
    "of neighbours": ({"grid": (2, 1, 1)}, ("--grid 2,1,1", "--sampling is neighbours", "drop it")),
    "not dividing": ({"grid": (3, 1, 1), **RULES["uniform"]}, ("--grid 3,1,1", "groups of 3", "4")),
    "of another group": (
        {"grid": (2, 1, 1), "split_group": 4, **RULES["uniform"]},
        ("--split-group is 4", "--grid 2,1,1", "groups of 2"),
    ),
    "of users": (
        {"grid": (2, 1, 1), "model": "torch_geometric.nn:GraphSAGE", **RULES["uniform"]},
        ("--grid 2,1,1", "GraphSAGE", "--model sage"),
    ),
    "of heads": (
        {"grid": (1, 1, 2), "model": "gat", **RULES["uniform"]},
        ("--grid 1,1,2", "--out-heads 1", "multiple of 2"),
    ),
    "from a GPU": (
        {"grid": (2, 1, 1), "loader": "zero-copy", **RULES["uniform"]},
        ("--loader zero-copy", "--device is cpu"),
    ),
    "data": ({"grid": (2, 1, 1), "strategy": "data", **RULES["uniform"]}, ("--grid 2,1,1", "--strategy data")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_is_refused_in_a_line(layouts, tmp_path, mistake):
    flags, words = MISTAKES[mistake]
    others = {key: EXACT[key] for key in ("fan_out", "batch_size", "num_layers")}
    config = config_for(layouts(4).path, tmp_path / "run", **{**others, "sampling": "neighbours", **flags})
    with pytest.raises(InputError, match=line_with(*words)):
        gsplit.train(config=config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_need_not_be_dealt_out(here, layouts, tmp_path, parts):
    flags = {**EXACT, **RULES["uniform"], "model": "sage"}
    weights, *_ = learned(layouts(parts), tmp_path / "alone", gpus=1, **flags)
    same, *_ = learned(layouts(parts), tmp_path / "run", gpus=4, grid=(2, 2, 1), **flags)
    assert_close(weights, same)


def test_trainers_that_somebody_else_starts_learn_the_same(here, layouts, tmp_path):
    flags = {**EXACT, **RULES["uniform"], "model": "sage", "grid": (1, 1, 2), "gpus": 2, "epochs": 1}
    weights, *_ = learned(layouts(2), tmp_path / "alone", **flags)
    config = config_for(layouts(2).path, tmp_path / "run", **flags)
    train_placed(tmp_path / "placed", 1, 2, [vars(config)])
    same = checkpoint.load_state(tmp_path / "run", checkpoint.MODEL)
    assert_close(weights, same)


def test_a_run_goes_on_under_another_grid(here, wanted, layouts, tmp_path):
    """With other trainers, too."""
    flags = {**EXACT, **RULES["uniform"], "model": "sage", "gpus": 4, "epochs": 3}
    weights, *_ = learned(layouts(4), tmp_path / "alone", grid=(2, 2, 1), **flags)
    run = tmp_path / "run"
    learned(layouts(4), run, grid=(2, 2, 1), **{**flags, "epochs": 1})
    gsplit.train(config=TrainConfig.resuming(run, epochs=2, grid=(1, 1, 2), gpus=2))
    gsplit.train(config=TrainConfig.resuming(run, epochs=3, grid=(1, 3, 1), gpus=3))
    same = checkpoint.load_state(run, checkpoint.MODEL)
    assert_close(weights, same, 1e-8)
