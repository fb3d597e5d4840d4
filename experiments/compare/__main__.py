"""``python -m experiments.compare``: see :mod:`experiments.compare`."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Mapping
from typing import Any

from experiments.compare import measuring, report
from experiments.compare.config import QUICK, CompareConfig
from experiments.compare.graphs import prepare
from experiments.compare.measuring import Bench
from experiments.compare.search import Found
from experiments.compare.systems import Contender, missing, system_of
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.errors import InputError
from gsplit.files import replace_file

PROG = "python -m experiments.compare"

logger = logging.getLogger(__name__)


def command(arguments: list[str]) -> None:
    config = cli.parse(CompareConfig, arguments, prog=PROG, default=QUICK if "--quick" in arguments else None)
    try:
        config.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {config.out}: {error.strerror}") from None
    bench = Bench(config=config, graph=prepare(config))
    result = report.new_result(bench)
    for name in config.names:
        if reason := missing(name):
            bench.failures.append({"system": name, "phase": "before", "reason": reason})
    contenders, found = searched(bench)
    tables = result["tables"]
    tables["search"] = report.search_rows(found)
    save(config, result)

    memory = {name: measuring.memory_of(bench, contender) for name, contender in contenders.items()}
    contenders = {name: contender for name, contender in contenders.items() if memory[name] is not None}
    rounds = measuring.in_turn(bench, contenders, config.pairs, "rounds")
    tables.update(report.main_tables(contenders, rounds, memory))
    save(config, result)

    measured = {row["system"] for row in tables["systems"]}
    contenders = {name: contender for name, contender in contenders.items() if name in measured}
    for name, contender in contenders.items() if config.accuracy_epochs else ():
        if outcome := measuring.accuracy_of(bench, contender):
            report.add_accuracy(tables, name, outcome)
    save(config, result)

    sweeps = {
        "by_cache": measuring.by_cache(contenders, config.sweep_cache),
        "by_batch": measuring.by_batch(contenders, config.sweep_batch),
    }
    for key, swept in sweeps.items():
        if swept:
            tables[key] = report.sweep_rows(swept, measuring.in_turn(bench, swept, config.sweep_pairs, key))
            save(config, result)
    print(report.markdown(result))
    draw(config, result)
    if any(failure["phase"] != "before" for failure in bench.failures):
        sys.exit(1)


def searched(bench: Bench) -> tuple[dict[str, Contender], dict[str, Found]]:
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


def save(config: CompareConfig, result: Mapping[str, Any]) -> None:
    """Write what there is so far, so that a comparison that is interrupted has not been for nothing."""
    write_json(config.out / "comparison.json", dict(result))
    replace_file(config.out / "comparison.md", report.markdown(result).encode())


def draw(config: CompareConfig, result: Mapping[str, Any]) -> None:
    """Write the pictures, where there is a library to draw them."""
    if importlib.util.find_spec("matplotlib") is None:
        logger.warning("no pictures: matplotlib is not installed; pip install '.[plots]'")
        return
    from experiments.compare.pictures import draw as draw_pictures

    for path in draw_pictures(result, config.out):
        print(f"written: {path}")


if __name__ == "__main__":
    cli.main(command)
