"""The three forms of the file, and the names that are refused."""

from __future__ import annotations

import csv
import errno
import os

import numpy as np
import pytest
from support.messages import line_with

import gsplit
from gsplit.config.predict import PredictConfig
from gsplit.errors import InputError
from gsplit.predict import output
from gsplit.predict.output import make_probabilities

IDS = np.array([2**40, 0, 2**40])
VALUES = {
    "classes": np.array([3, 1, 3]),
    "logits": np.array([[0.1, -1e-30], [np.pi, 2], [0.1, 7]], np.float32),
    "embeddings": np.array([[1 / 3, 1e300], [0, 1], [2, 3]]),
}


def published(out, what):
    with output.temporary_folder(out, IDS) as folder:
        values = output.create_values(folder / output.VALUES, VALUES[what].shape, VALUES[what].dtype)
        values[:] = VALUES[what]
        output.write_predictions(
            out, folder, IDS, np.load(folder / output.VALUES, mmap_mode="r"), what, overwrite=False
        )
    assert os.listdir(out.parent) == [out.name]


def test_vertices_and_classes_are_called_by_their_names(tmp_path):
    (tmp_path / "e.csv").write_text('src,dst\n"a, b","say ""x"""\n')
    ids = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any").ids()
    names = output.NamesInOutput(ids=ids, classes=("ham, eggs", "spam"))
    asked = np.array([1, 0, 1])
    values = {"classes": np.array([1, 0, 1]), "probabilities": np.array([[0.25, 0.75], [1, 0], [0.5, 0.5]])}
    folder = tmp_path / "out"
    folder.mkdir()
    for what, array in values.items():
        for kind in (".csv", ".npz"):
            np.save(folder / output.VALUES, array)
            output.write_predictions(
                tmp_path / f"{what}{kind}", folder, asked, array, what, names=names, overwrite=False
            )
        with np.load(tmp_path / f"{what}.npz") as arrays:
            assert arrays["ids_id"].tolist() == ['say "x"', "a, b", 'say "x"']
            assert arrays["classes"].tolist() == ["ham, eggs", "spam"]
            assert arrays["vertices"].tolist() == asked.tolist()
    rows = [list(csv.reader((tmp_path / f"{what}.csv").open(newline=""))) for what in values]
    assert rows[0] == [["id", "class"], ['say "x"', "spam"], ["a, b", "ham, eggs"], ['say "x"', "spam"]]
    assert rows[1][:2] == [["id", "probability_ham, eggs", "probability_spam"], ['say "x"', "0.25", "0.75"]]


def test_ids_with_ends_of_lines_are_read_back(tmp_path):
    texts = ["one\rtwo", "three\nfour", "\r"]
    (tmp_path / "e.csv").write_text("src,dst\n" + "".join(f'"{text}",x\n' for text in texts), newline="")
    ids = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any").ids()
    asked = ids.find(texts, "here")
    np.save(tmp_path / output.VALUES, asked)
    names = output.NamesInOutput(ids=ids)
    output.write_predictions(tmp_path / "x.csv", tmp_path, asked, asked, "values", names=names, overwrite=False)
    with (tmp_path / "x.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "value"]
    assert rows == [[text, str(vertex)] for text, vertex in zip(texts, asked, strict=True)]


@pytest.mark.parametrize("several", [False, True])
def test_probabilities_are_those_of_logits(tmp_path, several):
    logits = np.random.default_rng(0).normal(size=(50, 4)) * 20
    np.save(tmp_path / "x.npy", logits)
    make_probabilities(tmp_path / "x.npy", several=several)
    powers = np.exp(logits - (0 if several else logits.max(axis=1, keepdims=True)))
    expected = powers / (1 + powers) if several else powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("what", VALUES)
def test_what_is_read_back_is_what_was_written(tmp_path, what):
    for kind in output.KINDS:
        out = tmp_path / kind / f"x{kind}"
        out.parent.mkdir()
        published(out, what)
    values = np.load(tmp_path / ".npy" / "x.npy")
    assert (values.dtype, values.tolist()) == (VALUES[what].dtype, VALUES[what].tolist())
    with np.load(tmp_path / ".npz" / "x.npz") as arrays:
        assert arrays["vertices"].tolist() == IDS.tolist()
        assert arrays["values"].tolist() == VALUES[what].tolist()
    header, *rows = csv.reader((tmp_path / ".csv" / "x.csv").open())
    column = output.COLUMNS[what]
    assert header == ["vertex", *([column] if values.ndim == 1 else [f"{column}_0", f"{column}_1"])]
    assert [int(row[0]) for row in rows] == IDS.tolist()
    again = np.array([row[1:] for row in rows]).astype(values.dtype)
    assert np.array_equal(again.reshape(values.shape), values)


@pytest.mark.parametrize(
    ("name", "overwrite", "message"),
    [
        ("x.txt", False, ".npy, .npz, .csv"),
        ("x", False, ".npy, .npz, .csv"),
        ("there.npy", False, "there.npy, --out, --overwrite"),
        ("folder.npy", True, "folder.npy"),
        ("link.npy", True, "link.npy"),
        ("missing/x.npy", False, "missing"),
        ("store/features.npy", True, "features.npy"),
    ],
)
def test_names_that_are_refused(tmp_path, name, overwrite, message):
    (tmp_path / "there.npy").write_text("years of work")
    for folder in ("folder.npy", "store"):
        (tmp_path / folder).mkdir()
    (tmp_path / "store" / "graph.json").write_text("{}")
    (tmp_path / "link.npy").symlink_to("there.npy")
    with pytest.raises(InputError, match=line_with(message)):
        output.check_out(tmp_path / name, overwrite=overwrite)
    output.check_out(tmp_path / "there.npy", overwrite=True)
    output.check_out(tmp_path / "new.npy", overwrite=False)


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.raises(InputError, match=line_with("24 bytes, No space left on device")),
        output.temporary_folder(tmp_path / "x.npy", IDS) as folder,
    ):
        output.create_values(folder / output.VALUES, (3,), np.int64)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"what": "labels"}, "--what, classes, values, probabilities, logits, embeddings, labels"),
        ({"layer": 1}, "--layer, --what embeddings, classes"),
        ({"what": "embeddings", "layer": 0}, "--layer, 1, 0"),
        ({"batch_size": 0}, "--batch-size, 1, 0"),
        ({"seed": "x"}, "--seed, x"),
        ({"fan_out": (3, 0)}, "--fan-out, 1, 0"),
        ({"fan_out": ("3",)}, "--fan-out, 3"),
    ],
)
def test_configurations_are_checked(change, message):
    with pytest.raises(InputError, match=line_with(message)):
        PredictConfig(run="a", layout="b", **change)


def test_levels():
    config = PredictConfig(run="a", layout="b", what="embeddings")
    assert [config.level(layers) for layers in (2, 3)] == [1, 2]
    with pytest.raises(InputError, match=line_with("one layer")):
        config.level(1)
    assert PredictConfig(run="a", layout="b", what="embeddings", layer=3).level(3) == 3
    assert PredictConfig(run="a", layout="b").level(3) == 3
