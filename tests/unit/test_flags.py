"""Every command has a table of its flags, and every experiment reads the flags it has."""

from __future__ import annotations

import ast
import importlib
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import gsplit
from experiments.shared.experiment import Flags

PACKAGE = Path(gsplit.__file__).parent
ROOT = Path(__file__).parent.parent
TABLES = {
    "data": "unit/data/test_flags_of_data.py",
    "doctor": "unit/doctor/test_flags_of_doctor.py",
    "partition": "unit/partition/test_flags_of_partition.py",
    "predict": "processes/test_flags_of_predict.py",
    "report": "processes/test_pages.py",
    "train": "processes/test_flags_of_train.py",
}
"""Command -> the test that goes through its flags."""
EXPERIMENTS = sorted(
    path for path in (ROOT.parent / "experiments").rglob("*.py") if "\ncommand = Experiment(" in path.read_text()
)


def test_every_command_has_a_table():
    assert {path.parent.name for path in PACKAGE.glob("*/__main__.py")} == TABLES.keys()
    assert all((ROOT / table).is_file() for table in TABLES.values())


def read(tree: ast.AST) -> set[str]:
    """Attributes that are read, but where configurations check themselves, and flags that are looked for as words."""
    match tree:
        case ast.FunctionDef(name="__post_init__"):
            return set()
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Compare(left=ast.Constant(value=str(name))):
            own = {name.removeprefix("--")}
        case _:
            own = set()
    return own.union(*map(read, ast.iter_child_nodes(tree)))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_an_experiment_reads_each_of_its_flags(path):
    """Experiments take minutes, so whether a flag is read has to do for whether it does something."""
    module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    flags = importlib.import_module(module).command.flags
    known = {field.name for field in fields(Flags)} | {"quick"}  # what every experiment reads alike
    places = {path, *(Path(sys.modules[each.__module__].__file__) for each in flags.__mro__[:-1])}
    around = {p for place in places for p in (place.parent.glob("*.py") if path.name == "__main__.py" else [place])}
    read_somewhere = set().union(*(read(ast.parse(p.read_text())) for p in around))
    assert {field.name for field in fields(flags)} - known <= read_somewhere
