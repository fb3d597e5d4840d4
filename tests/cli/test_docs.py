"""docs/bring_your_own_model.md runs as it stands, and every command of an experiment that a document has parses."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import pool as pool_module
from support.models import HAS_DGL

from gsplit import cli
from gsplit.train.check.gradients import compare

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "bring_your_own_model.md"
DOCUMENTS = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "tools").glob("*.sh"), *(ROOT / "docs").rglob("*.md")]
DOCUMENTS.remove(ROOT / "docs" / "log.md")  # its commands are those of their day
MENTIONED = [
    found
    for document in DOCUMENTS
    for found in re.findall(r"-m (experiments[\w.]*)([^`\n|]*)", document.read_text().replace("\\\n", ""))
]
"""Modules that documents mention, each with the words after it."""
COMMANDS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for path in (ROOT / "experiments").rglob("*.py")
    if "cli.main(command)" in path.read_text()
)
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


OWN_PROCESSES = ("--out run-pyg", "python train_mine.py")
"""Ends of the commands that start processes of their own; for the others trainers of the pool do, or none."""


def move_to(member, folder):
    """Work in a folder, and find modules there, as a process does that is started in it."""
    os.chdir(folder)
    sys.path.insert(0, folder)


def check_in_trainer(member, spec):
    return compare(member, replace(spec, board=pool_module.SHARED.board))


def test_bring_your_own_model(tmp_path, monkeypatch, pool, in_pool, capsys):
    files = [text for kind, text in BLOCKS if kind == "python"]
    commands = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
    assert len(files) == 6
    assert len(commands) == 12
    for text in files:
        name = re.match(r"# (\w+\.py)\n", text)
        assert name, "a file says its name first"
        (tmp_path / name[1]).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pool.run(2, move_to, str(tmp_path))
    monkeypatch.setattr(
        "gsplit.train.check.gradients.start",
        lambda _, world, spec: SimpleNamespace(join=lambda: pool.run(world, check_in_trainer, spec)),
    )
    said = {}
    for command in commands:
        if "my_dgl" in command and not HAS_DGL:
            continue
        words = shlex.split(command)
        assert words[0] == "python"
        if words[1:3] == ["-m", "gsplit.train"]:
            words += ["--device", "cpu"]
        if command.endswith(OWN_PROCESSES):
            said[command] = run_apart(words[1:])
            continue
        with in_pool():
            importlib.import_module(f"{words[2]}.__main__").command(words[3:])
        said[command] = capsys.readouterr().out
    pool.run(2, move_to, str(ROOT))
    assert any("Net can be split" in text for text in said.values())
    assert any("the loss my_loss:margin is a sum over targets" in text for text in said.values())
    for run in ("run-pyg", "run-own", "run-loss", *(["run-dgl"] if HAS_DGL else [])):
        lines = next(text for command, text in said.items() if command.endswith(run))
        assert float(re.search(r"test accuracy (\d\.\d+)", lines)[1]) > 0.3  # of 4 classes
    assert float(said["python train_mine.py"].splitlines()[-1]) > 0.3
    classes = np.load(tmp_path / "classes.npy")
    assert len(classes) == 1000
    assert len(set(classes.tolist())) > 1


def run_apart(words):
    """What a command says that runs as a user runs it."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stderr}"
    return done.stdout


def test_the_first_screen_says_what_has_never_run_and_where_it_does_not_help():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    assert "Nothing of it has run on a GPU yet" in first_screen
    assert "It does not help everywhere" in first_screen


def test_every_experiment_is_mentioned():
    assert len(COMMANDS) >= 15
    assert {module for module, _ in MENTIONED} == set(COMMANDS)
    short = re.findall(r"`((?:paper|micro)\.\w+)`", (ROOT / "docs" / "results.md").read_text())
    assert {f"experiments.{name}" for name in short} < set(COMMANDS)


@pytest.mark.parametrize("module", COMMANDS)
def test_the_commands_of_an_experiment_parse(module, monkeypatch, capsys):
    """Experiments take minutes, so that their flags parse has to do."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # importing experiments.faults sets both
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    found = importlib.import_module(module)
    if hasattr(found, "__path__"):
        found = importlib.import_module(f"{module}.__main__")
    assert f"python -m {module}" == found.PROG
    names = {
        ast.unparse(node.args[0])
        for node in ast.walk(ast.parse(Path(found.__file__).read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "cli.parse"
    }
    config = getattr(found, names.pop())
    for mentioned, words in MENTIONED:
        if mentioned == module and "$" not in words:
            given = shlex.split(words, comments=True)
            cli.parse(config, given, prog=found.PROG, default=getattr(found, "QUICK", None))
    with pytest.raises(SystemExit) as end:
        found.command(["--help"])
    assert end.value.code == 0
    assert found.PROG in capsys.readouterr().out
