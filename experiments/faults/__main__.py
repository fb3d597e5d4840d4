"""Counts of what goes wrong in runs that are hurt at random moments, and in commands on damaged files.

    python -m experiments.faults --runs 100
    python -m experiments.faults --inputs 1000 --json faults.json
    python -m experiments.faults --signals 50
    python -m experiments.faults --launches 1000
    python -m experiments.faults --quick
    python -m experiments.faults --inputs 1000 --seed 1 --only 649

*Runs*: kill -9, SIGTERM, SIGSEGV or Ctrl-C for the launcher, a trainer, a sampler or the resource tracker, or a disk
that is full (no process may write a file beyond a random size), at a random moment of a small run of two trainers and
two samplers; some of the runs replace another. Then the run is resumed, or started anew where it had saved nothing.
Counted are *hangs* (a run that the fault ends is not over within 10 s; another does not finish), *leftovers*
(processes, shared memory, temporary files, hidden files beside the run; after kill -9 of the launcher files count
only once the next command has ended), runs that are *different* from the undisturbed one (weights, optimizer, best
model, counts, bit for bit), *tracebacks* for what a user does or meets (SIGTERM, Ctrl-C, a full disk), and *wrong
ends* (an exit code that says something else).

*Inputs*: random damage to every kind of file that a command reads: cut off, bits flipped, other types, shapes,
numbers and keys, hostile pickles, archives and YAML, odd names. Counted are *tracebacks*, *hangs* (60 s), *crashes*
(by a signal), *partial outputs* (of a command that failed, or hidden), *changed inputs*, *code executed*, and *bad
messages* (not one error in a line that a terminal can show). Of ten commands that train or predict and find nothing
wrong one goes the whole way; the others end where processes would start.

*Signals*: SIGTERM or Ctrl-C at so many random moments of each command's life (:mod:`experiments.faults.signals`).
Counted are commands that are *late* (not over within 2 s), *wrong codes* (not 130 or 143, nor 0 of a command that had
finished), *tracebacks*, *partial outputs* and *leftovers*. What comes before Python has begun with a module of ours
is Python's own, and told as *too early*.

*Launches*: short runs of 2 and 4 trainers that end by themselves, by an error, by Ctrl-C or by the death of a trainer
(:mod:`experiments.faults.launches`). Counted are runs that are *late* (a process is there 30 s after the run was
over), *wrong codes*, *tracebacks* (but for a death) and *leftovers* (shared memory, temporary files).

Cases are numbered and depend on ``--seed`` and their number alone: ``--only`` repeats one. The exit code is 1 where
anything was counted. The keys of ``--json`` are in docs/formats.md.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.faults import cases, inputs, launches, runs, signals
from experiments.shared.flags import Count, Seed
from experiments.shared.processes import working_folder
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.errors import InputError
from gsplit.files import check_writable

PROG = "python -m experiments.faults"
PREFIX = "gsplit-faults-"
KINDS = ("runs", "inputs", "signals", "launches")


@dataclass(frozen=True, kw_only=True)
class FaultsConfig(Checked):
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
    json: Path | None = None
    """File to write the results to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.runs or self.inputs or self.signals or self.launches):
            raise InputError("nothing to do; give --runs 100, --inputs 1000, --signals 50, --launches 100 or --quick")

    def numbers(self, count: int) -> list[int]:
        return list(range(count)) if self.only is None else [self.only]


QUICK = FaultsConfig(runs=6, inputs=100, quick=True)


def command(arguments: list[str]) -> None:
    config = cli.parse(FaultsConfig, arguments, prog=PROG, default=QUICK if "--quick" in arguments else None)
    if config.json:
        check_writable(config.json)
    # A shell ignores Ctrl-C for what it starts in the background, and its children would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    result: dict[str, Any] = {"settings": {"seed": config.seed, "quick": config.quick, "only": config.only}}
    # Inputs first: they fork, and runs import what has threads.
    if config.inputs:
        result["inputs"] = hurt_inputs(config)
    if config.runs and not (config.inputs and config.only is not None):
        result["runs"] = hurt_runs(config)
    if config.signals and not ((config.inputs or config.runs) and config.only is not None):
        result["signals"] = send_signals(config)
    if config.launches and not ((config.inputs or config.runs or config.signals) and config.only is not None):
        result["launches"] = launch_all(config)
    for kind in KINDS:
        if kind in result:
            print(table(kind, result[kind]))
    if config.json:
        write_json(config.json, result)
    sys.exit(
        any(
            result[kind]["counted"][problem]
            for kind in KINDS
            if kind in result
            for problem in result[kind]["counted"]
        )
    )


def hurt_inputs(config: FaultsConfig) -> dict[str, Any]:
    """Run every command on its damaged files; what was counted."""
    counted, codes, found = Counter(dict.fromkeys(inputs.PROBLEMS, 0)), Counter[str](), []
    with working_folder(PREFIX, keep=config.only is not None) as folder:
        (folder / "material").mkdir()
        material = [sys.executable, "-m", "experiments.faults.material", str(folder / "material")]
        subprocess.run(material, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        inputs.import_everything()
        (folder / "cases").mkdir()
        made = (
            cases.make_case(number, config.seed, folder / "material", folder / "cases")
            for number in config.numbers(config.inputs)
        )
        slowest = 0.0
        for outcome in inputs.run_cases(made, config.jobs or len(os.sched_getaffinity(0))):
            codes[str(outcome.code)] += 1
            slowest = max(slowest, outcome.seconds)
            found += said(counted, outcome.case.number, str(outcome.case), outcome.problems)
            if config.only is not None:
                print(f"{outcome.case}\nexit code {outcome.code}\n{outcome.stderr}", end="")
            else:
                inputs.remove(outcome.case)
    return {**record(counted, codes, found), "slowest_s": slowest}


def hurt_runs(config: FaultsConfig) -> dict[str, Any]:
    """Hurt run after run; what was counted."""
    counted, codes, found = Counter(dict.fromkeys(runs.PROBLEMS, 0)), Counter[str](), []
    with working_folder(PREFIX, keep=config.only is not None) as folder:
        make_layout(folder)
        (folder / "undisturbed").mkdir()
        undisturbed = runs.run_undisturbed(folder / "layout", folder / "undisturbed")
        slowest, done = 0.0, Counter[str]()
        for number in config.numbers(config.runs):
            fault = runs.make_fault(number, config.seed)
            outcome = runs.disturb(fault, folder / "layout", undisturbed, folder / str(number))
            codes[str(outcome.code)] += 1
            done[fault.kind if outcome.done else "too late"] += 1
            slowest = max(slowest, outcome.seconds or 0.0)
            ended = "" if outcome.seconds is None else f", over after {outcome.seconds:.1f} s"
            print(f"{fault} ({outcome.done or 'too late'}): exit code {outcome.code}{ended}", flush=True)
            found += said(counted, number, str(fault), outcome.problems)
            if config.only is None:
                shutil.rmtree(folder / str(number))
    return {
        **record(counted, codes, found),
        "faults": dict(done),
        "slowest_end_s": slowest,
        "undisturbed_s": undisturbed.seconds,
    }


def send_signals(config: FaultsConfig) -> dict[str, Any]:
    """Send every command signals at random moments; what was counted."""
    counted, codes, found = Counter(dict.fromkeys(signals.PROBLEMS, 0)), Counter[str](), []
    with working_folder(PREFIX, keep=config.only is not None) as folder:
        material = folder / "material"
        material.mkdir()
        signals.make_material(material)
        undisturbed = {
            name: signals.measure(name, material, folder / f"undisturbed-{name}") for name in signals.COMMANDS
        }
        slowest, too_early = dict.fromkeys(signals.COMMANDS, 0.0), 0
        for number in config.numbers(config.signals * len(signals.COMMANDS)):
            moment = signals.make_moment(number, config.seed)
            outcome = signals.disturb(moment, undisturbed[moment.command], material, folder / str(number))
            codes[str(outcome.code)] += 1
            too_early += outcome.too_early
            slowest[moment.command] = max(slowest[moment.command], outcome.seconds)
            print(f"{moment}: exit code {outcome.code}, over after {outcome.seconds:.2f} s", flush=True)
            found += said(counted, number, str(moment), outcome.problems)
            if config.only is None:
                shutil.rmtree(folder / str(number))
    return {
        **record(counted, codes, found),
        "too_early": too_early,
        "slowest_end_s": max(slowest.values()),
        "slowest_by_command_s": slowest,
        "undisturbed_s": {name: each.seconds for name, each in undisturbed.items()},
    }


def launch_all(config: FaultsConfig) -> dict[str, Any]:
    """Launch run after run; what was counted."""
    counted, codes, found = Counter(dict.fromkeys(launches.PROBLEMS, 0)), Counter[str](), []
    with working_folder(PREFIX, keep=config.only is not None) as folder:
        make_layout(folder, parts=4)
        begin_s = time.monotonic()
        whole = launches.Launch(number=-1, trainers=2, samplers=1, end="success", share=0.0)
        first = launches.launch(whole, folder / "layout", folder / "undisturbed", 0.0)
        assert first.code == 0, f"a run that nobody disturbs failed: {first.problems}"
        undisturbed_s, slowest = time.monotonic() - begin_s, 0.0
        for number in config.numbers(config.launches):
            case = launches.make_launch(number, config.seed)
            outcome = launches.launch(case, folder / "layout", folder / str(number), undisturbed_s)
            codes[f"{case.end} {outcome.code}"] += 1
            slowest = max(slowest, outcome.seconds)
            print(f"{case}: exit code {outcome.code}, all gone after {outcome.seconds:.1f} s", flush=True)
            found += said(counted, number, str(case), outcome.problems)
            if config.only is None:
                shutil.rmtree(folder / str(number))
    return {**record(counted, codes, found), "slowest_end_s": slowest, "undisturbed_s": undisturbed_s}


def record(counted: Counter[str], codes: Counter[str], found: list[dict[str, Any]]) -> dict[str, Any]:
    """What is written down of cases of any kind: how many there were, what was counted, how they ended."""
    return {"cases": sum(codes.values()), "counted": dict(counted), "ends": dict(codes), "found": found}


def make_layout(folder: Path, *, parts: int = 2) -> None:
    """Make the layout of a small graph, in processes of their own, whose threads end with them."""
    for words in (
        ("data", "import", "synthetic:tiny", "--out", "store"),
        ("partition", "store", "--parts", str(parts), "--method", "random", "--out", "layout"),
    ):
        subprocess.run(
            [sys.executable, "-m", f"gsplit.{words[0]}", *words[1:]], check=True, cwd=folder, capture_output=True
        )


def said(counted: Counter[str], number: int, case: str, problems: dict[str, str]) -> list[dict[str, Any]]:
    """Count the problems of a case and print them; a record of each."""
    for problem, what in problems.items():
        counted[problem] += 1
        print(f"{problem}: {case}\n    {what}", flush=True)
    return [{"number": number, "case": case, "problem": problem, "what": what} for problem, what in problems.items()]


def table(kind: str, result: dict[str, Any]) -> str:
    """The counts, one a line."""
    slowest = result.get("slowest_end_s", result.get("slowest_s"))
    lines = [f"{result['cases']} {kind}", *(f"  {name:<18}{count:>6}" for name, count in result["counted"].items())]
    ends = ", ".join(f"{code} ({count})" for code, count in sorted(result["ends"].items()))
    return "\n".join([*lines, f"  {'slowest end':<18}{slowest:>6.1f} s", f"  exit codes: {ends}"])


if __name__ == "__main__":
    cli.main(command)
