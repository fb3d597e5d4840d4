"""``--graph move``: each trainer holds 1/P of the edges, which move in stages; gradients are those of one process."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.gradients import assert_same_step
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.runs import all_equal, config_for, records, run_for, train_in_trainer
from support.threads import in_threads
from support.whole import LAYERS, WholeStep, buffers, dense_gradients, moved, uneven

from experiments.full_graph.probe import held
from gsplit.engine.whole.fitting import chosen_of
from gsplit.engine.whole.plan_prices import edges_by_owner
from gsplit.engine.whole.plan_table import plan_of_run, plan_table, priced_plans
from gsplit.errors import InputError
from gsplit.full import GridPlan, levels_of
from gsplit.full.moves import OF_EDGES
from gsplit.full.volumes import volumes
from gsplit.launch.resolve import resolve
from gsplit.train.progress import mini_batch_counts

GRIDS = {2: [(1, 1, 2)], 3: [(1, 1, 3)], 4: [(2, 1, 2), (1, 2, 2), (1, 1, 4)], 8: [(2, 2, 2)], 9: [(3, 1, 3)]}
NAMES = ["sage", "sage-projected", "sage-residual-layer-norm", "gcn-batch-norm", "gcn-narrow", "weighted-gcn"]
CASES = [(4, name) for name in NAMES] + [(n, name) for n in GRIDS if n != 4 for name in ("sage", "weighted-gcn")]


MOVING = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "graph": "move", "device": "cpu"}


def plans_of(trainers):
    return [GridPlan(algorithm="3d", sizes=sizes, graph_moves=True) for sizes in GRIDS[trainers]]


@pytest.mark.cases(4)
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("trainers", "name"), CASES)
def test_a_step_is_that_of_one_process_and_sends_what_the_formula_says(tmp_path, trainers, name, recompute):
    """As integers, on every trainer; one has no vertex, another none that trains, and levels are pruned."""
    weighted = name.startswith("weighted")
    layout = uneven(tmp_path, weighted=weighted, parts=max(trainers, 4))
    if trainers < 4:
        layout = replace(layout, offsets=np.array([0, *(7,) * (trainers - 1), 60]))
    levels = levels_of(layout.graph, layout.offsets, LAYERS, whole="batch" in name)
    edges = edges_by_owner(layout, levels)
    wanted = dense_gradients(layout.graph, LAYERS, name)
    plans = plans_of(trainers)
    for rank, of_rank in enumerate(in_threads(trainers, moved, layout, buffers(), plans, name, recompute)):
        for plan, step, counts, widths in of_rank:
            assert_same_step([step], *wanted)
            of_formula = volumes(plan, levels.sizes, widths, 8, rank, edges=edges, weight_itemsize=8 * weighted)
            assert {key: counts[key] for key in of_formula} == of_formula, (plan, rank)
            assert of_formula["edges_backward_bytes"] + of_formula["exchange_forward_bytes"] > 0


def even_layout(folder, parts, of_part=4):
    """A layout whose vertices have an edge from a vertex of each part: every block of a grid has as many edges."""
    n = parts * of_part
    graph = random_graph(n, 2, seed=1)
    sources = np.add.outer(np.arange(n) % of_part, of_part * np.arange(parts)).ravel().astype(np.int32)
    everyone = np.arange(n)
    graph = replace(graph, indptr=np.arange(n + 1) * parts, indices=sources, train_idx=everyone)
    return lay_out(graph, folder, parts=parts, method="range")


def counted(member, layout, shared, plan):
    """Counts of the first epoch, and bytes of edges that are held, where every layer moves forward and backward."""
    step = WholeStep(member, layout, shared, plan, LAYERS, "sage-projected", torch.float32)
    counts = mini_batch_counts(step.gradients()[2], 0)
    return counts, held({name: value for name, value in vars(step.batches).items() if name != "_parts"})[1]


@pytest.mark.cases(2)
@pytest.mark.parametrize("sizes", [(2, 1, 2), (1, 1, 4), (2, 2, 2), (3, 1, 3)])
def test_even_shares_are_the_papers(tmp_path, sizes):
    """CAGNET, section IV: nnz / P edges on each, and nnz / (R K) (F - 1) / F words of A in a product, as integers."""
    (R, K, F), P = sizes, math.prod(sizes)
    layout = even_layout(tmp_path, P)
    nnz, n = layout.graph.num_edges, layout.graph.num_vertices
    plan = GridPlan(algorithm="3d", sizes=sizes, graph_moves=True)
    assert nnz % (R * K * F) == n % (R * F) == n % (K * F) == 0
    config = config_for(layout.path, tmp_path / "run", **MOVING, grid=sizes, input_projection=True)
    run = run_for(config, P)
    said = chosen_of(priced_plans(run), plan_of_run(run)).held_bytes
    assert said == nnz // P * 8 + 4 * (n // R + n // K) // F  # and the pointers
    for counts, edge_bytes in in_threads(P, counted, layout, buffers(), plan):
        assert edge_bytes == nnz // P * 8
        for way, rows in (("forward", n // R), ("backward", n // K)):
            assert counts[f"edges_{way}_bytes"] == LAYERS * 4 * (nnz // (R * K) // F * (F - 1))
            assert counts[f"pointers_{way}_bytes"] == LAYERS * 4 * (rows // F * (F - 1))
            assert counts[f"edges_{way}_messages"] == counts[f"pointers_{way}_messages"] == LAYERS * (F - 1)


@pytest.mark.cases(1)
@pytest.mark.parametrize("model", [{"model": "gcn", "norm": "batch", "residual": True}, {"model": "sage"}], ids=str)
@pytest.mark.parametrize("grid", [(2, 1, 2), (1, 1, 4)])
def test_five_epochs_are_those_of_one_trainer(pool, layouts, tmp_path, grid, model):
    learned = []
    for world, plan in ((1, {"algorithm": "shared", "graph": "stay"}), (4, {"grid": grid})):
        flags = {**MOVING, **model, **plan, "dtype": "float64", "epochs": 5, "gpus": world}
        learned.append(pool.run(world, train_in_trainer, config_for(layouts(4).path, tmp_path / str(world), **flags)))
    [alone], moving = learned
    assert all(all_equal(moving[0]["after"], other["after"]) for other in moving[1:])  # bit for bit
    np.testing.assert_allclose(moving[0]["logits"], alone["logits"], rtol=0, atol=1e-8)
    assert not all_equal(moving[0]["before"], moving[0]["after"])


def test_rows_alone_travel_narrower(pool, layouts, tmp_path):
    """Edges of the first layer, whose sums are kept, move in the first epoch alone."""
    found = {}
    for dtype in ("model", "bfloat16"):
        config = config_for(
            layouts(2).path, tmp_path / dtype, **MOVING, grid=(1, 1, 2), exchange_dtype=dtype, epochs=2, hidden=16
        )
        pool.run(2, train_in_trainer, config)
        first, found[dtype] = (record["traffic"] for record in records(config.out))
        assert first["edges_forward_bytes"] > found[dtype]["edges_forward_bytes"] > 0
    for move in (*OF_EDGES, "to_columns"):
        wide, narrow = (found[dtype][f"{move}_forward_bytes"] for dtype in ("model", "bfloat16"))
        assert wide == narrow * (1 if move in OF_EDGES else 2) > 0


def test_the_table_of_plans_says_what_moves(layouts, tmp_path):
    """A grid's edges move where that is asked, and ``auto`` never takes such a plan."""
    path, lines = layouts(4).path, {}
    for graph in ("stay", "move"):
        run = resolve(config_for(path, tmp_path / graph, **{**MOVING, "graph": graph}, algorithm="2d"))
        lines[graph] = plan_table(run).splitlines()
        priced = {price.plan.sizes: price for price in priced_plans(run) if not price.plan.of_all_sources}
        assert [sizes for sizes, price in priced.items() if price.plan.graph_moves] == [
            sizes for sizes in priced if sizes[2] > 1 and graph == "move"
        ]
    assert any(line.startswith("grid 2,1,2 --graph move ") for line in lines["move"])
    assert lines["move"][-2].startswith("chosen: 2d 2x1x2 --graph move;")
    assert ("pointers" in lines["move"][1], "pointers" in lines["stay"][1]) == (True, False)
    assert resolve(config_for(path, tmp_path / "auto", **MOVING)).config.algorithm == "shared"


def test_attention_does_not_move_its_edges(layouts, tmp_path):
    flags = {**MOVING, "model": "gat", "heads": 2, "out_heads": 2, "grid": (1, 1, 2)}
    with pytest.raises(InputError, match=line_with("--graph move", "attention", "--model sage or gcn")):
        resolve(config_for(layouts(2).path, tmp_path / "run", **flags))
