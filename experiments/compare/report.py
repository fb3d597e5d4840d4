"""The results of a comparison; docs/formats.md, "Comparison", has their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from experiments.compare.config import OURS
from experiments.compare.measuring import Bench
from experiments.compare.pairs import COMPARED, Round, accuracy_rows, best_of, epoch_row, noise_rows, ratio_row
from experiments.compare.search import Found
from experiments.compare.systems import Contender, base_of
from experiments.shared.processes import Memory
from experiments.shared.results import versions
from experiments.shared.rounds import cores
from gsplit.config.fields import Checked


def settings_of(config: Checked) -> dict[str, Any]:
    """The flags, as JSON has them."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(config).items()}
    return {name: str(value) if name in ("work", "out") else value for name, value in values.items()}


def search_rows(found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """All settings that were tried."""
    return [
        {
            "system": name,
            **asdict(tried.setting),
            "seconds": tried.seconds,
            "chosen": tried.setting == each.best,
            "reason": tried.reason,
        }
        for name, each in found.items()
        for tried in each.tried
    ]


def main_tables(
    contenders: Mapping[str, Contender], rounds: Sequence[Round], memory: Mapping[str, Memory | None]
) -> dict[str, list[dict[str, Any]]]:
    """``systems``, ``ratios`` and ``noise`` of the rounds."""
    names = [name for name in contenders if any(name in each for each in rounds)]
    systems = []
    for name in names:
        watched, contender = memory.get(name), contenders[name]
        systems.append(
            {
                "system": name,
                "label": contender.system.label,
                "setting": contender.setting.name,
                "cache_percent": contender.cache,
                **epoch_row(rounds, name),
                "peak_rss_bytes": watched.rss_bytes if watched else None,
                "peak_pss_bytes": watched.pss_bytes if watched else None,
            }
        )
    ours = [name for name in names if base_of(name) == OURS]
    rows = [
        ratio_row(rounds, name, own, what) for own in ours for what in COMPARED for name in names if name not in ours
    ]
    rows += [ratio_row(rounds, OURS, own, what) for own in ours[1:] for what in COMPARED if OURS in ours]
    return {"systems": systems, "ratios": [row for row in rows if row], "noise": noise_rows(rounds)}


def sweep_rows(contenders: Mapping[str, Contender], rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """An epoch of each system with each value of what is varied."""
    return [
        {"system": contender.system.name, **contender.sweep, **epoch_row(rounds, name)}
        for name, contender in contenders.items()
        if any(name in each for each in rounds)
    ]


def add_accuracy(tables: dict[str, list[dict[str, Any]]], name: str, outcome: Any) -> None:
    """Rows of one system's accuracies, and its best epoch beside its times."""
    row = next(row for row in tables["systems"] if row["system"] == name)
    rows = accuracy_rows(name, outcome, row["epoch_s"])
    tables["accuracy"] += rows
    if best := best_of(rows):
        row.update({key: best[key] for key in ("valid_accuracy", "test_accuracy")} | {"best_epoch": best["epoch"]})


def new_result(bench: Bench[Any], **tables: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known before anything ran, with tables that have no rows yet."""
    config = bench.config
    return {
        "dataset": bench.graph.facts,
        "settings": settings_of(config),
        "versions": versions("torch", "dgl", "torch_geometric", "numpy"),
        "host": {"cores": cores(), "threads": config.trainer_threads},
        "tables": {**tables, "not_run": bench.failures},
        "runs": bench.runs,
    }
