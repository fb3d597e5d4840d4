"""Formulas against sums over messages; counts against loops over edges; the commands on small graphs."""

from __future__ import annotations

import json
from itertools import pairwise
from itertools import product as every

import numpy as np
import pytest
from scipy import stats
from support.graphs import random_graph
from support.runs import config_for

from experiments.full_graph import __main__ as full_graph
from experiments.full_graph import balance, choice, covers, volumes, words
from experiments.full_graph.graphs import lattice
from experiments.full_graph.machines import PERLMUTTER, SUMMIT, sums_by_plexus
from experiments.full_graph.statements import CAGNET, PLEXUS, statements
from experiments.full_graph.volumes import needed_rows
from experiments.full_graph.words import Model, Move
from gsplit.engine.whole.plan_table import plan_of_run
from gsplit.train import plan_trials

BY_NAME = {model.name: model for model in PLEXUS}
PRODUCTS = BY_NAME["products"]
SMALL = Model(name="small", n=72 * 5, nnz=72 * 50, widths=(72, 144, 36))
GIB = 2**28
"""Words."""


def test_published_figures_of_the_papers():
    """Products, 100-128-128-47; what CAGNET's formulas print, worked out by hand."""
    n, nnz, both = PRODUCTS.n, PRODUCTS.nnz, 100 + 128 + 128 + 128 + 128 + 47
    small = 100 * 128 + 128 * 128 + 128 * 47
    assert words.cagnet_1d(PRODUCTS, 8, printed=True) == n * both + small
    assert words.cagnet_15d(PRODUCTS, 8, 2, printed=True) == n * both * (1 / 2 + 2 / 8) + small
    assert words.cagnet_2d(PRODUCTS, 4, printed=True) == 8 * n * (both / 2) / 2 + 3 * 2 * nnz / 2 + small
    assert words.cagnet_3d(PRODUCTS, 8, printed=True) == 12 * n * (both / 2) / 4 + 3 * 2 * nnz / 4 + small


def test_moves_of_2d_and_3d_are_each_matrix_along_its_axis():
    """Amazon on 8 x 8 and 4 x 4 x 4: what stands in CAGNET's algorithms, matrix by matrix."""
    amazon = CAGNET[1]
    inputs, outputs = (amazon.n * sum(pair[i] for pair in amazon.layers) for i in (0, 1))
    rows, columns, _ = words.moves_of_2d(amazon, 64)
    of_h, of_g, of_t, of_ag = inputs / 8, outputs / 8, inputs / 8, outputs / 8
    assert rows == (pytest.approx((6 * amazon.nnz / 8 + of_t + of_ag + of_h) * 7 / 8), 8, 1)
    assert columns == (pytest.approx((of_h + of_g + of_ag) * 7 / 8), 8, 8)
    rows, _, fibres, _ = words.moves_of_3d(amazon, 64)
    assert rows == (pytest.approx((6 * amazon.nnz + 2 * inputs + outputs) / 16 * 3 / 4), 4, 1)
    assert fibres == (pytest.approx((2 * inputs + 2 * outputs) / 16 * 3 / 4), 4, 16)


def test_groups_that_leave_a_node_share_its_links():
    assert [SUMMIT.rate(Move(1, 36 // c, c)) for c in (1, 2, 4)] == [12.5e9, 6.25e9, pytest.approx(12.5e9 / 3)]
    assert SUMMIT.rate(Move(1, 3, 2)) == 50e9
    assert SUMMIT.one_gpu_a_node.rate(Move(1, 9, 4)) == 12.5e9
    # Plexus, equation 4.6: along Z, over nodes, as many share as there are GPUs in X and Y, a node's at most.
    assert [PERLMUTTER.rate(Move(1, 8, xy)) for xy in (1, 2, 4, 16)] == [1e11, 5e10, 2.5e10, 2.5e10]
    assert PERLMUTTER.seconds([Move(5e9, 2, 2), Move(5e9, 1, 1)]) == pytest.approx(0.2)


def test_plexus_finds_the_shape_slow_that_it_measured_slow():
    """Its table 2: of 64 GPUs, U = (64, 1, 1) and V = (1, 64, 1) of equal work; V's rows are too narrow."""
    first = Model(name="products", n=PRODUCTS.n, nnz=PRODUCTS.nnz, widths=(100, 128))
    assert sums_by_plexus(first, (1, 64, 1)) > 2 * sums_by_plexus(first, (64, 1, 1))
    root = (first.nnz * 100 / 8) ** 0.5
    by_hand = 7.8e-4 * root + 7.8e-10 * root * first.n / 2 * 2 / 100 - 2.6e-10 * root * first.n / 2 * 2 / 100
    assert sums_by_plexus(first, (2, 2, 2)) == pytest.approx(by_hand / 1000)


def test_statements_of_the_papers():
    rows = statements()
    held = {row["said"]: row["holds"] for row in rows}
    assert {row["figure"] for row in rows} == {
        *("CAGNET 1", "CAGNET 2", "CAGNET 3", "Plexus 5", "Plexus 9", "Plexus 10", "ScaleGNN 7")
    }
    assert held["1 GPU a node: they take nearly 1/c of the time"] == "yes"
    assert held["products, 64 GPUs: 3D beats 2D beats 1D"] == "yes"
    assert set(held.values()) == {"yes", "no"}


def test_ours_receives_a_sixth_of_1d_and_a_quarter_of_plexus():
    row = volumes.formula_row(PRODUCTS, 8)
    assert row["of_1d"] >= 6
    assert row["of_plexus"] >= 4
    assert row["cagnet_1d"]["moved"] == pytest.approx(5.26, abs=0.005)
    assert row["cagnet_15d"]["printed"] == pytest.approx(4.51, abs=0.005)
    assert row["cagnet_3d"]["printed"] == pytest.approx(9.72, abs=0.005)
    assert (row["plexus"], row["plexus_grid"]) == (pytest.approx(3.13, abs=0.005), "2x2x2")
    assert (row["ours"], row["ours_first_sum_moved"]) == (
        pytest.approx(0.70, abs=0.005),
        pytest.approx(0.90, abs=0.005),
    )
    # Of edges on 2x1x4: two products of each of two layers, 3/4 of half of A.
    moving = words.ours(PRODUCTS, (2, 1, 4), graph_moves=True) - words.ours(PRODUCTS, (2, 1, 4))
    assert moving == pytest.approx(2 * 2 * PRODUCTS.nnz / 2 * 3 / 4)
    assert row["ours"] < row["ours_graph_moves"] < row["cagnet_3d"]["moved"]
    reddit, papers = (volumes.formula_row(BY_NAME[name], 8) for name in ("reddit", "papers100M"))
    assert (reddit["plexus"], reddit["plexus_grid"]) == (pytest.approx(0.53, abs=0.005), "1x4x2")
    assert (papers["plexus"], papers["ours"]) == (pytest.approx(155, abs=0.5), pytest.approx(46.3, abs=0.05))


def received(width: int, grid: tuple[int, int, int], n: int) -> list[int]:
    """Words that each rank of a grid receives in one product: which entries it has after each move and not before.

    Rank (i, j, m) owns the rows of (i, j, m) at rest. Row set i is the rows of its ranks, column set j likewise; the
    columns of slice m of the matrix are those that rank (., ., m) computes.
    """
    r, k, f = grid
    ranks = list(every(range(r), range(k), range(f)))
    rows_of = dict(zip(ranks, np.array_split(np.arange(n), len(ranks)), strict=True))
    slices = np.array_split(np.arange(width), f)

    def entries(rows, columns):
        return {
            (row, column) for row in np.concatenate([*rows, np.empty(0, int)]).tolist() for column in columns.tolist()
        }

    totals = []
    for i, j, m in ranks:
        own = entries([rows_of[i, j, m]], np.arange(width))
        fibre = entries([rows_of[i, j, c] for c in range(f)], slices[m])
        contracted = entries([rows_of[a, j, c] for a in range(r) for c in range(f)], slices[m])
        total = len(fibre - own) + len(contracted - fibre)
        # Reduce-scatter: every other rank of the K group sends its partial sums of what this one keeps.
        total += (k - 1) * len(fibre)
        totals.append(total + len(own - fibre))
    return totals


@pytest.mark.parametrize("grid", [grid for p in (1, 2, 4, 6, 8) for grid in words.factorisations(p)])
def test_ours_is_what_the_ranks_receive(grid):
    n, width = 96, 24
    (each,) = set(received(width, grid, n))
    assert each == pytest.approx(words.product(n, width, grid))


def test_1d_and_columns_are_grids():
    """A product of n x w: 1D receives n w (P-1)/P, columns twice that over P."""
    assert words.product(100, 8, (4, 1, 1)) == 100 * 8 * 3 / 4
    assert words.product(100, 8, (1, 1, 4)) == 2 * 100 * 8 * 3 / 16
    assert words.cagnet_1d(SMALL, 4) == pytest.approx(
        sum(words.product(SMALL.n, a + b, (4, 1, 1)) for a, b in SMALL.layers) + 2 * SMALL.weights * 3 / 4
    )
    # 1.5D without replicating A or H is the grid (P/c, c, 1): n w (1/c + c/P - 2/P).
    assert words.product(100, 8, (4, 2, 1)) == pytest.approx(100 * 8 * (1 / 2 + 2 / 8 - 2 / 8))


def test_ours_never_receives_more_than_plexus_on_its_grid():
    model = Model(name="equal", n=1000, nnz=1, widths=(64, 64, 64, 64))
    for processes in (2, 4, 8, 12, 64):
        for r, k, f in words.factorisations(processes):
            ours = words.ours(model, (r, k, f), first_sum_kept=False)
            assert ours <= words.plexus(model, (k, f, r)) + 1e-6 + words.all_reduced(model.weights, processes)


def plexus_by_hand(widths, grid, n):
    """Algorithms 1 and 2 line by line, sizes of shards from the axes that they are sharded over."""
    size = dict(zip("xyz", grid, strict=True))
    ring = {axis: (g - 1) / g for axis, g in size.items()}
    total = 0.0
    for layer, (d, e) in enumerate(pairwise(widths)):
        x, y, z = ("xyz", "zxy", "yzx")[layer % 3]
        feature_shard, h_shard = n * d / size[x] / size[y], n * d / size[z] / size[y]
        q_shard, weight_shard = n * e / size[z] / size[x], d * e / size[y] / size[x]
        total += 2 * ring[x] * h_shard + 2 * ring[y] * q_shard + ring[z] * weight_shard  # algorithm 1
        total += 2 * ring[z] * weight_shard + 2 * ring[x] * h_shard  # algorithm 2
        total += (1 + 1 if layer == 0 else 2) * ring[z] * feature_shard  # gather, reduce-scatter; or all-reduce
    return total


@pytest.mark.parametrize("grid", list(words.factorisations(12)))
def test_plexus_is_its_algorithms(grid):
    widths = (100, 128, 128, 47)
    assert words.plexus(PRODUCTS, grid) == pytest.approx(plexus_by_hand(widths, grid, PRODUCTS.n))
    assert words.plexus(PRODUCTS, grid, train_features=False) <= words.plexus(PRODUCTS, grid)


def summa_received(model: Model, r: int) -> float:
    """Mean words of 2D: every stage is a broadcast of one block, which all but its owner receive."""
    total = 0.0
    for d, e in model.layers:
        for height, width, entries in [
            (model.n, model.n, model.nnz),
            *((model.n, w, model.n * w) for w in (d, d)),
            (model.n, model.n, model.nnz),
            *((model.n, w, model.n * w) for w in (e, e)),
            *((model.n, w, model.n * w) for w in (d, e)),
        ]:
            assert height * width >= entries
            total += (
                r * (r - 1) * r * (entries / r**2) / r**2
            )  # stages x receivers in r groups, a block each, per rank
        total += d * e * (r * r - 1) / (r * r)
    return total


def test_2d_is_its_broadcasts():
    assert words.cagnet_2d(SMALL, 9) == pytest.approx(summa_received(SMALL, 3))


def test_grids_that_are_none():
    for formula, processes in ((words.cagnet_2d, 8), (words.cagnet_3d, 4)):
        with pytest.raises(ValueError, match="are no"):
            formula(SMALL, processes)
    assert words.best_c(SMALL, 6) is None
    row = volumes.formula_row(SMALL, 6)
    assert row["cagnet_2d"] == row["cagnet_3d"] == row["cagnet_15d"] == {"printed": None, "moved": None}
    assert sorted(words.factorisations(4)) == [(1, 1, 4), (1, 2, 2), (1, 4, 1), (2, 1, 2), (2, 2, 1), (4, 1, 1)]
    assert words.best_ours(Model(name="narrow", n=10, nnz=1, widths=(4, 2, 2)), 8)[1][2] <= 2


@pytest.mark.parametrize("grid", [(4, 1, 1), (1, 4, 1), (2, 2, 1), (2, 1, 2)])
def test_rows_and_sums_of_grids_are_those_of_a_loop_over_the_edges(grid):
    """And by covers never more; on a grid of rows or columns alone as many as for the pairs of parts."""
    graph = random_graph(60, 4, seed=2)
    part = np.random.default_rng(0).integers(0, 4, 60).astype(np.int32)
    rows, sums = set(), set()
    for destination in range(60):
        for source in graph.indices[graph.indptr[destination] : graph.indptr[destination + 1]]:
            (q, k), (r, p) = (divmod(part[v] // grid[2], grid[1]) for v in (source, destination))
            rows |= {(source, r)} if q != r else set()
            sums |= {(destination, k)} if p != k else set()
    needed, covered = covers.moved(covers.ends_of(graph), part // grid[2], grid)
    assert needed == len(rows) + len(sums)
    assert covered < needed
    pairs = covers.cover_row("random", graph, part, 4)
    assert pairs["as_matched"] == pairs["pairs"] == 12
    if grid[2] == 1 and 1 in grid[:2]:
        assert covered == pairs["covers"]
    if grid == (4, 1, 1):
        assert needed == pairs["needed"]
    row = next(row for row in covers.grid_rows("random", graph, part, pairs) if row["grid"] == "2x2x1")
    assert row["covers"] < row["needed"] < row["dense"] == pytest.approx(2 / 3)


def test_needed_rows_are_those_of_a_loop_over_the_edges():
    graph = random_graph(90, 5, seed=4)
    part = np.random.default_rng(0).integers(0, 4, 90).astype(np.int32)
    wanted = np.zeros((4, 4), np.int64)
    sources = {p: set() for p in range(4)}
    for v in range(90):
        sources[part[v]].update(graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist())
    for p, needed in sources.items():
        for u in needed:
            wanted[p, part[u]] += part[u] != p
    assert (needed_rows(graph, part, 4) == wanted).all()
    row = volumes.needed_row("random", graph, 4, {"random": wanted})
    assert row["random_worst"] == pytest.approx(wanted.sum(axis=1).max() / (90 * 3 / 4))
    assert row["columns"] == 0.5
    # Widths 5, 16, 3: only the second product moves, 3 numbers a row, forward and backward.
    sparse = volumes.sparse_row("random", graph, 4, wanted)
    assert sparse["worst_words"] == 3 * max(wanted[p].sum() + wanted[:, p].sum() for p in range(4))
    assert sparse["cagnet_1d_words"] == 90 * (5 + 16 + 16 + 3) * 3 / 4


def test_plexus_table_3_follows_from_its_table_4():
    """(108.1M / 64 + 50.9M / 8) / (159.0M / 64): loops, not clusters, make its single permutation uneven."""
    edges = balance.OSM_NONZEROS - balance.OSM_VERTICES
    assert edges == 2 * balance.OSM_EDGES
    assert round(balance.single_expected(balance.OSM_VERTICES, edges, 8), 2) == 3.24
    (published,) = (row["ratio"] for row in balance.PLEXUS if row["permutation"] == "single")
    assert published == 3.24


def test_balance_of_a_lattice():
    """In order all edges lie in the diagonal blocks but those of the rows between; permuted, all blocks are alike."""
    graph = lattice(120)
    row = balance.balance_row("lattice", graph, 8, 2)
    assert 7.8 < row["original"] < 8.2
    assert row["single"] == pytest.approx(1.1, abs=0.1)
    assert row["single_with_loops"] == pytest.approx(row["single_expected_with_loops"], rel=0.06)
    assert row["double_with_loops"] == pytest.approx(1.1, abs=0.1)
    assert row["dealt"] <= row["dealt_worst"] < row["single"]
    assert row["dealt_rows"] < 1.002
    assert graph.num_edges / graph.num_vertices == pytest.approx(2.12, abs=0.03)


def test_loops_of_the_graph_are_apart():
    graph = random_graph(60, 6, seed=2)
    loops = sum(v in graph.indices[graph.indptr[v] : graph.indptr[v + 1]] for v in range(60))
    assert loops
    row = balance.balance_row("random", graph, 2, 1)
    assert row["edges"] < graph.num_edges
    part = balance.ranges(60, 2)
    edges = balance.block_edges(graph, part, part, 2)
    assert edges.sum() == row["edges"]
    assert (balance.with_a_loop_each(edges, part, part, 2) - edges).tolist() == [[30, 0], [0, 30]]


def test_the_choice_is_held_against_all_plans(layouts, tmp_path, monkeypatch):
    """Plans that take 1, 2, 3 .. s in rounds, and of which a trial finds the second the quickest."""
    asked = []

    def of_rounds(runs, start_s):
        asked.append([plan_of_run(run) for run in runs])
        first = asked[0]
        return [1.0 + first.index(plan) + len(asked) for plan in asked[-1]]

    monkeypatch.setattr(choice, "seconds_of", of_rounds)
    monkeypatch.setattr(plan_trials, "seconds_of", lambda runs, start_s: [3.0, 1.0, 2.0])
    flags = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "epochs": choice.EPOCHS}
    rows, found = choice.of_run(config_for(layouts(2).path, tmp_path / "run", **flags), rounds=2)
    assert asked[1] == asked[0][::-1]
    assert [row["measured_s"] for row in rows] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert [row["tried_s"] for row in rows] == [3.0, 1.0, 2.0, None, None]
    assert found["chosen"] == rows[1]["plan"] != found["best"] == rows[0]["plan"]
    assert (found["regret"], found["regret_without_trials"], found["spread"]) == (1.5, 1.0, 3.0)
    assert found["rank_correlation"] == 1.0


def test_rank_correlation_is_spearmans():
    first, second = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 4.0, 5.0, 3.0]
    assert choice.rank_correlation(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)


def test_commands(real_data, tmp_path, capsys):
    for name, tables in (
        ("words", {"formulas", "statements", "needed", "sparse", "covers", "grids"}),
        ("balance", {"blocks", "paper", "settings"}),
    ):
        path = tmp_path / f"{name}.json"
        full_graph.command([f"--{name}", "--quick", "--json", str(path), "--data", str(real_data)])
        assert json.loads(path.read_text()).keys() == tables
        assert "| products |" in capsys.readouterr().out or name == "balance"
