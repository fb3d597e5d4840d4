"""Permuting in bounded memory, in pieces small enough that several are needed."""

from __future__ import annotations

import numpy as np
import pytest
from support.cgroups import give_memory
from support.graphs import random_graph
from support.messages import line_with, says

from gsplit.data import open_layout, open_store, write_store
from gsplit.data.graph import row_ranges
from gsplit.data.npy import forget
from gsplit.errors import InputError
from gsplit.partition import estimate, relabel
from gsplit.partition.__main__ import command


@pytest.mark.parametrize("shape", [(50, 7), (50,), (1, 3), (50, 0)])
@pytest.mark.parametrize("memory_rows", [1, 7, 50, 1000])
def test_windows_equal_a_plain_permutation(monkeypatch, shape, memory_rows):
    random = np.random.default_rng(0)
    rows = random.integers(0, 100, shape).astype(np.float32)
    order = random.permutation(len(rows))
    row_bytes = max(1, rows[:1].nbytes)
    monkeypatch.setattr(relabel, "BYTES_AT_ONCE", 3 * row_bytes)
    for pieces in (relabel.permuted(rows, order), relabel.permuted_by_windows(rows, order, memory_rows * row_bytes)):
        given = list(pieces)
        assert max(map(len, given)) <= max(3, memory_rows)
        np.testing.assert_array_equal(np.concatenate(given), rows[order])


@pytest.mark.parametrize("edges_at_once", [1, 10, 10**9])
def test_pieces_cover_all_rows_in_bounded_steps(edges_at_once):
    graph = random_graph(100, 5)
    pieces = list(row_ranges(graph.indptr, edges_at_once))
    assert [vertex for begin, end in pieces for vertex in range(begin, end)] == list(range(100))
    edges = [int(graph.indptr[end] - graph.indptr[begin]) for begin, end in pieces]
    assert all(end - begin <= edges_at_once for begin, end in pieces)
    assert all(count <= edges_at_once or end == begin + 1 for count, (begin, end) in zip(edges, pieces, strict=True))


def test_small_pieces_and_windows_give_the_same_layout(tmp_path, monkeypatch):
    graph = random_graph(300, 6, weighted=True, multi_label=True)
    write_store(tmp_path / "store", graph, name="test", source="test")
    source = open_store(tmp_path / "store")
    assignment = np.random.default_rng(0).integers(0, 3, 300).astype(np.int32)
    order = relabel.layout_order(assignment, np.bincount(graph.indices, minlength=300))
    about = {"method": "random", "weights": "uniform", "seed": 0, "hotness": "degree", "quality": {}}
    relabel.write_layout(tmp_path / "whole", source, [assignment], [order], 3, about)
    monkeypatch.setattr(relabel, "EDGES_AT_ONCE", 50)
    monkeypatch.setattr(relabel, "BYTES_AT_ONCE", 200)
    relabel.write_layout(tmp_path / "pieces", source, [assignment], [order], 3, about, memory=1000)
    whole, pieces = (open_layout(tmp_path / name, verify=True) for name in ("whole", "pieces"))
    assert whole.checksum == pieces.checksum


def test_forgotten_pages_come_back(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(10**5))
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    view = mapped[10:].reshape(-1, 2)
    before = view.sum()
    forget(view)
    assert view.sum() == before
    forget(np.arange(3))  # not mapped: nothing to do


@pytest.mark.parametrize(("available", "windows"), [(10**9, 0), (100, 100)])
def test_windows_are_part_of_the_estimate(monkeypatch, available, windows):
    graph = random_graph(300, 6)
    monkeypatch.setattr(estimate, "memory_for_rows", lambda: 10**12)
    least = estimate.estimate_of(graph).relabel
    monkeypatch.setattr(estimate, "memory_for_rows", lambda: available)
    assert estimate.estimate_of(graph).relabel == least + windows


def test_a_dry_run_says_what_does_not_fit(tmp_path, capsys, monkeypatch):
    write_store(tmp_path / "store", random_graph(300, 6), name="test", source="test")
    give_memory(monkeypatch, tmp_path, 1000)
    command([str(tmp_path / "store"), "--out", str(tmp_path / "layout"), "--dry-run"])
    says(capsys.readouterr().out, "--method metis, # KiB, 1000 B")


def test_a_dry_run_says_what_it_takes_and_writes_nothing(tmp_path, capsys):
    graph = random_graph(300, 6)
    write_store(tmp_path / "store", graph, name="test", source="test")
    flags = [str(tmp_path / "store"), "--parts", "2", "--out", str(tmp_path / "layout")]
    command([*flags, "--dry-run", "--method", "kaminpar", "--weights", "presample"])
    printed = capsys.readouterr().out
    for words in (
        "kaminpar, the best of 4 cuts, weights presample: nothing is written",
        "memory to partition",
        "memory to relabel",
        "disk for the layout",
        "disk for a while",
    ):
        assert words in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    graph.train_idx.resize(0, refcheck=False)
    write_store(tmp_path / "untrained", graph, name="test", source="test")
    with pytest.raises(InputError, match=line_with("training vertices")):
        command([str(tmp_path / "untrained"), *flags[1:], "--dry-run", "--hotness", "presample"])
    promised = estimate.estimate_of(open_store(tmp_path / "store").graph).layout
    command([*flags, "--method", "auto"])
    assert "2 parts by metis, weights uniform" in capsys.readouterr().out
    taken = sum(path.stat().st_size for path in (tmp_path / "layout").glob("*.npy"))
    assert promised == pytest.approx(taken, abs=128 * 9)  # but for the headers of the arrays
