"""What holds for all code alike."""

from __future__ import annotations

import ast
from pathlib import Path

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
