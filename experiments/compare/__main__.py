"""``python -m experiments.compare``: see :mod:`experiments.compare`."""

from __future__ import annotations

from typing import Any

from experiments.compare import measuring, report
from experiments.compare.config import QUICK, CompareConfig
from experiments.compare.graphs import prepare
from experiments.compare.measuring import Bench
from experiments.compare.search import Found
from experiments.compare.systems import Contender, missing, system_of
from experiments.shared.experiment import Experiment
from gsplit import cli


def measure(config: CompareConfig) -> dict[str, Any]:
    """All phases, one after the other; what there is so far is saved after each."""
    bench = Bench(name="comparison", config=config, graph=prepare(config))
    result = report.new_result(bench, accuracy=[])
    for name in config.names:
        if reason := missing(name):
            bench.failures.append({"system": name, "phase": "before", "reason": reason})
    contenders, found = searched(bench)
    tables = result["tables"]
    tables["search"] = report.search_rows(found)
    bench.save(result)

    memory = {name: measuring.memory_of(bench, contender) for name, contender in contenders.items()}
    contenders = {name: contender for name, contender in contenders.items() if memory[name] is not None}
    rounds = measuring.run_rounds(bench, contenders, config.pairs, "rounds")
    tables.update(report.main_tables(contenders, rounds, memory))
    bench.save(result)

    measured = {row["system"] for row in tables["systems"]}
    contenders = {name: contender for name, contender in contenders.items() if name in measured}
    for name, contender in contenders.items() if config.accuracy_epochs else ():
        if outcome := measuring.accuracy_of(bench, contender):
            report.add_accuracy(tables, name, outcome)
    bench.save(result)

    sweeps = {
        "by_cache": measuring.by_cache(contenders, config.sweep_cache),
        "by_batch": measuring.by_batch(contenders, config.sweep_batch),
    }
    for key, swept in sweeps.items():
        if swept:
            tables[key] = report.sweep_rows(swept, measuring.run_rounds(bench, swept, config.sweep_pairs, key))
            bench.save(result)
    bench.save(result)
    return result


def searched(bench: Bench[CompareConfig]) -> tuple[dict[str, Contender], dict[str, Found]]:
    """Each system that can run with its fastest setting, and what was tried."""
    contenders, found = {}, {}
    for name in bench.config.names:
        if any(failure["system"] == name for failure in bench.failures):
            continue
        system = system_of(name)
        found[name] = measuring.find_setting(bench, system)
        best = found[name].best
        if best is None:
            reason = found[name].tried[0].reason or ""
            bench.failures.append({"system": name, "phase": "search", "reason": reason})
        else:
            contenders[name] = measuring.contender_of(bench, system, best)
    return contenders, found


command = Experiment(
    "compare",
    CompareConfig,
    measure,
    quick=QUICK,
    shown=measuring.shown,
    wrong=lambda result: any(failure["phase"] != "before" for failure in result["tables"]["not_run"]),
)

if __name__ == "__main__":
    cli.main(command)
