"""What is written is on the disk before it gets its name, and the name is before anything else is said or removed.

A machine that stops cannot be had in a test, so the order of the calls is looked at.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support import folders
from support.graphs import lay_out, random_graph

from gsplit import atomic_folder
from gsplit.data.exporters import export
from gsplit.files import replace_file
from gsplit.predict.output import VALUES, write_predictions
from gsplit.runs import checkpoint


class Calls(list):
    """("fsync", path), ("rename", path, path) and ("remove", path), in order; paths as they are at the time."""

    def synced_before_named(self, path: Path) -> None:
        """Whatever got this name was synced, then renamed to it, then the folder that holds the name was synced."""
        (named,) = (i for i, call in enumerate(self) if call[0] == "rename" and call[2] == path)
        assert ("fsync", self[named][1]) in self[:named], f"{path} was named before it was on the disk"
        assert ("fsync", path.parent) in self[named:], f"the name {path} is not on the disk"


@pytest.fixture(params=["the kernel exchanges", "the kernel refuses"])
def calls(request, monkeypatch):
    made = Calls()

    def recording(module, function, *kinds):
        real = getattr(module, function)

        def call(*arguments, **named):
            paths = (
                os.readlink(f"/proc/self/fd/{argument}") if isinstance(argument, int) else argument
                for argument in arguments
            )
            made.append((*kinds, *map(Path, paths)))
            return real(*arguments, **named)

        monkeypatch.setattr(module, function, call)

    recording(os, "fsync", "fsync")
    for function in ("replace", "rename"):
        recording(os, function, "rename")
    recording(shutil, "rmtree", "remove")
    if request.param == "the kernel refuses":
        monkeypatch.setattr(atomic_folder, "_renameat2", lambda *_: False)
    else:
        real = atomic_folder._renameat2
        monkeypatch.setattr(
            atomic_folder, "_renameat2", lambda *paths: made.append(("rename", *paths)) or real(*paths)
        )
    return made


def test_a_file_that_is_replaced(tmp_path, calls):
    replace_file(tmp_path / "file", b"content")
    calls.synced_before_named(tmp_path / "file")
    assert [call[0] for call in calls] == ["fsync", "rename", "fsync"]


def test_a_folder(tmp_path, calls):
    folders.write(tmp_path / "folder")
    calls.synced_before_named(tmp_path / "folder")
    (rename,) = (call for call in calls if call[0] == "rename")
    synced = [path for kind, path, *_ in calls[: calls.index(rename)] if kind == "fsync"]
    assert {path.name for path in synced if path.parent == rename[1]} == set(os.listdir(tmp_path / "folder"))


def test_a_folder_that_is_replaced_is_removed_last(tmp_path, calls):
    folders.write(tmp_path / "folder")
    calls.clear()
    folders.write(tmp_path / "folder", overwrite=True)
    calls.synced_before_named(tmp_path / "folder")
    last = [call[0] for call in calls[-4:] if call[1].name != atomic_folder.OLD]
    assert last[-3:] == ["rename", "fsync", "remove"]


def test_a_checkpoint_is_there_before_its_description_names_it(tmp_path, calls):
    checkpoint.save_state(tmp_path, checkpoint.MODEL, {"w": torch.zeros(1)}, {"signature": {}, "epoch": 1})
    (state,), description = tmp_path.glob("model-*.pt"), tmp_path / "model.json"
    for path in (state, description):
        calls.synced_before_named(path)
    named = [call[2] for call in calls if call[0] == "rename"]
    assert named == [state, description, tmp_path / "model.pt"]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv"])
def test_predictions(tmp_path, calls, suffix):
    folder = tmp_path / "temporary"
    folder.mkdir()
    np.save(folder / VALUES, np.arange(3))
    out = tmp_path / f"out{suffix}"
    write_predictions(out, folder, np.arange(3), np.arange(3), "classes", overwrite=False)
    calls.synced_before_named(out)


def test_an_exported_file(tmp_path, calls):
    store = lay_out(random_graph(20, 3), tmp_path, parts=1).path
    calls.clear()
    export(store, "npz", tmp_path / "graph.npz")
    calls.synced_before_named(tmp_path / "graph.npz")
