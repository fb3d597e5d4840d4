"""Layouts keep every array, move it to the right place, and say truly how good the partition is."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.graphs import random_graph
from support.messages import line_with, says

from gsplit import _core
from gsplit.config.partition import MAX_SEED
from gsplit.data import open_layout, open_store, write_store
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, methods, partition
from gsplit.partition.__main__ import command, read_recipe
from gsplit.partition.presample import Training, presample
from gsplit.partition.problem import Problem
from gsplit.partition.weights import vertex_weights

METHODS, PARTS = ("metis", "kaminpar", "streaming", "deal", "random", "range"), (1, 2, 3, 4)
WEIGHTS = ("uniform", "degree", "presample")
SAMPLING = {"fan_out": (3, 3), "batch_size": 10}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A directed graph with double edges; every edge has a weight of its own."""
    graph = random_graph(60, 6, seed=1)
    graph = replace(graph, edge_weight=np.arange(graph.num_edges, dtype=np.float32))
    folder = tmp_path_factory.mktemp("store") / "store"
    write_store(folder, graph, name="random", source="test")
    return folder


@pytest.fixture(scope="module", params=list(product(METHODS, WEIGHTS, PARTS)), ids=lambda p: "-".join(map(str, p)))
def made(request, store, tmp_path_factory):
    """(parts, store's graph, layout, what partition returned)"""
    method, weights, parts = request.param
    out = tmp_path_factory.mktemp("layouts") / "layout"
    sampling = SAMPLING if weights == "presample" else {}
    config = PartitionConfig(store=store, out=out, parts=parts, method=method, weights=weights, **sampling)
    quality = partition(config)
    return parts, open_store(store), open_layout(out, verify=True), quality


def part_of_global(layout):
    part = np.empty(layout.graph.num_vertices, np.int64)
    for p in range(layout.parts):
        part[layout.permutation[layout.offsets[p] : layout.offsets[p + 1]]] = p
    return part


@pytest.mark.cases(24)
def test_every_vertex_is_in_one_part_and_no_part_is_empty(made):
    parts, store, layout, quality = made
    assert layout.parts == parts
    assert (layout.offsets[0], layout.offsets[-1]) == (0, store.graph.num_vertices)
    assert (np.diff(layout.offsets) > 0).all()
    assert np.diff(layout.offsets).tolist() == quality["vertices_per_part"]
    assert sorted(layout.permutation.tolist()) == list(range(store.graph.num_vertices))


@pytest.mark.cases(24)
def test_arrays_are_permuted_and_neighbours_keep_their_order(made):
    _, store, layout, _ = made
    old, new = store.graph, layout.graph
    assert new.num_edges == old.num_edges
    for v, g in enumerate(layout.permutation.tolist()):
        to, of = slice(*new.indptr[v : v + 2]), slice(*old.indptr[g : g + 2])
        assert layout.permutation[new.indices[to]].tolist() == old.indices[of].tolist()
        assert new.edge_weight[to].tolist() == old.edge_weight[of].tolist()
    np.testing.assert_array_equal(new.features, old.features[layout.permutation])
    np.testing.assert_array_equal(new.labels, old.labels[layout.permutation])
    assert (new.indices.dtype, new.features.dtype, new.num_classes) == (np.int32, np.float32, 3)
    for name in ("train", "valid", "test"):
        assert sorted(layout.permutation[new.vertex_set(name)].tolist()) == sorted(old.vertex_set(name).tolist())
        assert (np.diff(new.vertex_set(name)) > 0).all()


@pytest.mark.cases(24)
def test_hottest_first_within_each_part_then_by_global_id(made):
    _, store, layout, _ = made
    hotness = [store.graph.indices.tolist().count(g) for g in range(store.graph.num_vertices)]
    if layout.description["weights"] == "presample":
        training = Training(fan_out=SAMPLING["fan_out"], batch_size=SAMPLING["batch_size"])
        hotness = list(zip(presample(store.graph, training, epochs=3, seed=0).loaded.tolist(), hotness, strict=True))
    assert layout.description["hotness"] == ("presample" if isinstance(hotness[0], tuple) else "degree")
    for p in range(layout.parts):
        own = layout.permutation[layout.offsets[p] : layout.offsets[p + 1]].tolist()
        assert own == sorted(own, key=lambda g: (np.negative(hotness[g]).tolist(), g))


@pytest.mark.cases(24)
def test_quality_equals_a_count(made):
    parts, store, layout, quality = made
    graph, part = store.graph, part_of_global(layout)
    to = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr)).tolist()
    edges = list(zip(graph.indices.tolist(), to, strict=True))
    cut = sum(part[u] != part[v] for u, v in edges)
    amounts = {
        "vertices": [int((part == p).sum()) for p in range(parts)],
        "edges": [sum(part[v] == p for _, v in edges) for p in range(parts)],
        "train_targets": [sum(part[v] == p for v in graph.train_idx) for p in range(parts)],
    }
    assert quality["edge_cut"] == cut
    assert quality["local_edges"] == pytest.approx(1 - cut / len(edges))
    for name, amount in amounts.items():
        assert quality[f"{name}_per_part"] == amount
        assert quality[f"balance_{name}"] == pytest.approx(max(amount) * parts / sum(amount))
    assert layout.description["quality"] == quality
    assert layout.store_checksum == store.checksum


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_the_largest_seed(method):
    part = methods.assign(method, Problem(graph=random_graph(50, 3), parts=2, seed=MAX_SEED))
    assert set(part.tolist()) == {0, 1}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides(method, weighted):
    graph, random = random_graph(2000, 6, seed=1), np.random.default_rng(0)
    vertex_weight = random.integers(1, 9, 2000) if weighted else None
    edge_weight = random.integers(0, 9, graph.num_edges).astype(np.uint32) if weighted else None
    problem = Problem(graph=graph, parts=3, vertex_weight=vertex_weight, edge_weight=edge_weight, seed=5)
    first, again = (methods.assign(method, problem) for _ in range(2))
    assert (first == again).all()
    if method != "range":
        assert (methods.assign(method, replace(problem, seed=6)) != first).any()


def test_metis_finds_the_bridge(tmp_path):
    #  clique of 0, 2, 4, ... 14        clique of 1, 3, 5, ... 15        0 -- 1 is the only edge between them
    pairs = [(u, v) for u in range(16) for v in range(u) if u % 2 == v % 2] + [(0, 1)]
    sources, to = np.array(pairs).T.copy()
    indptr, indices = _core.csc_from_edges(sources, to, 16, True)
    graph = replace(random_graph(16, 1), indptr=indptr, indices=indices)
    write_store(tmp_path / "store", graph, name="cliques", source="test")
    cut = {}
    for method in METHODS:
        config = PartitionConfig(store=tmp_path / "store", out=tmp_path / method, parts=2, method=method)
        cut[method] = partition(config)["edge_cut"]
    assert cut["metis"] == cut["kaminpar"] == 2  # the bridge, in both directions
    assert min(cut["deal"], cut["random"], cut["range"]) > 20


@pytest.mark.parametrize("method", ["metis", "kaminpar", "streaming", "range"])
def test_degree_weights_balance_edges(method):
    # A clique of 0 .. 19 with the tail 19 -- 20 -- ... -- 99: most edges are in the clique.
    pairs = [(u, v) for u in range(20) for v in range(u)] + [(v, v + 1) for v in range(19, 99)]
    sources, to = np.array(pairs).T.copy()
    indptr, indices = _core.csc_from_edges(sources, to, 100, True)
    graph, degrees = replace(random_graph(100, 1), indptr=indptr, indices=indices), np.diff(indptr)
    largest = {}
    for weights in ("uniform", "degree"):
        problem = Problem(graph=graph, parts=2, vertex_weight=vertex_weights(graph, weights, None))
        assignment = methods.assign(method, problem)
        largest[weights] = np.bincount(assignment, weights=degrees).max() / degrees.sum()
    assert largest["degree"] < 0.6
    assert largest["uniform"] > 0.75


@pytest.mark.parametrize("method", METHODS)
def test_as_many_parts_as_vertices(tmp_path, tiny_graph, method):
    write_store(tmp_path / "store", tiny_graph(), name="tiny", source="test")
    config = PartitionConfig(store=tmp_path / "store", out=tmp_path / "layout", parts=5, method=method)
    assert partition(config)["vertices_per_part"] == [1, 1, 1, 1, 1]
    with pytest.raises(InputError, match=line_with("--parts, 6, 5")):
        partition(replace(config, out=tmp_path / "more", parts=6))


@pytest.fixture
def recipe(tmp_path, store):
    """recipe(text) writes a recipe in which STORE stands for the store, and returns its path."""

    def write(text):
        path = tmp_path / "recipe.toml"
        path.write_text(text.replace("STORE", f'"{store}"'))
        return path

    return write


def test_a_recipe_gives_the_flags(recipe, store, tmp_path):
    text = f'store = STORE\nout = "{tmp_path}/layout"\nparts = 3\nmethod = "random"\nseed = 7\noverwrite = true\n'
    assert PartitionConfig(**read_recipe(recipe(text + "fan-out = [5, -1]\n"))) == PartitionConfig(
        store=store, out=tmp_path / "layout", parts=3, method="random", seed=7, overwrite=True, fan_out=(5, -1)
    )


def test_our_own_recipes_can_be_read():
    recipes = sorted((Path(__file__).parents[3] / "partition").glob("*.toml"))
    assert [path.stem for path in recipes] == ["demo", "products"]
    assert {path.stem: read_recipe(path)["weights"] for path in recipes} == {
        "demo": "uniform",
        "products": "presample",
    }


def test_flags_override_the_recipe(recipe, tmp_path):
    path = recipe(f'store = STORE\nout = "{tmp_path}/recipe"\nparts = 3\nmethod = "range"')
    command([str(path), "--parts", "2", "--out", f"{tmp_path}/flag"])
    about = open_layout(tmp_path / "flag").description
    assert (about["parts"], about["method"]) == (2, "range")
    assert not (tmp_path / "recipe").exists()


def test_what_a_recipe_leaves_out_comes_as_a_flag(recipe, store, tmp_path):
    path = recipe("store = STORE\nparts = 2")
    with pytest.raises(InputError, match="--out"):
        command([str(path)])
    command([str(path), "--out", f"{tmp_path}/one"])
    command([str(recipe("parts = 2")), str(store), "--out", f"{tmp_path}/two"])
    assert [open_layout(tmp_path / name).parts for name in ("one", "two")] == [2, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store = STORE\nout = 'x'\npartz = 2", "partz"),
        ("store = STORE\nout = 'x'\nparts = 'many'", "--parts, many"),
        ("store = STORE\nout = 'x'\n[more]\nparts = 2", "more"),
        ("store = STORE\nout = 'x'\nhelp = true", "help"),
        ("store = ", "TOML"),
        ("out = 'x'", "store"),
    ],
)
def test_bad_recipes(recipe, text, message):
    with pytest.raises(InputError, match=line_with(message)):
        command([str(recipe(text))])


def test_how_many_cuts_are_made(store, tmp_path, monkeypatch, caplog):
    asked, assign = [], methods.assign
    monkeypatch.setattr(methods, "assign", lambda name, problem: asked.append(problem.cuts) or assign(name, problem))
    for made, flags in [
        (3, ("--method", "metis", "--cuts", "3")),
        (1, ("--method", "metis")),
        (4, ("--method", "metis", "--weights", "presample")),
        (2, ("--method", "kaminpar", "--weights", "presample", "--cuts", "2")),
        (1, ("--method", "kaminpar", "--cuts", "2", "--parts", "1")),
        (3, ("--method", "streaming", "--cuts", "3")),
        (4, ("--method", "deal")),
        (3, ("--method", "deal", "--cuts", "3")),
        (1, ("--method", "deal", "--parts", "1")),
        (1, ("--method", "range", "--cuts", "3")),
        (1, ("--method", "random", "--weights", "presample")),
    ]:
        layout = tmp_path / "-".join(flags)
        command([str(store), "--out", str(layout), "--parts", "2", *flags])
        assert open_layout(layout).description["cuts"] == asked.pop() == made
    says(caplog.text, "--cuts, 3, --method range")
    assert caplog.text.count("--cuts 3") == 1
    for cuts in (-1, 1001):
        with pytest.raises(InputError, match=line_with(f"--cuts, {cuts}, {0 if cuts < 0 else 1000}")):
            command([str(store), "--out", str(tmp_path / "no"), "--cuts", str(cuts)])


@pytest.mark.parametrize("method", ["deal", "random", "range", "streaming"])
def test_imbalance_is_for_those_who_look_for_a_cut(store, tmp_path, caplog, method):
    command([str(store), "--out", str(tmp_path / "layout"), "--method", method, "--imbalance", "0.1"])
    if method == "streaming":
        assert "--imbalance" not in caplog.text
    else:
        says(caplog.text, f"--imbalance, 0.1, --method {method}")


def test_no_more_threads_than_cores(store, tmp_path, monkeypatch, caplog):
    problems = []
    monkeypatch.setattr(methods, "assign", lambda name, problem: problems.append(problem) or np.arange(60) % 2)
    for threads in (0, 1, 200):
        partition(PartitionConfig(store=store, out=tmp_path / str(threads), parts=2, threads=threads))
    cores = len(os.sched_getaffinity(0))
    assert [problem.threads for problem in problems] == [cores, 1, cores]
    assert caplog.text.count("more than the") == 1
