"""Counts of what goes wrong in runs that are hurt at random moments, and in commands on damaged files.

    python -m experiments.faults --runs 100
    python -m experiments.faults --inputs 1000 --json faults.json
    python -m experiments.faults --signals 50
    python -m experiments.faults --launches 1000
    python -m experiments.faults --quick
    python -m experiments.faults --inputs 1000 --seed 1 --only 649

*Runs*: kill -9, SIGTERM, SIGSEGV or Ctrl-C for the launcher, a trainer, a sampler or the resource tracker, or a disk
that is full (no process may write a file beyond a random size), at a random moment of a small run of two trainers and
two samplers; some of the runs replace another. Then the run is resumed, or started anew where it had saved nothing
(:mod:`experiments.faults.runs`).

*Inputs*: random damage to every kind of file that a command reads: cut off, bits flipped, other types, shapes,
numbers and keys, hostile pickles, archives and YAML, odd names. Of ten commands that train or predict and find
nothing wrong one goes the whole way; the others end where processes would start (:mod:`experiments.faults.inputs`).

*Signals*: SIGTERM or Ctrl-C at so many random moments of each command's life (:mod:`experiments.faults.signals`).
What comes before Python has begun with a module of ours is Python's own, and told as *too early*.

*Launches*: short runs of 2 and 4 trainers that end by themselves, by an error, by Ctrl-C or by the death of a trainer
(:mod:`experiments.faults.launches`).

Cases are numbered and depend on ``--seed`` and their number alone: ``--only`` repeats one. The exit code is 1 where
anything was counted. docs/formats.md has what is counted of each kind, and the other keys of ``--json``.
"""

from __future__ import annotations

import os

# Forking needs a process of one thread, so that libraries must not start any when they are imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.faults import cases, inputs, launches, runs, signals
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Count, Seed
from experiments.shared.processes import import_all, working_folder
from experiments.shared.rounds import cores
from experiments.shared.tally import Tally
from gsplit import cli
from gsplit.errors import InputError

PREFIX = "gsplit-faults-"


@dataclass(frozen=True, kw_only=True)
class FaultsConfig(Flags):
    """Hurt runs at random moments and give commands damaged files; count what must not be."""

    runs: Count = 0
    """Runs to hurt, some nine seconds each."""
    inputs: Count = 0
    """Commands to give damaged files, some five a second."""
    signals: Count = 0
    """Moments of each command at which it is sent a signal, some two seconds each."""
    launches: Count = 0
    """Short runs, some four seconds each, that are to leave nobody behind."""
    quick: bool = False
    """Take two minutes: 6 runs and 100 inputs."""
    seed: Seed = 0
    """Seed of all that is random."""
    only: Count | None = None
    """Repeat the case of this number; of the inputs where --inputs is given, else of the runs, else of the signals.
    Its folder is kept."""
    jobs: Count = 0
    """Inputs at a time; 0: one a core. Runs go one after the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.runs or self.inputs or self.signals or self.launches):
            raise InputError("nothing to do; give --runs 100, --inputs 1000, --signals 50, --launches 100 or --quick")

    def places(self, count: int, folder: Path) -> Iterator[tuple[int, Path]]:
        """The numbers of the cases of a kind, each with a folder, which is gone after it but for ``--only``."""
        for number in range(count) if self.only is None else [self.only]:
            yield number, folder / str(number)
            if self.only is None:
                shutil.rmtree(folder / str(number))


QUICK = FaultsConfig(runs=6, inputs=100, quick=True)


def measure(config: FaultsConfig) -> dict[str, Any]:
    """What ``--json`` has; of ``--only`` the first kind that is asked for."""
    # A shell ignores Ctrl-C for what it starts in the background, and its children would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    result: dict[str, Any] = {"settings": {"seed": config.seed, "quick": config.quick, "only": config.only}}
    asked = [kind for kind in KINDS if getattr(config, kind)]
    for kind in asked if config.only is None else asked[:1]:
        with working_folder(PREFIX, keep=config.only is not None) as folder:
            result[kind] = KINDS[kind](config, folder)
    return result


def hurt_inputs(config: FaultsConfig, folder: Path) -> dict[str, Any]:
    """Run every command on its damaged files; what was counted."""
    tally = Tally(inputs.PROBLEMS)
    (folder / "material").mkdir()
    material = [sys.executable, "-m", "experiments.faults.material", str(folder / "material")]
    subprocess.run(material, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    import_all(inputs.IMPORTED)
    (folder / "cases").mkdir()
    numbers = range(config.inputs) if config.only is None else [config.only]
    made = (cases.make_case(number, config.seed, folder / "material", folder / "cases") for number in numbers)
    for outcome in inputs.run_cases(made, config.jobs or cores()):
        tally.add(outcome.case.number, outcome.case, outcome.code, outcome.problems, outcome.seconds)
        if config.only is not None:
            print(f"{outcome.case}\nexit code {outcome.code}\n{outcome.stderr}", end="")
        else:
            inputs.remove(outcome.case)
    return {**tally.record(), "slowest_s": tally.slowest_s}


def hurt_runs(config: FaultsConfig, folder: Path) -> dict[str, Any]:
    """Hurt run after run; what was counted."""
    tally, done = Tally(runs.PROBLEMS), Counter[str]()
    make_layout(folder)
    (folder / "undisturbed").mkdir()
    undisturbed = runs.run_undisturbed(folder / "layout", folder / "undisturbed")
    for number, place in config.places(config.runs, folder):
        fault = runs.make_fault(number, config.seed)
        outcome = runs.disturb(fault, folder / "layout", undisturbed, place)
        done[fault.kind if outcome.done else "too late"] += 1
        print(f"{fault} ({outcome.done or 'too late'}): exit code {outcome.code}", flush=True)
        tally.add(number, fault, outcome.code, outcome.problems, outcome.seconds)
    times = {"slowest_end_s": tally.slowest_s, "undisturbed_s": undisturbed.seconds}
    return {**tally.record(), "faults": dict(done), **times}


def send_signals(config: FaultsConfig, folder: Path) -> dict[str, Any]:
    """Send every command signals at random moments; what was counted."""
    tally, too_early, slowest = Tally(signals.PROBLEMS), 0, dict.fromkeys(signals.COMMANDS, 0.0)
    material = folder / "material"
    material.mkdir()
    signals.make_material(material)
    undisturbed = {name: signals.measure(name, material, folder / f"undisturbed-{name}") for name in signals.COMMANDS}
    for number, place in config.places(config.signals * len(signals.COMMANDS), folder):
        moment = signals.make_moment(number, config.seed)
        outcome = signals.disturb(moment, undisturbed[moment.command], material, place)
        too_early += outcome.too_early
        slowest[moment.command] = max(slowest[moment.command], outcome.seconds)
        print(f"{moment}: exit code {outcome.code}, over after {outcome.seconds:.2f} s", flush=True)
        tally.add(number, moment, outcome.code, outcome.problems, outcome.seconds)
    return {
        **tally.record(),
        "too_early": too_early,
        "slowest_end_s": tally.slowest_s,
        "slowest_by_command_s": slowest,
        "undisturbed_s": {name: each.seconds for name, each in undisturbed.items()},
    }


def launch_all(config: FaultsConfig, folder: Path) -> dict[str, Any]:
    """Launch run after run; what was counted."""
    tally = Tally(launches.PROBLEMS)
    make_layout(folder, parts=4)
    begin_s = time.monotonic()
    whole = launches.Launch(number=-1, trainers=2, samplers=1, end="success", share=0.0)
    first = launches.launch(whole, folder / "layout", folder / "undisturbed", 0.0)
    assert first.code == 0, f"a run that nobody disturbs failed: {first.problems}"
    undisturbed_s = time.monotonic() - begin_s
    for number, place in config.places(config.launches, folder):
        case = launches.make_launch(number, config.seed)
        outcome = launches.launch(case, folder / "layout", place, undisturbed_s)
        print(f"{case}: exit code {outcome.code}, all gone after {outcome.seconds:.1f} s", flush=True)
        tally.add(number, case, f"{case.end} {outcome.code}", outcome.problems, outcome.seconds)
    return {**tally.record(), "slowest_end_s": tally.slowest_s, "undisturbed_s": undisturbed_s}


KINDS = {"inputs": hurt_inputs, "runs": hurt_runs, "signals": send_signals, "launches": launch_all}
"""What is done of each kind. Inputs come first: they fork, and runs import what has threads."""


def make_layout(folder: Path, *, parts: int = 2) -> None:
    """Make the layout of a small graph, in processes of their own, whose threads end with them."""
    for words in (
        ("data", "import", "synthetic:tiny", "--out", "store"),
        ("partition", "store", "--parts", str(parts), "--method", "random", "--out", "layout"),
    ):
        subprocess.run(
            [sys.executable, "-m", f"gsplit.{words[0]}", *words[1:]], check=True, cwd=folder, capture_output=True
        )


command = Experiment(
    "faults",
    FaultsConfig,
    measure,
    quick=QUICK,
    wrong=lambda found: any(any(found[kind]["counted"].values()) for kind in KINDS if kind in found),
)

if __name__ == "__main__":
    cli.main(command)
