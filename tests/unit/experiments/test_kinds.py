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
    "links": {"shared", "baselines"},
    "types": {"shared"},
    "micro": {"shared", "links"},
    "kernels": {"shared"},
    "faults": {"shared"},
    "differential": {"shared"},
    "odd_numbers": {"shared"},
    "rules": {"shared", "baselines"},
    "model_host": {"shared"},
    "hosts": {"shared", "baselines", "compare"},
}
"""The kinds that each kind may import, beside itself."""


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def imported_kinds(path):
    return {module.split(".")[1] for module in imported(path) if module.startswith("experiments.")}


def test_every_package_is_a_kind():
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == ALLOWED.keys()
    assert [path.name for path in FOLDER.glob("*.py")] == ["__init__.py"]


def test_tools_import_experiments_and_not_the_reverse():
    for path in FOLDER.rglob("*.py"):
        assert not [module for module in imported(path) if module.split(".")[0] == "tools"], path


@pytest.mark.parametrize("kind", ALLOWED)
def test_files_are_few_and_short_and_import_what_they_may(kind):
    files = list((FOLDER / kind).glob("*.py"))
    assert 1 < len(files) <= (18 if kind == "shared" else 14)
    for path in files:
        assert len(path.read_text().splitlines()) <= 300, path
        assert imported_kinds(path) <= ALLOWED[kind] | {kind}, path
