"""What trainers on the whole graph read and take: in pieces, as --dry-run says, and refused where it does not fit."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from support.cgroups import give_memory
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.peaks import peaks_of_steps
from support.runs import config_for, run_for, trainer_of
from support.threads import in_threads
from support.whole import WholeStep, buffers

import gsplit
from experiments.full_graph import loading
from experiments.full_graph.probe import held
from gsplit.config.train import TrainConfig
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.whole.plan_prices import edges_by_owner, work_of
from gsplit.engine.whole.plan_table import plan_of_run, priced_plans
from gsplit.engine.whole.step_memory import private_peak, step_bytes
from gsplit.errors import InputError
from gsplit.full import GridPlan, levels_of
from gsplit.full.covers import Covered, bytes_to_find, covers_of
from gsplit.full.reading import edge_pieces, places_among, places_in_list
from gsplit.full.routes import remote_sources
from gsplit.full.shards import read_shard
from gsplit.launch.resolve import resolve

FULL = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "epochs": 1, "device": "cpu"}
MIB = 1 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    graph = random_graph(20_000, 10, seed=3, features=50)
    return lay_out(graph, tmp_path_factory.mktemp("large"), parts=2, method="deal")


EVERY = pytest.param((), marks=pytest.mark.slow, id="every plan")


@pytest.fixture(scope="module", params=[pytest.param(("rotate",), id="rotate", marks=pytest.mark.slow), EVERY])
def measured(request, tmp_path_factory):
    """Runs of two trainers on every kind of plan, each in processes of its own, on features of 229 MiB."""
    folder = tmp_path_factory.mktemp("loading")
    rows = loading.measure(folder, folder, quick=True, only=request.param)["runs"]
    plans = {row["plan"] for row in rows}
    assert "rotate 2,1,1" in plans
    assert request.param or plans >= {"1d", "shared", "1d-sparse", "grid 1,1,2"}
    return rows


def test_trainers_read_their_rows_in_pieces(measured):
    for row in measured:
        assert row["layout_mib"] > 3 * 64
        assert row["beyond_mib"] <= 64, row
        assert row["read_mib"] < 0.6 * row["layout_mib"], row


def test_no_run_takes_more_than_was_said(measured):
    for row in measured:
        assert row["peak_mib"] > 2 * row["process_mib"]  # or the process would be all that is compared
        assert 0.5 <= row["peak_over_said"] <= 1.15, row


def peaks_of_epochs(member, config):
    return peaks_of_steps(trainer_of(member, config))


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "shared"},
        {"algorithm": "1d-sparse", "model": "gcn"},
        {"grid": (1, 1, 2), "input_dropout": 0.3},
        {"grid": (1, 1, 2), "graph": "move", "model": "gcn"},
        {"algorithm": "shared", "input_projection": True},
    ],
    ids=str,
)
def test_a_step_in_bfloat16_takes_no_more_than_is_said(pool, large, tmp_path, changes):
    """By PyTorch's allocator; what is said is a bound, and less than float32's."""
    said = {}
    for precision in ("32", "bf16-mixed"):
        given = {"strategy": "full", "num_layers": 3, "hidden": 64, "epochs": 2, "evaluate": "none", "device": "cpu"}
        config = TrainConfig(layout=large.path, out=tmp_path, precision=precision, **{**given, **changes})
        run = run_for(config, 2)
        levels = levels_of(large.graph, bounds_of(large, 2), 3, whole=False)
        work = work_of(run, large, levels, run.new_model())
        said[precision] = max(step_bytes(plan_of_run(run), work, rank) for rank in range(2))
    taken = max(steps[-1] for steps in pool.run(2, peaks_of_epochs, config))
    assert taken <= said["bf16-mixed"] < min(2.5 * taken, 0.95 * said["32"])


def bytes_of_edges(member, layout, shared, plan):
    """Bytes of the edges of a trainer, and number of edges that it sums over, where every layer has a backward."""
    step = WholeStep(member, layout, shared, plan, 3, "sage-projected")
    step.gradients()
    batches = step.batches
    held_edges = held({name: value for name, value in vars(batches).items() if name != "_parts"})[1]
    return held_edges, sum(batches.edges.values())


PLANS = [GridPlan(algorithm=name, sizes=(4, 1, 1)) for name in ("shared", "1d", "1d-sparse")]
PLANS += [GridPlan(algorithm="3d", sizes=sizes) for sizes in ((1, 1, 4), (2, 2, 1), (2, 1, 2))]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_an_edge_takes_eight_bytes_both_ways(tmp_path, plan):
    layout = lay_out(random_graph(300, 6, seed=4), tmp_path, parts=4, method="random")
    found = in_threads(4, bytes_of_edges, layout, buffers(), plan)
    assert sum(taken for taken, _ in found) == 8 * sum(edges for _, edges in found) > 0


def test_covers_leave_the_edges_that_are_counted(tmp_path):
    """As integers, in each layer: edges of a trainer's block, and of the rows and sums that it sends."""
    layout = lay_out(random_graph(300, 6, seed=4), tmp_path, parts=4, method="random")
    levels = levels_of(layout.graph, layout.offsets, 3, whole=False)
    by_owner = edges_by_owner(layout, levels)
    for rank, found in enumerate(in_threads(4, edges_of_covers, layout, buffers())):
        for layer, edges in enumerate(found, start=1):
            covers = covers_of(layout.graph, levels, layer)
            left = by_owner[layer - 1, rank].sum() - covers.spared_PP[rank].sum()
            assert edges == (left, (covers.sent_PP + covers.spared_PP)[:, rank].sum())


def edges_of_covers(member, layout, shared):
    """Edges of the blocks of a trainer, and of what it sends before each."""
    plan = GridPlan(algorithm="1d-sparse", sizes=(4, 1, 1))
    batch = WholeStep(member, layout, shared, plan, 3, "sage-projected", partial_sums=True).gradients()[2]
    return [(len(batch.blocks[layer].indices), len(batch.blocks[layer].route.send_rows)) for layer in (1, 2, 3)]


@pytest.mark.parametrize(("parts", "method"), [(2, "deal"), (4, "random"), (4, "metis")])
def test_covers_are_found_in_the_memory_that_is_said(tmp_path, parts, method):
    graph = random_graph(10_000, 10, seed=3, features=1, weighted=True)
    layout = lay_out(graph, tmp_path, parts=parts, method=method)
    levels = levels_of(layout.graph, layout.offsets, 2, whole=True)
    others = remote_sources(layout.graph, levels, 2, 0)
    own, rows = int(levels.sizes[0, 1]), int(levels.sizes[0, 2])

    def places(level, rank=0):
        return places_among(levels.bounds, levels.sizes[:, level], levels.row_N, [rank])

    sources = places_in_list(places(1), others, own)
    ranges = [(int(levels.bounds[0]), int(levels.bounds[1]))]
    shard = read_shard(layout.graph, ranges, places(2), rows, sources, layout.graph.edge_weight)
    tracemalloc.start()
    try:
        Covered(shard, others, own, levels).left()
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = bytes_to_find(edges_by_owner(layout, levels)[1, 0], 0)
    assert 1 <= said / taken <= 1.3


def test_finding_covers_takes_most_where_rows_are_narrow(tmp_path):
    layout = lay_out(random_graph(2_000, 60, seed=3, features=1), tmp_path, parts=2, method="deal")
    flags = {"strategy": "full", "algorithm": "1d-sparse", "exchange": "auto", "evaluate": "none", "device": "cpu"}
    run = run_for(TrainConfig(layout=layout.path, out=tmp_path / "run", num_layers=2, hidden=1, **flags), 2)
    work = work_of(run, layout, levels_of(layout.graph, bounds_of(layout, 2), 2, whole=False), run.new_model())
    edges_P = work.by_owner[0, 0]
    least = 4 * int(edges_P.sum()) + bytes_to_find(edges_P, 0)
    assert private_peak(plan_of_run(run), work, 0) - work.process_bytes >= least > 40 * int(edges_P.sum())


@pytest.mark.parametrize("at_once", [1, 2, 7, 1000])
def test_pieces_are_bounded_and_complete(at_once):
    """Also where one vertex has more edges than fit, between vertices that have none."""
    indptr = np.cumsum([0, 0, 3, 0, 20, 1, 0, 0, 5, 0])
    seen = np.zeros(len(indptr) - 1, np.int64)
    edge = 0
    for piece in edge_pieces(indptr, 0, len(indptr) - 1, at_once):
        assert piece.edges.start == edge
        assert piece.edges.stop - edge == piece.counts.sum() <= at_once
        assert len(piece.counts) == piece.vertices.stop - piece.vertices.start <= at_once
        assert piece.begun == (len(piece.counts) > 0 and seen[piece.vertices.start] > 0)
        seen[piece.vertices] += piece.counts
        edge = piece.edges.stop
    assert seen.tolist() == np.diff(indptr).tolist()


def test_a_plan_that_does_not_fit_is_refused_with_one_that_does(layouts, tmp_path, monkeypatch):
    """Before any trainer: the launcher's start is not called, and nothing is left of the run."""
    monkeypatch.setattr("gsplit.launch.start.start", None)
    monkeypatch.setattr("gsplit.engine.whole.private_memory.private_bytes", lambda: 0)  # it changes all the time
    path = layouts(2).path
    config = config_for(path, tmp_path / "run", **FULL, gpus=2, algorithm="1d")
    priced = {price.plan.algorithm: price.host_bytes for price in priced_plans(resolve(config))}
    least, wanted = min(priced.values()), priced["1d"]
    assert least < wanted
    give_memory(monkeypatch, tmp_path, (least + wanted) // 2)
    with pytest.raises(InputError, match=line_with("--algorithm 1d, # KiB")):
        gsplit.train(config=config)
    give_memory(monkeypatch, tmp_path, least // 2)
    with pytest.raises(InputError, match="no plan fits"):
        gsplit.train(config=config)
    assert not (tmp_path / "run").exists()
