"""Training runs that are hurt at a random moment, and what must hold of them afterwards.

A moment is a time of the undisturbed run: the last checkpoint before it, and so many seconds after that. A disturbed
run waits for the same checkpoint and then as long, so that moments are spread over the whole run however busy the
machine is.
"""

from __future__ import annotations

import contextlib
import resource
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from experiments.faults.command import Running, files_left, position_of, running, shared_left, temporary_left
from experiments.shared.same_run import difference

LIMIT_S = 10.0
"""Limit for a run to end after a fault that ends it."""
PATIENCE_S = 120.0
"""Limit for a run that goes on, beside three times what the undisturbed one took."""
POLL_S = 0.004
OLD = "old-run"
"""A file in the run that another one is to replace."""
FLAGS = shlex.split(
    "--device cpu --fan-out 4,4 --batch-size 20 --hidden 8 --epochs 3 --lr 0.01 --checkpoint-every-batches 2 "
    "--threads 1 --samplers 2"
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT)
VICTIMS = ("launcher", "trainer 0", "trainer 1", "sampler 0", "sampler 1", "resource tracker")
DISK_FULL = "disk full"
FATAL = ("SIGKILL", "SIGSEGV")
PROBLEMS = ("hangs", "leftovers", "different", "tracebacks", "wrong ends")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is done to whom, and when."""

    number: int
    kind: str
    """Name of a signal, or ``disk full``."""
    victim: str
    """One of VICTIMS; all processes where the disk is full."""
    moment: float
    """Moment of the fault, from 0, the start of the undisturbed run, to 1, its end."""
    largest_bytes: int
    """Most bytes of a file, once the disk is full."""
    replaces: bool
    """The run is to replace another one (``--overwrite``)."""

    def __str__(self) -> str:
        what = (
            f"no file above {self.largest_bytes} bytes" if self.kind == DISK_FULL else f"{self.kind} to {self.victim}"
        )
        return f"fault {self.number}: {what} at {self.moment:.2f}{', replacing a run' if self.replaces else ''}"


def make_fault(number: int, seed: int) -> Fault:
    """Every fifth has a full disk; the others go through all signals and victims in turn."""
    random = Random(f"{seed}/{number}")
    turn, rest = divmod(number, 5)
    pairs = [(which.name, victim) for which in SIGNALS for victim in VICTIMS]
    kind, victim = (DISK_FULL, "all") if rest == 4 else pairs[(turn * 4 + rest) * 7 % len(pairs)]
    return Fault(
        number=number,
        kind=kind,
        victim=victim,
        moment=random.random(),
        largest_bytes=random.choice((0, 100, 2_000, 10_000, 20_000, 60_000)),
        replaces=random.random() < 0.25,
    )


@dataclass(frozen=True, kw_only=True)
class Undisturbed:
    """The run to compare with, and when it had got how far."""

    run: Path
    checkpoints: list[tuple[float, tuple[int, int]]]
    """Seconds from the start, and (epoch, batch), of every checkpoint that was seen."""
    seconds: float

    def moment(self, share: float) -> tuple[tuple[int, int] | None, float]:
        """The last checkpoint before a share of the run, if any, and the seconds from there on."""
        at_s = share * self.seconds
        before = [(seconds, position) for seconds, position in self.checkpoints if seconds <= at_s]
        seconds, position = before[-1] if before else (0.0, None)
        return position, at_s - seconds


@dataclass
class Outcome:
    """How a fault went."""

    fault: Fault
    done: str = ""
    """What was done, if it was not too late."""
    code: int | None = None
    """Exit code of the launcher; None where it had to be killed."""
    seconds: float | None = None
    """Seconds from the fault to the end of the last process; None where the fault did not end the run."""
    problems: dict[str, str] = field(default_factory=dict)
    """One of PROBLEMS -> what was seen."""


def run_undisturbed(layout: Path, folder: Path) -> Undisturbed:
    """Train once with nobody in the way."""
    run = folder / "run"
    seen: list[tuple[float, tuple[int, int]]] = []
    with running(folder, layout, "--out", run, *FLAGS) as command:
        while (code := command.process.poll()) is None:
            position = position_of(run)
            if position is not None and (not seen or seen[-1][1] != position):
                seen.append((time.monotonic() - command.begin, position))
            time.sleep(POLL_S)
        seconds = time.monotonic() - command.begin
        assert code == 0, command.stderr
    return Undisturbed(run=run, checkpoints=seen, seconds=seconds)


def disturb(fault: Fault, layout: Path, undisturbed: Undisturbed, folder: Path) -> Outcome:
    """A run with this fault, and what became of it after it was resumed."""
    outcome, run = Outcome(fault), folder / "run"
    folder.mkdir()
    if fault.replaces:
        shutil.copytree(undisturbed.run, run)
        (run / OLD).touch()
    replacing = ("--overwrite",) if fault.replaces else ()
    with running(folder, layout, "--out", run, *FLAGS, *replacing) as command:
        _wait_for(command, run, undisturbed.moment(fault.moment))
        known = command.processes()
        outcome.done = _hurt(command, fault)
        begin = time.monotonic()
        _see_end(command, fault, outcome, begin, 3 * undisturbed.seconds + PATIENCE_S)
        killed = outcome.done.startswith("launcher") and fault.kind in FATAL
        _see_leftovers(command, known, folder, outcome, hidden=not killed)
    if killed or not (run / "summary.json").exists() or (run / OLD).exists():
        saved = position_of(run) is not None and not (run / OLD).exists()
        words = ("--resume", run) if saved else (layout, "--out", run, *FLAGS, "--overwrite")
        with running(folder, *words) as command:
            code = command.wait(3 * undisturbed.seconds + PATIENCE_S)
            if code is None:
                outcome.problems["hangs"] = f"{words[0]} did not end"
            elif command.wait_gone(LIMIT_S):
                outcome.problems["hangs"] = f"processes of {words[0]} outlived it"
            elif code:
                outcome.problems["different"] = f"{words[0]} ended with {code}: {_last(command.stderr)}"
            _see_leftovers(command, [], folder, outcome, hidden=True)
    if "different" not in outcome.problems:
        finished = (run / "summary.json").exists() and not (run / OLD).exists()
        what = difference(run, undisturbed.run) if finished else "it did not finish"
        outcome.problems |= {"different": what} if what else {}
    return outcome


def _wait_for(command: Running, run: Path, moment: tuple[tuple[int, int] | None, float]) -> None:
    position, seconds = moment
    while position is not None and command.process.poll() is None:
        if not (run / OLD).exists() and (position_of(run) or (0, -1)) >= position:
            break
        time.sleep(POLL_S)
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.process.wait(seconds)


def _hurt(command: Running, fault: Fault) -> str:
    """What was done; empty where the run was over or the victim is not there and neither is another."""
    if fault.kind == DISK_FULL:
        hurt = 0
        for process in command.processes():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (fault.largest_bytes, fault.largest_bytes))
                hurt += 1
        return f"{hurt} processes" if hurt else ""
    victim, who = command.victim(fault.victim), fault.victim
    if victim is None:
        victim, who = command.victim("launcher"), "launcher, as there was no other"
    if victim is None:
        return ""
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.send_signal(signal.Signals[fault.kind])
        return f"{who}, pid {victim.pid}"
    return ""


def _see_end(command: Running, fault: Fault, outcome: Outcome, begin: float, patience_s: float) -> None:
    """Wait for the run to end, by the fault or as if nothing had happened."""
    ends = bool(outcome.done) and outcome.done.startswith(("launcher", "trainer")) and not _may_ignore(fault, outcome)
    outcome.code = command.wait(LIMIT_S if ends else patience_s)
    left = command.wait_gone(max(0.0, LIMIT_S - (time.monotonic() - begin)) if ends else LIMIT_S)
    took = time.monotonic() - begin
    if outcome.code is None or (ends and took >= LIMIT_S):
        outcome.problems["hangs"] = f"not over after {took:.1f} s: {left}"
    elif outcome.code != 0 and fault.kind != DISK_FULL:
        outcome.seconds = took
    stderr = command.stderr
    soft = fault.kind in ("SIGTERM", "SIGINT", DISK_FULL)
    if soft and "Traceback (most recent call last)" in stderr and "/gsplit/" in stderr:
        outcome.problems["tracebacks"] = _last(stderr)
    if outcome.done and outcome.code is not None and outcome.code not in _codes(fault, outcome):
        outcome.problems["wrong ends"] = f"exit code {outcome.code}: {_last(stderr)}"


def _may_ignore(fault: Fault, outcome: Outcome) -> bool:
    """Signals that only the launcher answers."""
    return fault.kind in ("SIGTERM", "SIGINT") and not outcome.done.startswith("launcher")


def _codes(fault: Fault, outcome: Outcome) -> set[int]:
    """Exit codes with which the launcher may end; 0 always, where the fault came too late to matter."""
    if fault.kind == DISK_FULL:
        return {0, 2}
    number = int(signal.Signals[fault.kind])
    if outcome.done.startswith("launcher"):
        # By the signal itself where it comes before Python is there, or where nothing can be said any more.
        return {0, -number, 128 + number}
    fatal = outcome.done.startswith("trainer") and not _may_ignore(fault, outcome)
    return {0, 1} if fatal else {0}


def _see_leftovers(
    command: Running, known: list[psutil.Process], folder: Path, outcome: Outcome, *, hidden: bool
) -> None:
    """Whatever is left of a command that has ended; ``hidden``: files beside and in the run count as well."""
    left = [f"process {process.pid}" for process in (*command.processes(), *(p for p in known if _alive(p)))]
    left += shared_left(command.shared_before) + temporary_left(command.temporary)
    if hidden:
        run = folder / "run"
        left += files_left(folder, finished=(run / "summary.json").exists() and not (run / OLD).exists())
    if left and "hangs" not in outcome.problems:
        outcome.problems["leftovers"] = ", ".join(dict.fromkeys(left))


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:200]
