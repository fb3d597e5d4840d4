"""The phases of a comparison: search, memory, rounds in turn, accuracy, sweeps."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from experiments.baselines.workload import Outcome, Setting, Workload
from experiments.compare import systems
from experiments.compare.config import BenchConfig, CompareConfig
from experiments.compare.graphs import Graph
from experiments.compare.pairs import InRound, Round, middle, seconds_of
from experiments.compare.search import Found, search
from experiments.compare.systems import Contender, Ran, System, precision_of
from experiments.shared.processes import Memory, RunFailed
from experiments.shared.results import markdown, write_json
from experiments.shared.rounds import calibrate, in_turn
from gsplit.files import replace_file

C = TypeVar("C", bound=BenchConfig)


@dataclass(kw_only=True)
class Bench(Generic[C]):
    """Where contenders run, and what came of each run."""

    name: str
    """``comparison`` or ``ablation``, which names its files."""
    config: C
    graph: Graph
    runs: list[dict[str, Any]] = field(default_factory=list)
    """Every run that ended well, as results keep it."""
    failures: list[dict[str, str]] = field(default_factory=list)
    """``system``, ``phase`` and ``reason`` of those that did not."""

    def run(self, contender: Contender, phase: str, *, watch: bool = False, **about: Any) -> Ran:
        """One run; what it leaves on disk is removed.

        Raises:
            RunFailed: where it does not end well.
        """
        with tempfile.TemporaryDirectory(dir=self.config.work, prefix=".run-") as temporary:
            folder = Path(temporary).resolve() / contender.system.name
            try:
                ran = systems.run(contender, self.graph, folder, limit_s=self.config.run_limit_s, watch=watch)
            except RunFailed:
                shutil.copyfile(folder / "stderr", self.config.out / f"{contender.system.name}-stderr.txt")
                raise
        epochs = [vars(epoch) for epoch in ran.outcome.epochs]
        used = {"wall_s": ran.used.wall_s, "others_share": ran.used.others_share}
        self.runs.append({"phase": phase, **systems.described(contender), **about, **used, "epochs": epochs})
        return ran

    def failed(self, contender: Contender, phase: str, error: RunFailed) -> None:
        """Note that a system is out."""
        print(f"{phase}: {contender.system.name} failed: {error}", flush=True)
        self.failures.append({"system": contender.system.name, "phase": phase, "reason": str(error)})

    def save(self, result: dict[str, Any]) -> None:
        """Write what there is so far, so that what is interrupted has not been for nothing."""
        write_json(self.config.out / f"{self.name}.json", result)
        replace_file(self.config.out / f"{self.name}.md", f"{markdown(shown(result))}\n".encode())


def shown(result: Mapping[str, Any]) -> dict[str, Any]:
    """What of a result is for readers: not the single runs."""
    return {name: result[name] for name in ("dataset", "settings", "versions", "host")} | result["tables"]


def find_setting(bench: Bench[CompareConfig], system: System) -> Found:
    """The fastest setting of a system, each judged by a run whose blocks were checked."""
    config = bench.config
    if config.search_epochs == 0:
        return Found(best=Setting(**{name: values[0] for name, values in system.choices.items()}), tried=[])
    workload = replace(workload_of(bench, system), epochs=1 + config.search_epochs, check=True)

    def measure(setting: Setting) -> float:
        contender = Contender(system=system, workload=workload, setting=setting, cache=_cache(config, system))
        return middle(bench.run(contender, "search").outcome, seconds_of)

    found = search(system.choices, measure)
    for tried in found.tried:
        took = tried.reason if tried.seconds is None else f"{tried.seconds:.3f} s an epoch"
        print(f"search: {system.name}, {tried.setting.name}: {took}", flush=True)
    return found


def contender_of(bench: Bench[CompareConfig], system: System, setting: Setting) -> Contender:
    """A system with the setting that was found."""
    return Contender(
        system=system, workload=workload_of(bench, system), setting=setting, cache=_cache(bench.config, system)
    )


def workload_of(bench: Bench[CompareConfig], system: System) -> Workload:
    """What a system trains: what all do, in its precision."""
    return replace(bench.config.workload(bench.graph.store), precision=precision_of(system.name))


def _cache(config: CompareConfig, system: System) -> int:
    return config.cache if system.has_cache and system.strategy else 0


def memory_of(bench: Bench[CompareConfig], contender: Contender) -> Memory | None:
    """Most memory of one run, whose blocks are checked where no search has; None where the run failed."""
    if bench.config.search_epochs == 0:
        contender = replace(contender, workload=replace(contender.workload, check=True))
    try:
        return bench.run(contender, "memory", watch=True).used.memory
    except RunFailed as error:
        bench.failed(contender, "memory", error)
        return None


def run_rounds(bench: Bench[Any], contenders: Mapping[str, Contender], rounds: int, phase: str) -> list[Round]:
    """Every contender once a round, each round beginning with another one. Who fails is out."""
    results: list[Round] = []
    left = dict(contenders)
    for number in range(rounds):
        results.append({})
        for name in in_turn(left, number):
            calibration_s = calibrate()
            try:
                ran = bench.run(left[name], phase, round=number, calibration_s=calibration_s)
            except RunFailed as error:
                bench.failed(left.pop(name), phase, error)
                continue
            results[-1][name] = InRound(calibration_s=calibration_s, ran=ran)
            took = middle(ran.outcome, seconds_of)
            print(f"{phase}, round {number + 1} of {rounds}: {name}, {took:.3f} s an epoch", flush=True)
    return [each for each in results if each]


def accuracy_of(bench: Bench[CompareConfig], contender: Contender) -> Outcome | None:
    """A run that is evaluated after each epoch; None where it failed."""
    workload = replace(contender.workload, epochs=bench.config.accuracy_epochs, validate_every=1)
    try:
        return bench.run(replace(contender, workload=workload), "accuracy").outcome
    except RunFailed as error:
        bench.failed(contender, "accuracy", error)
        return None


def by_cache(contenders: Mapping[str, Contender], percents: Sequence[int]) -> dict[str, Contender]:
    """The contenders that have caches, with each size."""
    return {
        f"{name}, cache {percent} %": replace(contender, cache=percent, sweep={"cache_percent": percent})
        for percent in percents
        for name, contender in contenders.items()
        if contender.system.has_cache
    }


def by_batch(contenders: Mapping[str, Contender], sizes: Sequence[int]) -> dict[str, Contender]:
    """All contenders, with each batch size."""
    return {
        f"{name}, batch {size}": replace(
            contender, workload=replace(contender.workload, batch_size=size), sweep={"batch_size": size}
        )
        for size in sizes
        for name, contender in contenders.items()
    }
