"""Experiments lie in packages by kind, of few and short files, which import what is shared and not each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent.parent.parent / "experiments"
ALLOWED = {
    "shared": set(),
    "baselines": {"shared"},
    "paper": {"shared", "baselines"},
    "compare": {"shared", "baselines"},
    "ablation": {"shared", "baselines", "compare"},
    "full_graph": {"shared", "baselines"},
    "micro": {"shared"},
    "faults": {"shared"},
    "differential": {"shared"},
    "odd_numbers": {"shared"},
    "rules": {"shared"},
    "model_host": {"shared"},
}
"""The kinds that each kind may import, beside itself."""


def imported_kinds(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("experiments."):
            yield node.module.split(".")[1]


def test_every_package_is_a_kind():
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == ALLOWED.keys()
    assert [path.name for path in FOLDER.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("kind", ALLOWED)
def test_files_are_few_and_short_and_import_what_they_may(kind):
    files = list((FOLDER / kind).glob("*.py"))
    assert 1 < len(files) <= (16 if kind == "shared" else 12)
    for path in files:
        assert len(path.read_text().splitlines()) <= 300, path
        assert set(imported_kinds(path)) <= ALLOWED[kind] | {kind}, path
