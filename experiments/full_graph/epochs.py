"""``--systems``: epochs of whole-graph training, ours beside PyG and DGL, in turn in one run.

Systems, each in processes of its own, on the same graph, widths, learning rate, initial weights and number of cores:

- ``full``: ``gsplit train --strategy full``, two trainers with one thread each; ``full-1``: one trainer, one thread.
- ``split``: the whole graph as one mini-batch of split parallelism, all neighbours drawn anew each epoch.
- ``pyg-edge-index``, ``pyg-csr``, ``dgl``: one process with two threads (:mod:`experiments.baselines.whole_graph`),
  in the faster of two ways to have glibc keep memory, found by a run of each.

Every round runs each system once and begins with another one. An epoch counts the median of its run without the first
two; a ratio is of one round, then the median over rounds is taken, and again over the quiet ones, in which a fixed
loop on all cores took as long as ever. The losses of the first epochs must agree between all systems, or one is
reported as failed, because it trained something else. Dropout is left out, because no two libraries draw alike.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from experiments.baselines.whole_graph import FORMS, Epochs, Task
from experiments.shared import processes
from experiments.shared.datasets import dealt_layout, store_of
from experiments.shared.processes import RunFailed
from experiments.shared.results import records
from experiments.shared.rounds import calibrate, cores, in_turn, quiet_rounds, quiet_spread

OURS = "full"
TRAINERS = {"full": 2, "full-1": 1, "split": 2}
"""Ours, with the number of trainers of each, a thread each."""
ALL = (*TRAINERS, *FORMS)
THREADS = 2
"""Threads of the others."""
WARM_UP = 2
"""Epochs of a run that do not count."""
MOST_DIFFERENCE = 0.02
"""Part by which a loss may differ from ours: sums in another order, in float32, grow apart from step to step."""
COMPARED_EPOCHS = 5
"""First epochs whose losses are compared."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured."""

    dataset: str
    task: Task
    rounds: int
    work: Path
    data: Path
    limit_s: float


@dataclass(kw_only=True)
class Measured:
    """What came of the runs."""

    rounds: list[dict[str, Epochs]] = field(default_factory=list)
    """Epochs of every system that ran in a round."""
    calibrations: list[list[float]] = field(default_factory=list)
    memory: dict[str, str] = field(default_factory=dict)
    """Key of ``processes.MEMORY`` that is the faster one, by system."""
    failures: dict[str, str] = field(default_factory=dict)
    """Reason by system."""


def our_command(system: str, task: Task, layout: Path, folder: Path) -> list[str]:
    """The command of ours, the one place that knows its flags."""
    trainers = TRAINERS[system]
    flags: dict[str, Any] = {
        "device": "cpu",
        "gpus": trainers,
        "threads": 1,
        "model": task.model,
        "hidden": task.hidden,
        "epochs": task.epochs,
        "lr": task.lr,
        "dropout": 0.0,
        "seed": task.seed,
        "evaluate": "none",
        "checkpoint_every": 0,
    }
    if system == "split":
        every_target = {"fan_out": ",".join(["-1"] * task.layers), "batch_size": 2**31 - 1, "samplers": 1}
        flags |= {"strategy": "split", **every_target}
    else:
        flags |= {"strategy": "full", "num_layers": task.layers}
    return processes.train_command(layout, folder / "run", flags)


def run(system: str, plan: Plan, memory: str = "as it comes", epochs: int | None = None) -> Epochs:
    """One run of a system, in a folder that is removed.

    Raises:
        RunFailed: where it does not end well.
    """
    task = replace(plan.task, epochs=epochs or plan.task.epochs, form=system if system in FORMS else "")
    with tempfile.TemporaryDirectory(dir=plan.work, prefix=".run-") as temporary:
        folder = Path(temporary).resolve()
        if system in FORMS:
            task.write(folder)
            command = [sys.executable, "-m", "experiments.baselines.whole_graph", str(folder)]
            processes.run(command, processes.environment(memory, THREADS), folder, limit_s=plan.limit_s)
            return Epochs.read(folder)
        layout = dealt_layout(Path(task.store), plan.work, TRAINERS[system], task.seed)
        command = our_command(system, task, layout, folder)
        processes.run(command, processes.environment(memory, 1), folder, limit_s=plan.limit_s)
        lines = records(folder / "run")
        return Epochs(seconds=[each["seconds"] for each in lines], losses=[each["loss"] for each in lines])


def middle(epochs: Epochs) -> float:
    """Median seconds of an epoch, without those that warm up."""
    return median(epochs.seconds[WARM_UP:] or epochs.seconds)


def differing(ours: Sequence[float], theirs: Sequence[float]) -> int | None:
    """The first of the compared epochs, from 1 on, that one side lacks or whose losses differ; None: they agree."""
    for number in range(1, min(COMPARED_EPOCHS, max(len(ours), len(theirs), 1)) + 1):
        if number > min(len(ours), len(theirs)):
            return number
        mine, other = ours[number - 1], theirs[number - 1]
        if not abs(mine - other) <= MOST_DIFFERENCE * abs(mine):  # NaN differs from all
            return number
    return None


def measure_all(plan: Plan, systems: Sequence[str], run: Callable[..., Epochs] = run) -> Measured:
    """The rounds. A system that fails, or whose losses are not those of the first that ran, is out."""
    found = Measured()

    def attempt(system: str, **settings: Any) -> Epochs | None:
        try:
            return run(system, plan, **settings)
        except RunFailed as error:
            found.failures[system] = str(error)
            print(f"{system} failed: {error}", flush=True)
            return None

    wanted: list[float] | None = None
    for system in systems:
        ways = processes.MEMORY if system in FORMS else ["as it comes"]
        trials: dict[str, Epochs] = {}
        for way in ways:
            if (epochs := attempt(system, memory=way, epochs=WARM_UP + COMPARED_EPOCHS)) is None:
                break
            trials[way] = epochs
        if system in found.failures:
            continue
        losses = next(iter(trials.values())).losses
        wanted = wanted or losses
        if (number := differing(wanted, losses)) is not None:
            found.failures[system] = f"loss of epoch {number} is {losses[number - 1]:g}, not {wanted[number - 1]:g}"
            continue
        found.memory[system] = min(trials, key=lambda way: middle(trials[way]))
    for number in range(plan.rounds):
        names = [system for system in systems if system in found.memory and system not in found.failures]
        found.rounds.append({})
        found.calibrations.append([])
        for system in in_turn(names, number):
            found.calibrations[-1].append(calibrate())
            if (epochs := attempt(system, memory=found.memory[system])) is not None:
                found.rounds[-1][system] = epochs
                print(f"round {number + 1}: {system}: {middle(epochs):.4f} s an epoch", flush=True)
    return found


def ratio_rows(found: Measured, against: str) -> list[dict[str, Any]]:
    """Seconds of every other system over those of ``against``, round by round."""
    quiet = quiet_rounds(found.calibrations) if any(found.calibrations) else []
    rows = []
    for system in dict.fromkeys(name for each in found.rounds for name in each if name != against):
        pairs = [
            (middle(each[system]) / middle(each[against]), is_quiet)
            for each, is_quiet in zip(found.rounds, quiet, strict=True)
            if {system, against} <= each.keys()
        ]
        if pairs:
            rows.append({"system": system, "over": against, **quiet_spread(pairs)})
    return rows


def measure(plan: Plan, systems: Sequence[str]) -> dict[str, Any]:
    """The tables of ``--systems``: ``ratios``, ``losses``, ``not_run``, ``settings``."""
    plan.work.mkdir(parents=True, exist_ok=True)
    store = store_of(plan.dataset, data=plan.data, work=plan.work, seed=plan.task.seed)
    plan = replace(plan, task=replace(plan.task, store=str(store)))
    found = measure_all(plan, systems)
    against = OURS if OURS in found.memory else next(iter(found.memory), OURS)
    last = found.rounds[-1] if found.rounds else {}
    task = {name: getattr(plan.task, name) for name in ("model", "hidden", "layers", "epochs", "lr", "seed")}
    return {
        "ratios": [{"dataset": plan.dataset, **task, **row} for row in ratio_rows(found, against)],
        "losses": [{"system": system, "losses": epochs.losses} for system, epochs in last.items()],
        "not_run": [{"system": system, "reason": reason} for system, reason in found.failures.items()],
        "settings": [
            {"dataset": plan.dataset, **task, "cores": cores(), "memory": found.memory, "rounds": plan.rounds}
        ],
    }
