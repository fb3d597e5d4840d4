"""Commands on damaged files: each in a process of its own that is forked from one that has imported everything.

The process that forks must have one thread, so it imports, copies and damages, and leaves all work to its children.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.faults.cases import Case, contents
from experiments.faults.texts import CANARY
from experiments.shared.processes import call_command, run_forked

LIMIT_S = 60.0
"""Limit of one command; most take a fraction of a second, trainings a few seconds."""
MEMORY_BYTES = 8 << 30
"""Address space that a command may take beside what its imports have."""
ANSWERS = ("error: ", "warning: ", "info: ")
LONGEST_LINE = 4000
PROBLEMS = ("tracebacks", "hangs", "crashes", "partial outputs", "changed inputs", "code executed", "bad messages")
IMPORTED = (
    "torch",
    "scipy.io",
    "scipy.sparse",
    "yaml",
    "torch_geometric.data",
    "matplotlib.figure",
    "gsplit.train.api",
    "gsplit.predict.api",
    "gsplit.data.importers.formats.pyg",
    "gsplit.data.importers.formats.graphbolt",
    "gsplit.data.exporters",
)
"""Once, before anything is forked, where they are installed; not pyarrow and DGL, which start threads."""


@dataclass
class Outcome:
    """How a case ended."""

    case: Case
    code: int | None
    """None: not in time; negative: by a signal."""
    stderr: str
    seconds: float
    problems: dict[str, str]
    """One of PROBLEMS -> what was seen."""


def run_cases(cases: Iterator[Case], jobs: int) -> Iterator[Outcome]:
    """Each in a process of its own, ``jobs`` at a time, as they end."""
    works = ((case, partial(_in_folder, partial(_command, case), case)) for case in cases)
    for case, code, seconds in run_forked(works, jobs, LIMIT_S):
        stderr = (case.folder.parent / f"{case.folder.name}.err").read_text(errors="backslashreplace")
        yield Outcome(case, code, stderr, seconds, problems_of(case, code, stderr))


def remove(case: Case) -> None:
    """The folder of a case, and what lies beside it."""
    for path in case.folder.parent.glob(f"{glob.escape(case.folder.name)}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def problems_of(case: Case, code: int | None, stderr: str) -> dict[str, str]:
    """What must not be: a traceback, a hang, ... (:data:`PROBLEMS`)."""
    found: dict[str, str] = {}
    lines = stderr.splitlines()
    after = contents(case.folder)
    if "Traceback (most recent call last)" in stderr or (code is not None and code > 0 and code != 2):
        found["tracebacks"] = lines[-1] if lines else f"exit code {code}"
    if code is None:
        found["hangs"] = f"not over after {LIMIT_S:.0f} s"
    elif code < 0:
        found["crashes"] = f"ended by {signal.Signals(-code).name}"
    if CANARY in after:
        found["code executed"] = "a file made the canary"
    spared = os.path.normpath(case.changes) if case.changes and (code == 0 or case.whole) else None
    touched = [
        path
        for path, what in case.before.items()
        if after.get(path) != what and not (spared and path.startswith(spared))
    ]
    if touched:
        found["changed inputs"] = ", ".join(touched)
    new = [path for path in after if path not in case.before and not (spared and path.startswith(spared))]
    new = [path for path in new if path != CANARY and (code != 0 or _hidden(path))]
    if new:
        found["partial outputs"] = ", ".join(new)
    if code == 2 and "tracebacks" not in found and (wrong := bad_lines(stderr)):
        found["bad messages"] = wrong
    return found


def _hidden(path: str) -> bool:
    return any(part.startswith(".") and part != ".lock" for part in Path(path).parts)


def bad_lines(stderr: str) -> str:
    """What is wrong with the message of a command that refused; empty where it is one error in a line."""
    lines = stderr.split("\n")[:-1]
    if sum(line.startswith(ANSWERS[0]) for line in lines) != 1:
        return f"not one error: {stderr[:200]!r}"
    for line in lines:
        if not line.startswith(ANSWERS):
            return f"neither error, warning nor info: {line[:200]!r}"
        if len(line) > LONGEST_LINE:
            return f"a line of {len(line)} characters: {line[:100]!r}"
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line):
            return f"control characters: {line[:200]!r}"
    return ""


def _in_folder(work: Callable[[], int], case: Case) -> int:
    """Do ``work`` in the folder of the case, with little memory; what it prints lies beside the folder."""
    os.setsid()
    os.chdir(case.folder)
    beside = f"{case.folder.parent / case.folder.name}"
    Path(f"{beside}.tmp").mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = f"{beside}.tmp"
    for number, suffix in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{beside}.{suffix}", os.O_WRONLY | os.O_CREAT), number)
    _limit_memory()
    return work()


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _command(case: Case) -> int:
    """Run the command as ``python -m`` does; its exit code."""
    name, *arguments = case.words
    if not case.whole:
        for module in ("gsplit.train.api", "gsplit.predict.api"):
            importlib.import_module(module).start = _would_start  # type: ignore[attr-defined]
    return call_command(f"experiments.micro.{name}" if name == "overlap" else f"gsplit.{name}.__main__", arguments)


def _would_start(*arguments: object, **options: object) -> None:
    """Stand in for starting trainers, which takes seconds: all that is checked before has been."""
    raise SystemExit(0)
