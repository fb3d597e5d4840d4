"""A record of docs/results/data out of what comparisons or ablations wrote (experiments.compare, .ablation).

    python -m tools.comparison_record work/*/comparison.json --out docs/results/data/comparison.json
    python -m tools.comparison_record work/*/ablation.json --out docs/results/data/ablation.json

Every row gets the ``dataset``, ``model``, ``hidden``, ``heads``, ``trainers`` and ``batch`` of its comparison, so
that one record holds several. ``tables`` are those of the file (docs/formats.md), and ``graphs``: the
``dataset`` and ``balance_train_targets`` of its parts. Of sweeps it has ratios alone, what others took over what we
did. ``--machine`` is a key of machines.json.
"""

from __future__ import annotations

import datetime
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from experiments.ablation.config import AblationConfig
from experiments.compare.config import OURS, CompareConfig
from experiments.compare.report import settings_of
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.fields import Checked, flag_of
from gsplit.config.flags import Positional
from gsplit.errors import InputError
from gsplit.files import read_json

KINDS: dict[str, tuple[type[Checked], tuple[str, ...]]] = {
    "compare": (
        CompareConfig,
        ("systems", "ratios", "accuracy", "search", "by_cache", "by_batch", "noise", "not_run"),
    ),
    "ablation": (AblationConfig, ("changes", "ratios", "exchange", "noise", "not_run")),
}
"""Experiment -> its flags, and the tables that are kept."""
SWEEPS = {"by_cache": "cache_percent", "by_batch": "batch_size"}
"""Tables of sweeps, and what is varied in each."""


@dataclass(frozen=True, kw_only=True)
class RecordConfig(Checked):
    """A record of docs/results/data out of what comparisons wrote."""

    comparisons: Annotated[tuple[Path, ...], Positional]
    """Files comparison.json, or files ablation.json."""
    out: Path
    """The record to write; one that is there is replaced."""
    machine: str = "cpu2"
    """Where they ran: a key of docs/results/data/machines.json."""
    tables: tuple[str, ...] = ()
    """Keep these tables alone, such as exchange: what was counted on a busy machine, without its times."""
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())
    """When they ran."""


def record_of(
    results: list[dict[str, Any]], *, machine: str, date: str, only: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The record of some comparisons, or of some ablations; ``only`` names the tables to keep, by default all."""
    kinds = {kind_of(result) for result in results}
    if len(kinds) > 1:
        raise InputError("a record holds comparisons or ablations, not both")
    kept = KINDS[kinds.pop()][1]
    if unknown := set(only) - set(kept):
        raise InputError(f"unknown table {min(unknown)!r}; choose from {', '.join(kept)}")
    kept = only or kept
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in ("graphs", *kept)}
    for result in results:
        settings, quality = result["settings"], result["dataset"]["partition"]["quality"]
        own = {name: settings[name] for name in ("dataset", "model", "hidden", "heads")}
        own |= {"trainers": settings["gpus"], "batch": settings["batch_size"]}
        tables["graphs"].append({**own, "balance_train_targets": quality["balance_train_targets"]})
        for name in kept:
            rows = result["tables"].get(name, [])
            swept = SWEEPS.get(name)
            tables[name] += [{**own, **row} for row in (over_ours(rows, swept) if swept else rows)]
    return {
        "commands": [command_of(kind_of(result), result["settings"]) for result in results],
        "date": date,
        "machine": machine,
        "versions": {name: version for name, version in results[0]["versions"].items() if version},
        "source": "--json",
        "tables": tables,
    }


def over_ours(rows: list[dict[str, Any]], swept: str) -> list[dict[str, Any]]:
    """What others took of a sweep over what we took by the same value of what is varied; seconds are no results.

    Args:
        rows: of ``by_cache`` or ``by_batch``.
        swept: the key of what is varied.

    Returns:
        For each other system and value that we ran ``epoch``, ``edges`` and ``loaded``, which is None where we load
        nothing.
    """
    ours = {row[swept]: row for row in rows if row["system"] == OURS}
    return [
        {
            "system": row["system"],
            swept: row[swept],
            "rounds": row["rounds"],
            **{
                name: round(row[key] / ours[row[swept]][key], 4) if ours[row[swept]][key] else None
                for name, key in (("epoch", "epoch_s"), ("edges", "edges"), ("loaded", "loaded_bytes"))
            },
        }
        for row in rows
        if row["system"] != OURS and row[swept] in ours
    ]


def kind_of(result: dict[str, Any]) -> str:
    """Which experiment wrote it."""
    return "ablation" if "studies" in result["settings"] else "compare"


def command_of(kind: str, settings: dict[str, Any]) -> str:
    """The command of an experiment: the flags that are not the defaults."""
    defaults = settings_of(KINDS[kind][0]())
    words = ["python", "-m", f"experiments.{kind}"]
    for name, value in settings.items():
        if value == defaults.get(name) or name in ("work", "out"):
            continue
        words.append(flag_of(name))
        if value is not True:
            words += words_of(name, value)
    return shlex.join(words)


def words_of(name: str, value: Any) -> list[str]:
    """The value of a flag: numbers with commas, names one after the other."""
    if not isinstance(value, list):
        return [str(value)]
    return value if name in ("studies", "changes") else [",".join(map(str, value))]


def command(arguments: list[str]) -> None:
    """Write the record that the arguments ask for."""
    config = cli.parse(RecordConfig, arguments, prog="python -m tools.comparison_record")
    results = []
    for path in config.comparisons:
        try:
            result = read_json(path)
            result["settings"], result["dataset"]["partition"]["quality"]
            result["tables"]["changes" if kind_of(result) == "ablation" else "systems"]
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{path} is no comparison.json or ablation.json that was finished") from None
        results.append(result)
    if not results:
        raise InputError("name the files comparison.json or ablation.json")
    write_json(config.out, record_of(results, machine=config.machine, date=config.date, only=config.tables))


if __name__ == "__main__":
    cli.main(command)
