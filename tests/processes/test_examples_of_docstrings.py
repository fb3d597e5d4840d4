"""Every public function and class has an example of at most eight lines in its docstring, which works."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import os
from types import ModuleType

import numpy as np
import pytest
import torch
from support.libraries import needs_dgl

import gsplit
import gsplit.callbacks
import gsplit.data
import gsplit.nn
from gsplit.config.train import TrainConfig
from gsplit.partition.interface import api as partition_api
from gsplit.predict import api as predict_api
from gsplit.report import api as report_api
from gsplit.train import api as train_api

CALLED = {"partition": partition_api, "predict": predict_api, "report": report_api, "train": train_api}
"""Packages that can be called, and the modules of the functions behind them."""
N = 40
MOST_LINES = 8


def public():
    """Name -> function or class."""
    found = {"gsplit.TrainConfig.resuming": TrainConfig.resuming}
    for module in (gsplit, gsplit.nn, gsplit.callbacks, gsplit.data):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                value = getattr(CALLED[name], name)
            found[f"{module.__name__}.{name}"] = value
    return found


PUBLIC = public()
NAMES = [pytest.param(name, marks=needs_dgl) if name.endswith("from_dgl") else name for name in PUBLIC]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Has a cycle, its layout in two parts, and a run."""
    folder = tmp_path_factory.mktemp("examples")
    edges = np.array([np.arange(N), (np.arange(N) + 1) % N])
    kinds = np.arange(N) % 3
    sets = {"train": range(0, 20), "valid": range(20, 30), "test": range(30, N)}
    ids = {name: list(some) for name, some in sets.items()}
    gsplit.from_arrays(edges, np.eye(N), kinds, **ids, name="cycle", out=folder / "graph")
    gsplit.partition(str(folder / "graph"), str(folder / "layout"), parts=2, method="range")
    return folder


@pytest.fixture
def run(folder, in_pool, pool):
    """The run in that folder, made for the first example; trainers of the pool work there, too."""
    home = os.getcwd()
    pool.run(2, move_to, str(folder))
    if not (folder / "run").exists():
        config = TrainConfig(fan_out=(3, 3), hidden=8, epochs=1, out=folder / "run", device="cpu", threads=1)
        with in_pool():
            gsplit.train(str(folder / "layout"), config)
    yield
    pool.run(2, move_to, home)


def move_to(member, folder):
    os.chdir(folder)


def names_for(value):
    """The names that an example may use: those of its module, and of the imports that every page begins with."""
    module = importlib.import_module(value.__module__)
    names = {**vars(module), "gsplit": gsplit, "np": np, "torch": torch}
    with contextlib.suppress(AttributeError):
        names |= {name: getattr(gsplit.nn, name) for name in gsplit.nn.__all__ if name not in names}
    lines = doctest.DocTestParser().get_examples(inspect.getdoc(gsplit.nn.Block) or "")
    made = {"torch": torch, "Block": gsplit.nn.Block}
    for line in lines[:-1]:
        exec(line.source, made)
    return {**names, "block": made["block"]}


@pytest.mark.parametrize("name", NAMES)
def test_example(name, folder, run, in_pool, monkeypatch):
    monkeypatch.chdir(folder)
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert text.count("Examples:\n") == 1, f"{name} has no example"
    examples = text.partition("Examples:\n")[2].strip("\n").splitlines()
    assert 1 < len(examples) <= MOST_LINES
    test = doctest.DocTestParser().get_doctest(text, names_for(PUBLIC[name]), name, None, None)
    said: list[str] = []
    with in_pool():
        failed = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert failed.attempted > 0
    assert failed.failed == 0, "".join(said)


def test_help_has_no_examples(capsys):
    """They are of Python's use."""
    with pytest.raises(SystemExit):
        train_command(["--help"])
    assert ">>>" not in capsys.readouterr().out


def train_command(arguments):
    importlib.import_module("gsplit.train.__main__").command(arguments)
