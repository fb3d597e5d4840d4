"""The three forms of the file, and the names that are refused."""

from __future__ import annotations

import csv
import errno
import os

import numpy as np
import pytest

from gsplit.config.predict import PredictConfig
from gsplit.errors import InputError
from gsplit.predict import output

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
        output.publish(out, folder, IDS, np.load(folder / output.VALUES, mmap_mode="r"), what, overwrite=False)
    assert os.listdir(out.parent) == [out.name]


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
        ("x.txt", False, "must end in .npy, .npz or .csv"),
        ("x", False, "must end in"),
        ("there.npy", False, "there.npy exists already; choose another --out or add --overwrite"),
        ("folder.npy", True, "folder.npy is no plain file"),
        ("link.npy", True, "link.npy is no plain file"),
        ("missing/x.npy", False, "the folder .*missing does not exist"),
        ("store/features.npy", True, "lies in a graph store or layout"),
    ],
)
def test_names_that_are_refused(tmp_path, name, overwrite, message):
    (tmp_path / "there.npy").write_text("years of work")
    for folder in ("folder.npy", "store"):
        (tmp_path / folder).mkdir()
    (tmp_path / "store" / "graph.json").write_text("{}")
    (tmp_path / "link.npy").symlink_to("there.npy")
    with pytest.raises(InputError, match=message):
        output.check_out(tmp_path / name, overwrite=overwrite)
    output.check_out(tmp_path / "there.npy", overwrite=True)
    output.check_out(tmp_path / "new.npy", overwrite=False)


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.raises(InputError, match=r"cannot write 24 bytes to .*: No space left on device"),
        output.temporary_folder(tmp_path / "x.npy", IDS) as folder,
    ):
        output.create_values(folder / output.VALUES, (3,), np.int64)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"what": "labels"}, "--what must be one of classes, values, logits, embeddings, not 'labels'"),
        ({"device": "gpu"}, "--device must be one of"),
        ({"layer": 1}, "--layer is for --what embeddings, not for classes"),
        ({"what": "embeddings", "layer": 0}, "--layer must be at least 1, not 0"),
        ({"batch_size": 0}, "--batch-size must be at least 1"),
        ({"seed": "x"}, "--seed must be a whole number, not 'x'"),
        ({"fan_out": (3, 0)}, "--fan-out takes numbers from 1 on"),
        ({"fan_out": ("3",)}, "--fan-out takes whole numbers, not '3'"),
    ],
)
def test_configurations_are_checked(change, message):
    with pytest.raises(InputError, match=message):
        PredictConfig(run="a", layout="b", **change)


def test_levels():
    config = PredictConfig(run="a", layout="b", what="embeddings")
    assert [config.level(layers) for layers in (2, 3)] == [1, 2]
    with pytest.raises(InputError, match="has one layer, so no hidden one"):
        config.level(1)
    assert PredictConfig(run="a", layout="b", what="embeddings", layer=3).level(3) == 3
    assert PredictConfig(run="a", layout="b").level(3) == 3
