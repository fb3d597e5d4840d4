"""Where the real graphs are: cora.npz and others, which are not part of the repository (CONTRIBUTING.md)."""

from __future__ import annotations

import os
from pathlib import Path

from gsplit.errors import InputError
from gsplit.toml import tomllib

ROOT = Path(__file__).parents[2]
VARIABLES = ("GSPLIT_DATA", "GSPLIT_TEST_DATA")
"""Environment variables that name the folder; the first that is set counts."""


def folder() -> Path:
    """The folder that an environment variable names, or else ``real-graphs`` in pyproject.toml; it may be missing."""
    for variable in VARIABLES:
        if os.environ.get(variable):
            return Path(os.environ[variable]).absolute()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["gsplit"]
    return (ROOT / settings["real-graphs"]).resolve()


def path(folder: Path, name: str) -> Path:
    """The file of a real graph.

    Raises:
        InputError: where it is not in the folder.
    """
    file = folder / f"{name}.npz"
    if not file.is_file():
        raise InputError(
            f"no {file.name} in {folder}; name the folder of the real graphs with --data or GSPLIT_DATA "
            "(CONTRIBUTING.md says where they come from)"
        )
    return file
