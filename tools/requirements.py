"""What GSplit needs of others, a line each, as pip reads it: ``python -m tools.requirements dev pyg``.

pip cannot install what a package needs without building the package, and building it takes as long as all the rest.
``--pins`` gives the versions that the project was tested with, but PyTorch as it is installed already.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from tools.toml import tomllib

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
PINS = PROJECT.parent / "constraints.txt"
OF_PYTORCH = ("torch==", "triton==")
"""Beginnings of pins that belong to one version of PyTorch."""


def requirements(*extras: str) -> list[str]:
    """Requirements of the package itself, then of its extras, as pyproject.toml has them."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


def pins(installed: str) -> list[str]:
    """Lines of constraints.txt under which pip leaves PyTorch as it is.

    Args:
        installed: the version of PyTorch that is there.
    """
    lines = [line for line in PINS.read_text().splitlines() if not line.startswith("#")]
    if f"torch=={installed.partition('+')[0]}" not in lines:
        lines = [line for line in lines if not line.startswith(OF_PYTORCH)]
    return [f"torch=={installed}", *(line for line in lines if not line.startswith("torch=="))]


if __name__ == "__main__":
    asked = sys.argv[1:]
    print("\n".join(pins(importlib.metadata.version("torch")) if asked == ["--pins"] else requirements(*asked)))
