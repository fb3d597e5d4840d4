"""Short training runs, one after the other, that end in four ways, and how long their processes outlive them.

A run is over with its summary, or with what ends it: Ctrl-C, or the death of a trainer; one that fails by itself,
when its launcher has ended. After that all of its processes have 30 s to be gone.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from experiments.faults.command import Running, running, shared_left, temporary_left

LATE_S = 30.0
"""Seconds that processes may take to be gone after a run is over."""
PATIENCE_S = 120.0
"""When a run that does not end is killed."""
POLL_S = 0.005
PROBLEMS = ("late", "wrong codes", "tracebacks", "leftovers")
FLAGS = shlex.split("--device cpu --fan-out 4,4 --batch-size 50 --hidden 8 --threads 1 --epochs 2 --evaluate none")
"""A training of some seconds, most of them for starting."""
CODES = {"success": (0,), "error": (2,), "interrupt": (0, 130), "death": (0, 1)}
"""Exit codes of each end; 0 where the run was over before."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A training run and how it is to end."""

    number: int
    trainers: int
    samplers: int
    end: str
    """One of CODES: by itself; by a loss that is not finite; by Ctrl-C; by the death of a trainer."""
    share: float
    """When it is interrupted or a trainer dies, as a share of what such a run takes undisturbed."""

    def __str__(self) -> str:
        at = f" at {self.share:.2f} of its time" if self.end in ("interrupt", "death") else ""
        return f"launch {self.number}: {self.trainers} trainers, {self.samplers} samplers, {self.end}{at}"


@dataclass
class Outcome:
    """How a run ended."""

    launch: Launch
    code: int | None = None
    """Its exit code; None where it had to be killed."""
    seconds: float = 0.0
    """From the end of the run to that of its last process."""
    problems: dict[str, str] = field(default_factory=dict)
    """One of PROBLEMS -> what was seen."""


def make_launch(number: int, seed: int) -> Launch:
    """Ends take turns, so that there are as many of each."""
    random = Random(f"{seed}/launches/{number}")
    end = list(CODES)[number % len(CODES)]
    return Launch(
        number=number, trainers=random.choice((2, 4)), samplers=random.choice((0, 1)), end=end, share=random.random()
    )


def launch(case: Launch, layout: Path, folder: Path, undisturbed_s: float) -> Outcome:
    """Start the run, end it as it is to end, and see when its last process is gone."""
    outcome, run = Outcome(case), folder / "run"
    folder.mkdir(parents=True)
    flags: list[object] = [*FLAGS, "--gpus", case.trainers, "--samplers", case.samplers]
    flags += ["--lr", "1e30", "--optimizer", "sgd"] if case.end == "error" else []
    with running(folder, layout, "--out", run, *flags) as command:
        try:
            over_s = _over(command, run, _disturbance(case, command, undisturbed_s))
        except TimeoutError as error:
            outcome.problems["late"] = str(error)
            return outcome
        outcome.code = command.wait(max(0.0, over_s + LATE_S - time.monotonic()))
        left = command.wait_gone(max(0.0, over_s + LATE_S - time.monotonic()))
        outcome.seconds = time.monotonic() - over_s
        if outcome.code is None or left:
            outcome.problems["late"] = (
                f"exit code {outcome.code}, {len(left)} processes after {outcome.seconds:.1f} s"
            )
            return outcome
        if "Traceback" in command.stderr and case.end != "death":
            outcome.problems["tracebacks"] = command.stderr.strip().splitlines()[-1][:200]
        if outcome.code not in CODES[case.end]:
            outcome.problems["wrong codes"] = f"exit code {outcome.code}: {command.stderr.strip()[-200:]}"
        if names := shared_left(command.shared_before) + temporary_left(command.temporary):
            outcome.problems["leftovers"] = ", ".join(names)
    return outcome


def _disturbance(case: Launch, command: Running, undisturbed_s: float) -> Callable[[], bool]:
    """What is to be tried again and again until it says that it was done: nothing, a Ctrl-C, a death."""

    def disturb() -> bool:
        if time.monotonic() < command.begin + case.share * undisturbed_s:
            return False
        victim = command.victim("launcher" if case.end == "interrupt" else f"trainer {case.trainers - 1}")
        if victim is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGINT if case.end == "interrupt" else signal.SIGKILL)
        return True

    return disturb if case.end in ("interrupt", "death") else lambda: False


def _over(command: Running, run: Path, disturb: Callable[[], bool]) -> float:
    """The moment, by the monotonic clock, at which the run was over: its summary, its end, or what ended it.

    Raises:
        TimeoutError: where that does not come.
    """
    while command.process.poll() is None and not (run / "summary.json").exists():
        if time.monotonic() > command.begin + PATIENCE_S:
            raise TimeoutError(f"a run is not over after {PATIENCE_S:.0f} s: {run}")
        if disturb():
            break
        time.sleep(POLL_S)
    return time.monotonic()
