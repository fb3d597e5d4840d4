"""``--keep``: old vertices stay in their parts, new ones come beside their neighbours, and what is printed of it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import random_graph
from support.messages import line_with, says

from experiments.shared import real_graphs
from gsplit import import_graph
from gsplit.data import GraphArrays, open_layout, open_store
from gsplit.data.importers.formats.npz import load_npz
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, methods, partition, quality
from gsplit.partition.__main__ import command
from gsplit.partition.methods import kept_parts
from gsplit.partition.problem import LEFT_OUT, Problem


def communities(n: int, count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Edges of n vertices, of which v is in community v % count: nine of ten stay inside."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, n, (2, 6 * n))
    inside = random.random(6 * n) < 0.9
    b = np.where(inside, b - b % count + a % count, b)
    return [(s, d) for s, d in zip(a.tolist(), b.tolist(), strict=True) if s != d and d < n]


def write_edges(path: Path, edges) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("src", "dst"), *edges])
    return path


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A folder with a store of 360 vertices in 4 communities, its layout, and the store grown to 400."""
    folder = tmp_path_factory.mktemp("grown")
    edges = communities(400, 4)
    old = [edge for edge in edges if max(edge) < 360]
    import_graph(write_edges(folder / "old.csv", old), folder / "old", num_vertices=360)
    partition(PartitionConfig(store=folder / "old", out=folder / "layout", parts=4))
    import_graph(folder / "old", folder / "new", add=write_edges(folder / "all.csv", edges), num_vertices=400)
    return folder


def parts_of(path: Path) -> np.ndarray:
    """[N] the part of each vertex."""
    layout = open_layout(path)
    part = np.empty(layout.graph.num_vertices, np.int64)
    part[layout.permutation] = np.repeat(np.arange(layout.parts), np.diff(layout.offsets))
    return part


def test_old_vertices_stay_and_new_ones_go_to_their_community(grown, tmp_path, capsys, caplog):
    command([str(grown / "new"), "--keep", str(grown / "layout"), "--out", str(tmp_path / "kept")])
    before, after = parts_of(grown / "layout"), parts_of(tmp_path / "kept")
    assert after[:360].tolist() == before.tolist()
    home = [np.bincount(before[np.arange(360) % 4 == each]).argmax() for each in range(4)]
    assert len(set(home)) == 4
    assert (after[360:] == np.array(home)[np.arange(360, 400) % 4]).mean() > 0.9
    layout = open_layout(tmp_path / "kept", verify=True)
    about, old = layout.description, open_layout(grown / "layout")
    assert (about["method"], about["cuts"], layout.parts) == ("keep", 1, 4)
    assert about["store"]["grown_from"] == [old.store_checksum]
    share = kept_parts.local_share(open_store(grown / "new").graph, after, 360)
    quality_before = old.description["quality"]
    assert about["kept"] == {
        "layout": old.checksum,
        "vertices": 360,
        **{name: quality_before[name] for name in ("local_edges", "balance_vertices", "balance_edges")},
        "balance_train_targets": 1.0,
        "new_local_edges": share,
        "cut_local_edges": quality_before["local_edges"],
        "cut_vertices": 360,
    }
    printed = capsys.readouterr().out
    says(printed, f"360 vertices, {quality_before['local_edges']:.4f}")
    says(printed, f"40 new vertices, {share:.4f}")
    says(printed, f"local edges {about['quality']['local_edges']:.4f}")
    assert not caplog.records


def test_parts_are_kept_again_and_the_last_cut_is_remembered(grown, tmp_path, caplog):
    # 100 more vertices, each with edges from everywhere: no part is right for them.
    random = np.random.default_rng(1)
    edges = np.stack([random.integers(0, 400, 2000), np.repeat(np.arange(400, 500), 20)], axis=1)
    import_graph(grown / "new", tmp_path / "newer", add=write_edges(tmp_path / "more.csv", edges.tolist()))
    partition(PartitionConfig(store=grown / "new", out=tmp_path / "kept", keep=grown / "layout", imbalance=0.1))
    assert not caplog.records
    measured = partition(PartitionConfig(store=tmp_path / "newer", out=tmp_path / "again", keep=tmp_path / "kept"))
    cut = open_layout(grown / "layout").description["quality"]["local_edges"]
    kept = open_layout(tmp_path / "again").description["kept"]
    assert (kept["cut_local_edges"], kept["cut_vertices"]) == (cut, 360)
    assert kept["new_local_edges"] < 0.5
    assert measured["local_edges"] < cut - 0.02
    says(caplog.text, f"{measured['local_edges']:.4f}, {cut:.4f}")
    says(caplog.text, "140 of 500, --keep")
    # Over two generations, and with nothing new at all.
    partition(PartitionConfig(store=tmp_path / "newer", out=tmp_path / "far", keep=grown / "layout"))
    assert (parts_of(tmp_path / "far")[:360] == parts_of(grown / "layout")).all()
    partition(PartitionConfig(store=grown / "old", out=tmp_path / "same", keep=grown / "layout"))
    assert open_layout(tmp_path / "same").checksum == open_layout(grown / "layout").checksum


def test_options_that_do_nothing_are_warned_of(grown, tmp_path, caplog):
    flags = {"keep": grown / "layout", "method": "streaming", "cuts": 3}
    partition(PartitionConfig(store=grown / "new", out=tmp_path / "kept", **flags))
    for line, flag in zip(caplog.messages, ("--method streaming", "--cuts, 3"), strict=True):
        says(line, flag, "--keep")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"store": "old", "keep": "of-new"}, "--keep, of-new, old"),
        ({"parts": 3}, "--parts, 3, layout, 4 parts, --keep"),
        ({"method": "parts.txt"}, "--method, parts.txt, --keep"),
        ({"keep": "old"}, "old, layout.json"),
        ({"keep": "damaged"}, "damaged"),
    ],
)
def test_what_cannot_be_kept_is_refused(grown, tmp_path, changes, message):
    if not (grown / "of-new").exists():
        partition(PartitionConfig(store=grown / "new", out=grown / "of-new", method="random"))
        partition(PartitionConfig(store=grown / "new", out=grown / "damaged", keep=grown / "layout"))
        described = json.loads((grown / "damaged" / "layout.json").read_text())
        described["kept"] = {}
        (grown / "damaged" / "layout.json").write_text(json.dumps(described))
    paths = {name: grown / value if isinstance(value, str) else value for name, value in changes.items()}
    config = {"store": grown / "new", "keep": grown / "layout", "out": tmp_path / "out", **paths}
    asked = PartitionConfig(**{**config, "method": str(config.get("method", "metis"))})
    with pytest.raises(InputError, match=line_with(message)):
        partition(asked)
    assert not list(tmp_path.iterdir())


def test_a_dry_run_says_what_it_would_do(grown, tmp_path, capsys):
    command([str(grown / "new"), "--keep", str(grown / "layout"), "--out", str(tmp_path / "kept"), "--dry-run"])
    says(capsys.readouterr().out, "4 parts, keep")


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30), st.sets(st.integers(0, 9)))
def test_the_edges_of_chosen_vertices(pairs, chosen):
    pairs = sorted(pairs, key=lambda pair: pair[1])
    graph = random_graph(10, 1)
    indptr = np.concatenate([[0], np.cumsum(np.bincount([d for _, d in pairs], minlength=10))])
    graph = replace(graph, indptr=indptr, indices=np.array([s for s, _ in pairs], np.int32))
    weight = np.arange(len(pairs), dtype=np.uint32)
    mask = np.isin(np.arange(10), sorted(chosen))
    starts, neighbours, weights = kept_parts.neighbours_of(graph, mask, weight)
    for vertex in range(10):
        row = slice(starts[vertex], starts[vertex + 1])
        wanted = [(s, w) for w, (s, d) in enumerate(pairs) if d == vertex]
        wanted += [(d, w) for w, (s, d) in enumerate(pairs) if s == vertex]
        found = list(zip(neighbours[row].tolist(), weights[row].tolist(), strict=True))
        assert found == (wanted if vertex in chosen else [])


def without_the_last(graph: GraphArrays, order: np.ndarray, n: int) -> GraphArrays:
    """The graph of the first n vertices of an order, numbered by it."""
    number = np.argsort(order)
    source = number[graph.indices]
    destination = np.repeat(number, np.diff(graph.indptr))
    inside = (source < n) & (destination < n)
    source, destination = source[inside], destination[inside]
    by = np.argsort(destination, kind="stable")
    train = number[graph.train_idx]
    nothing = np.empty(0, np.int64)
    return replace(
        graph,
        indptr=np.concatenate([[0], np.cumsum(np.bincount(destination, minlength=n))]).astype(np.int64),
        indices=source[by].astype(np.int32),
        features=None,
        labels=graph.labels[order[:n]],
        train_idx=np.sort(train[train < n]),
        valid_idx=nothing,
        test_idx=nothing,
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_that_is_placed_is_as_local_as_a_new_cut(real_data, seed):
    """The promise of docs/formats.md, on a real graph: a random tenth of the vertices is new."""
    whole = load_npz(real_graphs.path(real_data, "amazon_computers"))
    order = np.random.default_rng(seed).permutation(whole.num_vertices)
    n = whole.num_vertices
    old, new = (without_the_last(whole, order, count) for count in (n - n // 10, n))

    for parts in (2, 4, 8):

        def cut(method: str, graph: GraphArrays, parts=parts, given=None) -> tuple[np.ndarray, dict]:
            problem = Problem(graph=graph, parts=parts, targets=graph.train_idx, seed=seed, given=given)
            part = methods.assign(method, problem)
            return part, quality.quality_of(graph, [part], parts)

        before, _ = cut("metis", old)
        kept, placed = cut("keep", new, given=np.concatenate([before, np.full(n // 10, LEFT_OUT, np.int32)]))
        _, anew = cut("metis", new)
        assert (kept[: len(before)] == before).all()
        assert placed["local_edges"] > anew["local_edges"] - 0.02
        assert placed["balance_vertices"] < 1.035
