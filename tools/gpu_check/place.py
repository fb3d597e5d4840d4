"""Where the parts run: device, folders, and commands that end in time."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from experiments.shared.processes import run

ROOT = Path(__file__).resolve().parents[2]
SHARE = "GSPLIT_SHARE_GPU"
"""Environment variable that lets several trainers have one GPU."""


REHEARSALS = ("cpu", "sim")
"""Types of devices that are no GPUs: the host's, and the simulated accelerator of the tests."""
PATIENCE = 3
"""How much longer a part may take in a rehearsal, for each trainer on a core."""


class Failed(Exception):
    """A part whose result is wrong; the message says what is."""


TYPED = "mag?scale=0.003"
"""A small graph of several types."""


@dataclass(kw_only=True)
class Place:
    """What all parts are given."""

    device: str
    """Type of device: one of :data:`REHEARSALS` is a rehearsal."""
    gpus: int
    """Number of GPUs, with a trainer each; with one, four trainers share it where a part says so."""
    out: Path
    """Folder of logs and results."""
    work: Path
    """Folder of graphs, layouts and runs."""
    root: Path = ROOT
    """Folder of the repository."""
    deadline_s: float = field(default=float("inf"))
    """When, by ``time.monotonic``, the part at work has to end."""

    rates: list[tuple[str, float, str, float | None]] = field(default_factory=list)
    """What was moved, at how many GB a second, and its floor; see :class:`tools.gpu_check.measured.Measured`."""
    memory: list[tuple[str, str]] = field(default_factory=list)
    """What of a GPU is taken when, and how much."""

    @property
    def rehearsed(self) -> bool:
        """Whether there is no GPU, so that graphs are tiny and times mean nothing."""
        return self.device in REHEARSALS

    @property
    def left_s(self) -> float:
        """Seconds that the part at work has left."""
        return max(1.0, round(self.deadline_s - time.monotonic()))

    def preset(self, real: str) -> str:
        """A synthetic graph, or the tiny one where this is rehearsed and that has one type, too."""
        return f"synthetic:{'tiny' if self.rehearsed and real != TYPED else real}"

    def python(self, name: str, *words: object, **variables: str) -> str:
        """Run Python to its end; what it says lies in ``out/name``.

        Args:
            name: of a folder for what it says.
            words: after the interpreter.
            variables: of its environment.

        Raises:
            RunFailed: where it fails, or takes longer than the part has left.
        """
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **({SHARE: "1"} if self.gpus == 1 else {}), **variables}
        run([sys.executable, *map(str, words)], environment, folder, limit_s=self.left_s)
        return (folder / "stdout").read_text(errors="replace")

    def measured(self, name: str) -> str:
        """Run one of the measuring modules; its rates and memory are kept for the page.

        Returns:
            what it found, in a line.

        Raises:
            Failed: where it found something wrong with the machine.
            RunFailed: as :meth:`python` does.
        """
        mib = 16 if self.rehearsed else 256
        words = ("--device", self.device, "--gpus", self.gpus, "--mib", mib)
        said = self.python(name, "-m", f"tools.gpu_check.{name}", *words)
        found = json.loads(said.splitlines()[-1])
        self.rates += [(what, rate, floor, its) for what, rate, floor, its in found["rates"]]
        self.memory += [(when, what) for when, what in found["memory"]]
        if found["wrong"]:
            raise Failed(found["wrong"])
        return str(found["line"])


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the check."""

    name: str
    limit_s: float
    """Seconds that it may take."""
    run: Callable[[Place], str]
    """Gives the result, a line of a table; raises :class:`Failed`, or whatever keeps it from one."""
    is_needed: bool = False
    """Whether no other part can be right where this one fails, so that they are not begun."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a part."""

    name: str
    result: str
    good: bool
    seconds: float
    limit_s: float
    told: str = ""
    """The end of what a part wrote that failed: a failure may be seen once only."""


def outcome_of(part: Part, place: Place, left_s: float) -> Outcome:
    """Run a part, whatever becomes of it.

    Args:
        part: to run.
        place: where.
        left_s: of all parts together; it may be less than the part's own limit.
    """
    start_s = time.monotonic()
    limit_s = part.limit_s * (PATIENCE * -(-place.gpus // (os.cpu_count() or 1)) if place.rehearsed else 1)
    place.deadline_s = start_s + min(limit_s, left_s)
    good, told = False, ""
    try:
        result, good = part.run(place), True
    except Exception as error:  # the next part runs all the same
        result = f"{str(error) or type(error).__name__}" if isinstance(error, Failed) else _told(error)
        told = getattr(error, "told", "")
    seconds = time.monotonic() - start_s
    return Outcome(name=part.name, result=result, good=good, seconds=seconds, limit_s=limit_s, told=told)


def _told(error: Exception) -> str:
    """The first line of an error, with its kind where that is no error of a command."""
    said = (str(error).strip().splitlines() or [""])[0]
    return said if type(error).__name__ in ("RunFailed", "InputError") else f"{type(error).__name__}: {said}"
