"""What holds for all code alike."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def test_no_code_names_a_folder_outside():
    files = [ROOT / "Makefile"]
    for folder in ("gsplit", "examples", "experiments", "tools", "tests"):
        files += (ROOT / folder).rglob("*.py")
    outside = "/".join(("..", "shared"))
    assert not [path for path in files if outside in path.read_text()]


def test_production_code_mocks_nothing():
    for path in (ROOT / "gsplit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                modules = [name.name for name in node.names]
            assert not any((module or "").startswith(("unittest", "pytest")) for module in modules), path


def test_random_numbers_of_other_devices_are_left_alone():
    """fork_rng without devices keeps and restores those of all, which takes memory of each; some kinds cannot.

    One module asks for the state of a device that it is given.
    """
    of_all = {f"{verb}_rng_state{all_}" for verb in ("get", "set") for all_ in ("", "_all")}
    of_all |= {"manual_seed_all", "seed_all"}
    for path in (ROOT / "gsplit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
            assert name not in of_all or path == ROOT / "gsplit" / "device" / "accelerator.py", path
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("fork_rng"):
                assert any(keyword.arg == "devices" for keyword in node.keywords), f"{path}, line {node.lineno}"


KIND = b"cuda"
MAY_NAME_IT = (
    *("gsplit/device/", "gsplit/config/parallel.py", "tools/"),
    *("tests/accelerator/", "tests/simulator/", "tests/unit/device/", "tests/unit/kernels/"),
    *("tests/support/devices.py", "tests/support/targets.py"),
    "experiments/kernels/emitted.py",
    *("tests/unit/test_cuda_dry.py", "tests/cli/test_commands_of_docs.py"),
    "tests/unit/test_habits.py",
    *("CHANGELOG.md", "CONTRIBUTING.md", "Makefile"),
)
"""Devices, the help of --device, tools, tests that need a kind or a tool by name, documents."""


def sources():
    """Every file of the repository that is no document: its path from there and its bytes."""
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in ("gsplit", "examples", "experiments", "partition", "tools", "tests", ".ci", ".github"):
        files += (
            path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix not in (".so", ".pyc")
        )
    return {str(path.relative_to(ROOT)): path.read_bytes() for path in files}


@pytest.mark.sources
def test_one_kind_of_gpu_is_named_where_it_must_be_and_nowhere_else():
    """Elsewhere code is of accelerators of any kind (:mod:`gsplit.device.accelerator`), and words are, too."""
    naming = {name for name, content in sources().items() if KIND in content.lower()}
    assert not {name for name in naming if not name.startswith(MAY_NAME_IT)}
    assert not {place for place in MAY_NAME_IT if not any(name.startswith(place) for name in naming)}
