"""What ``tools/gpu_check.sh`` needs and this Python lacks, on one line with the command that installs it.

Nothing but the standard library is imported here: anything else may be what is missing.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = {
    "gsplit._core": "gsplit",
    **{name: name for name in ("torch", "numpy", "psutil", "tqdm", "pymetis")},
    **{name: name for name in ("pytest", "xdist", "hypothesis", "torch_geometric")},
}
"""Modules that the parts import, and what each is called."""


def missing() -> list[str]:
    """Names of what is not there."""
    return [name for module, name in NEEDED.items() if not _is_there(module)]


def command(python: str, root: Path = ROOT) -> str:
    """What installs all of it: into the project's own environment by its Makefile, else by pip."""
    if Path(python).absolute() == (root / ".venv" / "bin" / "python").absolute():
        return f"make -C {root} .venv/.built .venv/.needs-dev"
    return f"{python} -m pip install '{root}[dev,pyg]'"


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


if __name__ == "__main__":
    if found := missing():
        sys.exit(f"error: {sys.executable} has no {', '.join(found)}: {command(sys.executable)}")
