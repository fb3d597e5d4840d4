"""A partition of the user's own: each vertex goes where the file says, and what is no partition is one line."""

from __future__ import annotations

import gzip
import logging

import numpy as np
import pytest
import torch
from support.graphs import random_graph
from support.messages import line_with, says

import gsplit
from gsplit.data import open_layout, open_store, write_store
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, dry_run, partition
from gsplit.partition.__main__ import command, read_recipe

N = 60


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "store"
    write_store(folder, random_graph(N, 6, seed=1), name="random", source="test")
    return folder


@pytest.fixture(scope="module")
def parts():
    """Three parts of unequal size."""
    return np.random.default_rng(0).choice(3, N, p=[0.2, 0.5, 0.3])


def parts_of(layout) -> list[int]:
    """The part of each global id."""
    part_of_layout_id = np.repeat(np.arange(layout.parts), np.diff(layout.offsets))
    return part_of_layout_id[np.argsort(layout.permutation)].tolist()


def as_npy(path, parts):
    np.save(path.with_suffix(".npy"), parts.astype(np.uint8))
    return path.with_suffix(".npy")


def as_column(path, parts):
    np.save(path.with_suffix(".npy"), parts[:, None])
    return path.with_suffix(".npy")


def as_of_metis(path, parts):
    path = path.with_name("graph.part.3")
    path.write_text("".join(f"{part}\n" for part in parts))
    return path


def with_header(path, parts):
    path = path.with_suffix(".csv.gz")
    path.write_bytes(gzip.compress(("part\n" + "\n".join(map(str, parts))).encode()))
    return path


def as_parquet(path, parts):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"part": parts}), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


@pytest.mark.parametrize("write", [as_npy, as_column, as_of_metis, with_header, as_parquet])
def test_each_vertex_goes_where_the_file_says(store, tmp_path, parts, write):
    file = write(tmp_path / "parts", parts)
    measured = partition(PartitionConfig(store=store, out=tmp_path / "layout", method=file))
    layout = open_layout(tmp_path / "layout", verify=True)
    assert parts_of(layout) == parts.tolist()
    assert (layout.parts, layout.description["method"], layout.description["file"]) == (3, "file", file.name)
    assert measured["vertices_per_part"] == np.bincount(parts).tolist()
    heat = np.bincount(open_store(store).graph.indices, minlength=N)[layout.permutation]
    for begin, end in zip(layout.offsets[:-1], layout.offsets[1:], strict=True):
        assert (np.diff(heat[begin:end]) <= 0).all()  # ordered as in any layout


def test_the_command_takes_the_number_of_parts_from_the_file(store, tmp_path, parts, capsys, caplog):
    caplog.set_level(logging.WARNING)
    file = as_of_metis(tmp_path / "parts", parts)
    flags = [str(store), "--method", str(file), "--out", str(tmp_path / "layout"), "--seed", "3"]
    command([*flags, "--dry-run"])
    says(capsys.readouterr().out, f"{store}, 3 parts, file, uniform")
    assert not (tmp_path / "layout").exists()
    command(flags)
    printed = capsys.readouterr().out
    says(printed, f"{tmp_path / 'layout'}, 3 parts, graph.part.3")
    assert "would balance" not in printed
    assert not caplog.messages
    command([*flags, "--overwrite", "--parts", "3"])
    assert parts_of(open_layout(tmp_path / "layout")) == parts.tolist()


def test_a_recipe_may_name_the_file(store, tmp_path, parts):
    file = as_npy(tmp_path / "parts", parts)
    (tmp_path / "own.toml").write_text(f'store = "{store}"\nout = "{tmp_path / "layout"}"\nmethod = "{file}"\n')
    partition(PartitionConfig(**read_recipe(tmp_path / "own.toml")))
    assert open_layout(tmp_path / "layout").parts == 3


def test_an_empty_part_gets_a_vertex_as_by_any_method(store, tmp_path, parts, caplog):
    file = as_npy(tmp_path / "parts", np.where(parts == 1, 3, parts))
    partition(PartitionConfig(store=store, out=tmp_path / "layout", method=file))
    layout = open_layout(tmp_path / "layout")
    assert np.diff(layout.offsets).tolist() == [(parts == 0).sum(), 1, (parts == 2).sum(), (parts == 1).sum() - 1]
    says(caplog.text, "part 1, part 3")


def test_flags_that_a_file_leaves_nothing_to_are_named(store, tmp_path, parts, caplog):
    file = as_npy(tmp_path / "parts", parts)
    config = PartitionConfig(
        store=store, out=tmp_path / "layout", method=file, weights="degree", imbalance=0.1, cuts=2
    )
    partition(config)
    for flag in ("--weights degree", "--imbalance, 0.1", "--cuts, 2"):
        says(caplog.text, flag, f"--method {file}")


def changed(parts, at, to):
    parts = parts.astype(np.int64)
    parts[at] = to
    return parts


MISTAKES = [
    (lambda parts: parts[:-1], {}, "parts.npy, 59, 60"),
    (lambda parts: changed(parts, 7, -1), {}, "parts.npy, entry 7, -1, 0"),
    (lambda parts: changed(parts, 7, 60), {}, "parts.npy, entry 7, 60"),
    (lambda parts: changed(parts, 7, 5), {"parts": 3}, "entry 7, 5, --parts, 3"),
    (lambda parts: parts, {"parts": 4}, "--parts, 4, parts.npy, 0 .. 2"),
    (lambda parts: parts / 1, {}, "parts.npy, float64, (60,)"),
    (lambda parts: np.stack([parts, parts], 1), {}, "parts.npy, int64, (60, 2)"),
    (lambda parts: np.array(["a", "b"]), {}, "parts.npy"),
]


@pytest.mark.parametrize(("change", "flags", "message"), MISTAKES)
def test_what_is_no_partition_of_this_store(store, tmp_path, parts, change, flags, message):
    np.save(tmp_path / "parts.npy", change(parts))
    for run in (partition, dry_run):
        with pytest.raises(InputError, match=line_with(message)):
            run(PartitionConfig(store=store, out=tmp_path / "layout", method=tmp_path / "parts.npy", **flags))
    assert [path.name for path in tmp_path.iterdir()] == ["parts.npy"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n1\ntwo\n" + "0\n" * 57, "graph.part.2, line 3, two"),
        ("0\n1\n0.5\n" + "0\n" * 57, "graph.part.2, line 3, 0.5"),
        ("part\n" + "1\n" * 59 + "-2\n", "graph.part.2, line 61, -2"),
        ("0 1\n" * 60, "graph.part.2, 2 columns"),
        ("", "graph.part.2"),
        ("part\n", "graph.part.2, 0, 60"),
        (None, "graph.part.2"),
    ],
)
def test_texts_that_are_no_partition(store, tmp_path, text, message):
    file = tmp_path / "graph.part.2"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=line_with(message)):
        partition(PartitionConfig(store=store, out=tmp_path / "layout", method=file))
    assert not (tmp_path / "layout").exists()


def test_a_method_that_there_is_not_is_told_from_a_missing_file(store, tmp_path):
    for name in ("kahip", "./kahip"):
        with pytest.raises(InputError, match=line_with("--method, auto, metis, kahip")):
            PartitionConfig(store=store, out=tmp_path / "layout", method=name)
    with pytest.raises(InputError, match=line_with("parts.npy")):
        partition(PartitionConfig(store=store, out=tmp_path / "layout", method="parts.npy"))


@pytest.mark.parametrize("kind", [torch.from_numpy])
def test_from_python_an_array_does(store, parts, kind):
    layout = gsplit.partition(store, method=kind(parts))
    assert parts_of(layout) == parts.tolist()
    assert layout.description["file"] == "array.npy"
    layout.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 1], "method, 2 parts, 60"),
        ([0.5] * N, "method, [N], float64"),
        ([[0], [1, 2]], "method, [N], object"),
        (object(), "method, [N], object"),
    ],
)
def test_from_python_a_mistake_is_one_line(store, given, message):
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.partition(store, method=given)
