"""Commands run as a user runs them, and folders to run them on."""

from __future__ import annotations

import functools
import hashlib
import importlib
import logging
import os
import shutil
import sys

import numpy as np
import pytest
from support.commands import python
from support.devices import hide

import gsplit
from gsplit import cli
from gsplit.data.__main__ import command as data
from gsplit.partition import PartitionConfig, partition


def contents(folder):
    """What is in a folder and below: path -> kind, or SHA-256 of a file."""
    return {
        str(path.relative_to(folder)): "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


def assert_one_error(code, stderr, before, after):
    assert "Traceback" not in stderr
    assert (code, stderr.count("\n")) == (2, 1), stderr
    assert stderr.startswith("error: ")
    assert after == before


@pytest.fixture(scope="session")
def gsplit_script(tmp_path_factory):
    """The ``gsplit`` command as pip writes it, also where this package was not installed."""
    script = tmp_path_factory.mktemp("bin") / "gsplit"
    script.write_text(
        "import sys\nfrom gsplit.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    return script


@pytest.fixture(scope="session")
def made(tmp_path_factory, in_pool):
    """Made once: store, other (another seed), layout, layout-other, run, and ids.npy with a vertex out of range."""
    folder = tmp_path_factory.mktemp("made")
    for name, seed in (("store", 0), ("other", 1)):
        data(["import", "synthetic:tiny", "--seed", str(seed), "--out", str(folder / name)])
    for store, layout in (("store", "layout"), ("other", "layout-other")):
        partition(PartitionConfig(store=folder / store, out=folder / layout, parts=2))
    config = gsplit.TrainConfig(out=folder / "run", epochs=1, hidden=4, fan_out=(3, 3), device="cpu", threads=1)
    with in_pool():
        gsplit.train(folder / "layout", config)
    np.save(folder / "ids.npy", np.array([1, 2, 1000]))
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """The working folder: a copy of ``made`` that a test may damage."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(place, refused_in):
    """refused("train", "layout", ...): run in this process; assert one line, code 2, nothing written; the line."""
    return functools.partial(refused_in, place)


@pytest.fixture
def refused_in(capsys, monkeypatch):
    """The same in a folder: refused_in(folder, "train", "layout", ...)."""
    # The suite's own logging stays as it is.
    monkeypatch.setattr(logging, "addLevelName", lambda *_: None)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(cli, "OURS", ())
    hide(monkeypatch)

    def run(place, command, *arguments):
        before = contents(place)
        monkeypatch.setattr(sys, "argv", ["gsplit", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main(importlib.import_module(f"gsplit.{command}.__main__").command)
        stderr = capsys.readouterr().err
        assert_one_error(stop.value.code, stderr, before, contents(place))
        return stderr

    return run


@pytest.fixture
def refused_process(place):
    """The same in a process of its own; keywords are environment variables."""

    def run(command, *arguments, **environment):
        before = contents(place)
        done = python("-m", f"gsplit.{command}", *arguments, cwd=place, env={**os.environ, **environment}, code=2)
        assert_one_error(done.returncode, done.stderr, before, contents(place))
        return done.stderr

    return run
