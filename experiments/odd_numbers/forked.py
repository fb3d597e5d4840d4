"""Commands in processes of their own, forked from one that has imported everything, and so are their trainers.

A command takes a fraction of a second then. The process that forks must have one thread, so it leaves all work to its
children.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from experiments.shared.processes import call_command, import_all, run_forked

LIMIT_S = 90.0
"""Limit of one command; most take less than a second."""
IMPORTED = (
    *("torch", "sklearn.metrics", "scipy.sparse", "matplotlib.figure", "gsplit.train.api", "gsplit.predict.api"),
    *("gsplit.data.__main__", "gsplit.partition.__main__", "gsplit.report.__main__", "gsplit.engine.sampled"),
    *("gsplit.engine.whole", "gsplit.models.registry", "gsplit.nn", "torch.distributed.nn", "torch._dynamo"),
)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    """None: not in time; negative: by a signal."""
    out: str
    err: str


def import_everything() -> None:
    """What commands and trainers import, once, before anything is forked."""
    import_all(IMPORTED)
    sys.modules["torch"].set_num_threads(1)


def run(words: Sequence[str], folder: Path, place: Path) -> Ended:
    """Run ``python -m gsplit.NAME ARGUMENTS``.

    Args:
        words: the name and the arguments.
        folder: to run in.
        place: where what it prints is kept, as files with the endings .out and .err.
    """
    files = [place.with_suffix(suffix) for suffix in (".out", ".err")]
    ((_, code, _),) = run_forked([(None, lambda: _command(words, folder, files))], 1, LIMIT_S)
    out, err = (file.read_text(errors="backslashreplace") for file in files)
    return Ended(code, out, err)


def _command(words: Sequence[str], folder: Path, files: Sequence[Path]) -> int:
    os.setsid()
    os.chdir(folder)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    _fork_trainers()
    return call_command(f"gsplit.{words[0]}.__main__", words[1:])


class _Handed:
    """In the place of a parcel: a process that is forked has what it is given already."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def open(self) -> Any:
        return self._content

    def close(self) -> None:
        """Nothing to close."""


def _fork_trainers() -> None:
    """Let trainers be forked where they would be spawned; all else of their life stays as it is."""
    from gsplit.processes import children

    context = multiprocessing.get_context("fork")
    patched: Any = children
    patched.Parcel = _Handed
    patched.resource_tracker = SimpleNamespace(ensure_running=lambda: None)
    patched.multiprocessing = SimpleNamespace(
        get_context=lambda method: context, connection=multiprocessing.connection
    )
