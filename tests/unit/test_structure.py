"""Imports point inward (docs/architecture.md), and what samples or partitions does without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gsplit

PACKAGE = Path(gsplit.__file__).parent
ALLOWED = {
    "data": set(),
    "processes": set(),
    "runs": set(),
    "config": {"runs"},
    "sampling": {"data", "supply"},
    "supply": {"sampling", "data", "processes"},
    "partition": {"sampling", "data"},
    "parallel": {"sampling"},
    "features": {"sampling", "data"},
    "nn": {"parallel", "sampling", "data"},
    "models": {"nn", "config", "data", "processes", "runs"},
    "engine": {*("supply", "sampling", "features", "nn", "parallel", "models", "runs", "config", "data")},
    "launch": {"engine", "supply", "parallel", "processes", "models", "runs", "config", "data"},
    "train": {
        *("launch", "engine", "supply", "sampling", "features", "nn", "parallel", "processes"),
        *("models", "runs", "config", "data"),
    },
    "predict": {
        *("engine", "sampling", "features", "nn", "parallel", "processes"),
        *("models", "runs", "config", "data"),
    },
}
"""What each subpackage may import, beside itself and the modules at the top."""


def imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_point_inward(room):
    rooms = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").is_file()}
    assert rooms == set(ALLOWED)
    files = list((PACKAGE / room).rglob("*.py"))
    assert files
    for path in files:
        used = {name.split(".")[1] for name in imported(path) if name.startswith("gsplit.")}
        assert used & rooms <= ALLOWED[room] | {room}, path


@pytest.mark.parametrize("room", ["data", "partition", "sampling", "supply", "processes"])
def test_no_torch_where_it_is_not_needed(room):
    code = f"import sys, gsplit.{room}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
