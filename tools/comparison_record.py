"""A record of docs/results/data out of what comparisons wrote (experiments.compare).

    python -m tools.comparison_record work/*/comparison.json --out docs/results/data/comparison.json

Every row gets the ``dataset``, ``model``, ``hidden``, ``heads``, ``trainers`` and ``batch`` of its comparison, so
that one record holds several. ``tables`` are those of comparison.json (docs/formats.md), and ``graphs``: the
``dataset`` and ``balance_train_targets`` of its parts. ``--machine`` is a key of machines.json.
"""

from __future__ import annotations

import datetime
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from experiments.compare.config import CompareConfig
from experiments.compare.report import settings_of
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.fields import Checked, flag_of
from gsplit.errors import InputError
from gsplit.files import read_json

TABLES = ("systems", "ratios", "accuracy", "search", "by_cache", "by_batch", "noise", "not_run")


@dataclass(frozen=True, kw_only=True)
class RecordConfig(Checked):
    """A record of docs/results/data out of what comparisons wrote."""

    comparisons: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Files comparison.json."""
    out: Path
    """The record to write; one that is there is replaced."""
    machine: str = "cpu2"
    """Where they ran: a key of docs/results/data/machines.json."""
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())
    """When they ran."""


def record_of(results: list[dict[str, Any]], *, machine: str, date: str) -> dict[str, Any]:
    """The record of some comparisons."""
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in ("graphs", *TABLES)}
    for result in results:
        settings, quality = result["settings"], result["dataset"]["partition"]["quality"]
        own = {name: settings[name] for name in ("dataset", "model", "hidden", "heads")}
        own |= {"trainers": settings["gpus"], "batch": settings["batch_size"]}
        tables["graphs"].append({**own, "balance_train_targets": quality["balance_train_targets"]})
        for name in TABLES:
            tables[name] += [{**own, **row} for row in result["tables"].get(name, [])]
    return {
        "commands": [command_of(result["settings"]) for result in results],
        "date": date,
        "machine": machine,
        "versions": {name: version for name, version in results[0]["versions"].items() if version},
        "source": "--json",
        "tables": tables,
    }


def command_of(settings: dict[str, Any]) -> str:
    """The command of a comparison: the flags that are not the defaults."""
    defaults = settings_of(CompareConfig())
    words = ["python", "-m", "experiments.compare"]
    for name, value in settings.items():
        if value == defaults.get(name) or name in ("work", "out"):
            continue
        words.append(flag_of(name))
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, list) else str(value))
    return shlex.join(words)


def command(arguments: list[str]) -> None:
    """Write the record that the arguments ask for."""
    config = cli.parse(RecordConfig, arguments, prog="python -m tools.comparison_record")
    results = []
    for path in config.comparisons:
        try:
            result = read_json(path)
            result["settings"], result["tables"]["systems"], result["dataset"]["partition"]["quality"]
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{path} is no comparison.json that experiments.compare finished") from None
        results.append(result)
    if not results:
        raise InputError("name the files comparison.json")
    write_json(config.out, record_of(results, machine=config.machine, date=config.date))


if __name__ == "__main__":
    cli.main(command)
