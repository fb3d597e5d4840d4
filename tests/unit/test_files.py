"""Files are whole or not there, also where writing fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from support.limits import largest_file
from support.messages import line_with

import gsplit
from gsplit import files
from gsplit.data.__main__ import info
from gsplit.data.exporters import export
from gsplit.errors import InputError
from gsplit.files import append_to_file, check_form, replace_file, replacing
from gsplit.report.api import write_page
from gsplit.runs import checkpoint
from gsplit.runs.log import RunLog


@pytest.mark.parametrize(
    ("write", "line"),
    [
        (lambda store, out: gsplit.report(store, out=f"{out}.json"), "config.json"),  # what is read comes first
        (lambda store, out: write_page([], Path(f"{out}.json")), "--out, rep.json, .json, .html"),
        (lambda store, out: export(store, "pyg", f"{out}.npz"), ".npz, --to pyg, .pt"),
        (lambda store, out: export(store, "npz", f"{out}.pt"), ".pt, --to npz, .npz"),
        (lambda store, out: info(store, html=Path(f"{out}.svg")), "--html, rep.svg, .svg, .html"),
    ],
)
def test_a_name_that_says_another_form_is_refused(tmp_path, write, line):
    with (
        gsplit.from_arrays(np.zeros((2, 1), int), x=[1.0]) as store,
        pytest.raises(InputError, match=line_with(line)),
    ):
        write(store.path, tmp_path / "rep")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["page", "page.html", "page.HTM", "page.v2", "page.json.old"])
def test_other_names_may_be_given(name):
    check_form(Path(name), (".html", ".htm"), "a page")


def test_a_file_that_cannot_be_written_is_what_it_was(tmp_path):
    replace_file(tmp_path / "file", b"before")
    with largest_file(1000), pytest.raises(InputError, match=line_with("file, File too large")):
        replace_file(tmp_path / "file", bytes(5000))
    assert (tmp_path / "file").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]


def test_what_fails_while_a_file_is_written_leaves_nothing(tmp_path):
    def write_half():
        with replacing(tmp_path / "file") as temporary:
            temporary.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert os.listdir(tmp_path) == []


def test_lines_that_cannot_be_written_are_not_there_by_half(tmp_path):
    append_to_file(tmp_path / "lines", b"a" * 900)
    with largest_file(1000), pytest.raises(InputError, match=line_with("lines, File too large")):
        append_to_file(tmp_path / "lines", b"b" * 900)
    assert (tmp_path / "lines").read_bytes() == b"a" * 900


def test_a_log_that_cannot_be_written_keeps_its_last_whole_line(tmp_path):
    log = RunLog(tmp_path)
    log.append([{"kind": "epoch", "epoch": 1}])
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with largest_file(len(before) + 5), pytest.raises(InputError, match=line_with("metrics.jsonl")):
        log.append([{"kind": "epoch", "epoch": 2}])
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def save(run, size, epoch):
    about = {
        "epoch": epoch,
        "batch": 0,
        "ahead": [],
        "trainers": 2,
        "store_checksum": "",
        "layout_checksum": "",
        "signature": {},
    }
    checkpoint.save_state(run, "checkpoint", {"w": torch.arange(float(size))}, about)


@pytest.mark.parametrize("fails", ["weights", "description"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, fails, monkeypatch):
    save(tmp_path, 100, epoch=1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if fails == "weights":
        with largest_file(10_000), pytest.raises(InputError, match=line_with("File too large")):
            save(tmp_path, 100_000, epoch=2)
    else:
        write = files.replace_file
        monkeypatch.setattr(
            checkpoint, "replace_file", lambda path, content: write(path, content) if path.suffix == ".pt" else fail()
        )
        with pytest.raises(InputError, match="no space"):
            save(tmp_path, 100_000, epoch=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert "after epoch 1, is whole" in checkpoint.whole(tmp_path)


def fail():
    raise InputError("no space")


def test_a_checkpoint_that_is_named_stays(tmp_path, monkeypatch):
    save(tmp_path, 10, epoch=1)
    synced = []

    def durable(path):
        synced.append(path)
        if synced.count(tmp_path) == 2:  # the folder's names, after the description was replaced
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "make_durable", durable)
    with pytest.raises(InputError, match="cannot write"):
        save(tmp_path, 20, epoch=2)
    assert len(checkpoint.load_state(tmp_path, "checkpoint")["w"]) == 20
