"""SIGTERM and Ctrl-C at random moments of every command's life, and how it ended.

A moment is a share of the time that the command takes undisturbed. Half of those of training are spread over its
phases alike, however long they last: starting, joining, training, ending; the others over its time. A signal goes to
the process that was started, as ``kill`` sends it, or to all processes of the command, as a terminal and Slurm do.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from experiments.faults.command import Running, files_left, position_of, running, shared_left, temporary_left

LATE_S = 2.0
"""Seconds within which a command ends after a signal: training after its mini-batch, which is small here."""
PATIENCE_S = 30.0
"""When a command that does not end is killed."""
POLL_S = 0.005
PROBLEMS = ("late", "wrong codes", "tracebacks", "partial outputs", "leftovers")
SCRIPT = "gsplit"
BEFORE = {"__init__.py", "starting.py"}
"""Modules of ours that are imported before a command can handle signals."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
FLAGS = shlex.split(
    "--device cpu --fan-out 4,4 --batch-size 50 --hidden 8 --epochs 4 --threads 1 --samplers 1 "
    "--validate-every-batches 2 --save-predictions classes"
)
"""A training of four epochs with small mini-batches, and evaluations in between."""
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "import": (("import", "{m}/edges.csv", "--out", "{out}"), "out"),
    "export": (("export", "{m}/store", "--to", "npz", "--out", "{out}"), "out.npz"),
    "partition": (("partition", "{m}/store", "--parts", "4", "--weights", "presample", "--out", "{out}"), "out"),
    "info": (("info", "{m}/store", "--verify", "--html", "{out}"), "out.html"),
    "report": (("report", "{m}/run", "--out", "{out}"), "out.html"),
    "doctor": (("doctor", "{m}/layout", "--device", "cpu"), ""),
    "train": (("train", "{m}/layout", "--out", "{out}", *FLAGS), "run"),
    "predict": (("predict", "{m}/run", "{m}/layout", "--device", "cpu", "--out", "{out}"), "out.npy"),
}
"""What each command is called with, {m} being the folder of what it reads, and the name of what it writes."""
PHASES: dict[str, Callable[[Path], bool]] = {
    "starting": lambda run: True,
    "joining": lambda run: (run / "resolved.json").exists(),
    "training": lambda run: (position_of(run) or (0, 0)) >= (1, 0),
    "ending": lambda run: (position_of(run) or (0, 0)) >= (4, 0),
}
"""Phases of a training run, each with what shows that it has begun."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A signal to a command."""

    number: int
    command: str
    signal: signal.Signals
    to_all: bool
    """To all processes of the command."""
    module: bool
    """The command is ``python -m gsplit.X``, else the ``gsplit`` script."""
    phase: str | None
    """The phase of a training in which it comes; None: in any."""
    share: float
    """When, from 0, the start of the command or phase, to 1, its end."""

    def __str__(self) -> str:
        how = "python -m" if self.module else "gsplit"
        where = f"{self.share:.2f} of {self.phase or 'its time'}"
        to = " and its processes" if self.to_all else ""
        return f"moment {self.number}: {self.signal.name} to {how} {self.command}{to} at {where}"


@dataclass(frozen=True, kw_only=True)
class Undisturbed:
    """When a command has reached its phases."""

    seconds: float
    phases: dict[str, float]
    """Seconds from the start to the beginning of each phase."""

    def after(self, moment: Moment) -> float:
        """Seconds from the start, or from the beginning of the phase."""
        if moment.phase is None:
            return moment.share * self.seconds
        names = list(self.phases)
        at = names.index(moment.phase)
        end = self.phases[names[at + 1]] if at + 1 < len(names) else self.seconds
        return moment.share * max(0.0, end - self.phases[moment.phase])


@dataclass
class Outcome:
    """How a command ended."""

    moment: Moment
    code: int | None = None
    """Its exit code; None where it had to be killed."""
    seconds: float = 0.0
    """From the signal to the end."""
    too_early: bool = False
    """The signal came before Python had begun with a module of ours."""
    problems: dict[str, str] = field(default_factory=dict)
    """One of PROBLEMS -> what was seen."""


def make_moment(number: int, seed: int) -> Moment:
    """Commands take turns, so that so many moments of each are the first so many times their number."""
    random = Random(f"{seed}/signals/{number}")
    turn, at = divmod(number, len(COMMANDS))
    command = list(COMMANDS)[at]
    by_phase = command == "train" and turn % 2 == 1
    return Moment(
        number=number,
        command=command,
        signal=random.choice(SIGNALS),
        to_all=random.random() < 0.3,
        module=random.random() < 0.5,
        phase=random.choice(list(PHASES)) if by_phase else None,
        share=random.random(),
    )


def make_material(folder: Path) -> None:
    """What commands read, in processes of their own: edges, a store, a layout of two parts, a run."""
    random = Random(0)
    with (folder / "edges.csv").open("w") as file:
        file.writelines(f"{random.randrange(20_000)},{random.randrange(20_000)}\n" for _ in range(200_000))
    (folder / SCRIPT).write_text(
        "import sys\nfrom gsplit.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )  # as pip writes it
    for words in (
        ("import", "synthetic:tiny", "--out", "store"),
        ("partition", "store", "--parts", "2", "--out", "layout"),
        ("train", "layout", "--out", "run", *FLAGS),
    ):
        subprocess.run([sys.executable, "-m", "gsplit", *words], check=True, cwd=folder, capture_output=True)


def measure(command: str, material: Path, folder: Path) -> Undisturbed:
    """Run a command with nobody in the way."""
    folder.mkdir(parents=True)
    phases: dict[str, float] = {}
    with _started(command, material, folder, module=True) as process:
        while process.process.poll() is None:
            if time.monotonic() - process.begin > PATIENCE_S:
                raise TimeoutError(f"{command}, undisturbed, is not over after {PATIENCE_S:.0f} s")
            for name, has_begun in PHASES.items() if command == "train" else ():
                if name not in phases and has_begun(folder / "run"):
                    phases[name] = time.monotonic() - process.begin
            time.sleep(POLL_S)
        assert process.process.returncode == 0, process.stderr
        return Undisturbed(seconds=time.monotonic() - process.begin, phases=phases)


def disturb(
    moment: Moment, undisturbed: Undisturbed, material: Path, folder: Path, late_s: float = LATE_S
) -> Outcome:
    """Start the command, send the signal, and look at what became of it."""
    outcome, run = Outcome(moment), folder / "run"
    folder.mkdir(parents=True)
    with _started(moment.command, material, folder, module=moment.module) as command:
        while moment.phase and command.process.poll() is None and not PHASES[moment.phase](run):
            if time.monotonic() - command.begin > PATIENCE_S:
                raise TimeoutError(f"{moment.command} has not come to {moment.phase} after {PATIENCE_S:.0f} s")
            time.sleep(POLL_S)
        command.wait(undisturbed.after(moment))
        known = command.processes()
        over = command.process.poll() is not None
        begin = time.monotonic()
        for process in known if moment.to_all else [] if over else [psutil.Process(command.process.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(moment.signal)
        outcome.code = command.wait(PATIENCE_S)
        outcome.seconds = time.monotonic() - begin
        left = command.wait_gone(late_s)
        if outcome.code is None or outcome.seconds > late_s:
            outcome.problems["late"] = f"over after {outcome.seconds:.1f} s"
        if outcome.code is None:
            return outcome
        stderr = command.stderr
        begun = set(re.findall(r'File ".*/gsplit/([^"]+)"', stderr)) - BEFORE
        outcome.too_early = outcome.code in (1, -moment.signal) and not begun and not _made(folder)
        if "Traceback" in stderr and not outcome.too_early:
            outcome.problems["tracebacks"] = stderr.strip().splitlines()[-1][:200]
        if outcome.code not in (0, 128 + moment.signal) and not outcome.too_early:
            outcome.problems["wrong codes"] = f"exit code {outcome.code}: {stderr.strip()[-200:]}"
        if what := _partial(moment.command, folder, finished=outcome.code == 0):
            outcome.problems["partial outputs"] = what
        names = [f"process {process.pid}" for process in left]
        names += shared_left(command.shared_before) + temporary_left(command.temporary)
        if names:
            outcome.problems["leftovers"] = ", ".join(names)
    return outcome


@contextlib.contextmanager
def _started(command: str, material: Path, folder: Path, *, module: bool) -> Iterator[Running]:
    words, out = COMMANDS[command]
    words = tuple(word.format(m=material, out=folder / out) for word in words)
    package = {"import": "data", "export": "data", "info": "data"}.get(command)
    start: tuple[str, ...] = (str(material / SCRIPT),)
    if module:
        start = ("-m", f"gsplit.{package or command}")
        words = words if package else words[1:]
    with running(folder, *words, start=start) as process:
        yield process


def _made(folder: Path) -> list[str]:
    """Names in a folder that are not ours."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("tmp-"))


def _partial(command: str, folder: Path, *, finished: bool) -> str:
    """What a command has left that is not whole; empty where it is all or nothing, or a run that can go on."""
    out, made = COMMANDS[command][1], _made(folder)
    if command == "train" and "run" in made and not finished:
        left = files_left(folder, finished=(folder / "run" / "summary.json").exists())
        if left or position_of(folder / "run") is None:
            return ", ".join(left) or "a run without a checkpoint"
        return ""
    wanted = [out] if finished and out else []
    whole = not finished or command != "train" or "epochs" in json.loads((folder / "run/summary.json").read_text())
    return "" if made == wanted and whole else f"there is {made}"
