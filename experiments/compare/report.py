"""The results of a comparison: their keys (docs/formats.md, "Comparison"), and as Markdown."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from experiments.compare.config import OURS
from experiments.compare.measuring import Bench
from experiments.compare.pairs import COMPARED, Round, accuracy_rows, best_of, epoch_row, noise_rows, ratio_row
from experiments.compare.search import Found
from experiments.compare.systems import Contender
from experiments.shared.noise import MOST_DEVIATION, cores
from experiments.shared.processes import Memory
from experiments.shared.results import dataset_text
from gsplit.config.fields import Checked
from gsplit.units import binary

PACKAGES = {"torch": "torch", "dgl": "dgl", "torch_geometric": "torch-geometric", "numpy": "numpy"}
Row = Mapping[str, Any]


def versions() -> dict[str, str | None]:
    """Versions of what takes part; null where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name, package in PACKAGES.items():
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


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
    rows = [ratio_row(rounds, name, OURS, what) for what in COMPARED for name in names if name != OURS]
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


def markdown(result: Row) -> str:
    """The tables for readers."""
    settings, tables = result["settings"], result["tables"]
    parts = [f"# Comparison: {settings['dataset']}, {settings['model']}, hidden {settings['hidden']}\n"]
    parts.append(
        f"{dataset_text(result['dataset'])}. Partition: {result['dataset']['partition']['method']}, weights "
        f"{result['dataset']['partition']['weights']}; the largest part has "
        f"{result['dataset']['partition']['quality']['balance_train_targets']:.2f} of the mean of training targets.\n"
    )
    parts.append(
        f"{settings['gpus']} trainers on {result['host']['cores']} cores, {result['host']['threads']} threads each; "
        f"fan-out {','.join(map(str, settings['fan_out']))}, batch size {settings['batch_size']} over all trainers; "
        f"{', '.join(f'{name} {version}' for name, version in result['versions'].items() if version)}.\n"
    )
    for title, note, key, columns in SECTIONS:
        if tables.get(key):
            parts.append(f"## {title}\n\n{note}{table(tables[key], columns)}")
    return "\n".join(parts)


def _s(name: str) -> Callable[[Row], str]:
    return lambda row: "-" if row.get(name) is None else f"{row[name]:.3f}"


def _bytes(name: str) -> Callable[[Row], str]:
    return lambda row: "-" if row.get(name) is None else binary(row[name])


def _plain(name: str) -> Callable[[Row], str]:
    return lambda row: "-" if row.get(name) is None else str(row[name])


def _count(name: str) -> Callable[[Row], str]:
    return lambda row: f"{row[name]:,}"


Columns = Mapping[str, Callable[[Row], str]]
STAGE_COLUMNS: Columns = {
    "epoch, s": lambda row: f"{row['epoch_s']:.3f} ({row['epoch_min_s']:.3f} to {row['epoch_max_s']:.3f})",
    "sampling": _s("sampling_s"),
    "loading": _s("loading_s"),
    "computing": _s("computing_s"),
    "reducing": _s("reducing_s"),
    "waiting": _s("waiting_s"),
}
BYTE_COLUMNS: Columns = {
    "edges": _count("edges"),
    "loaded": _bytes("loaded_bytes"),
    "exchanged": _bytes("exchanged_bytes"),
    "reduced": _bytes("reduced_bytes"),
}
SECTIONS: tuple[tuple[str, str, str, Columns], ...] = (
    (
        "Systems",
        "",
        "systems",
        {"system": _plain("system"), "what it is": _plain("label"), "fastest setting": _plain("setting")},
    ),
    (
        "An epoch",
        "Medians over the rounds (least to most), the first epoch of each run dropped. Stages are those on a\n"
        "trainer's own way, mean of the trainers; exchanges between trainers are part of computing, and waiting for\n"
        "a slower trainer is part of reducing or of the exchange.\n\n",
        "systems",
        {
            "system": _plain("system"),
            **STAGE_COLUMNS,
            "sampled meanwhile": _s("hidden_sampling_s"),
            "loaded meanwhile": _s("hidden_loading_s"),
        },
    ),
    (
        "Work, bytes and memory",
        "Edges and bytes of an epoch, all trainers. Memory is the most of a run of its own: the largest process,\n"
        "and all processes, what they share counted once, mapped files included.\n\n",
        "systems",
        {
            "system": _plain("system"),
            **BYTE_COLUMNS,
            "largest process": _bytes("peak_rss_bytes"),
            "all processes": _bytes("peak_pss_bytes"),
        },
    ),
    (
        "Ratios",
        "Seconds over those of gsplit, round by round; above 1 gsplit takes less.\n\n",
        "ratios",
        {
            "of": _plain("what"),
            "system": _plain("system"),
            "ratio, median (least to most)": lambda row: (
                f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})"
            ),
            "gsplit over it": lambda row: f"{row['inverse']:.2f}",
            "rounds": _plain("rounds"),
            "in quiet rounds": lambda row: (
                "-" if row["quiet_ratio"] is None else f"{row['quiet_ratio']:.2f} ({row['quiet_rounds']})"
            ),
        },
    ),
    (
        "Accuracy",
        "Over all neighbours, after the epoch that is best by validation; `comparison.json` has all epochs.\n\n",
        "systems",
        {
            "system": _plain("system"),
            "epoch": _plain("best_epoch"),
            "validation": _s("valid_accuracy"),
            "test": _s("test_accuracy"),
        },
    ),
    (
        "By cache",
        "",
        "by_cache",
        {"system": _plain("system"), "cache, %": _plain("cache_percent"), **STAGE_COLUMNS, **BYTE_COLUMNS},
    ),
    (
        "By batch size",
        "",
        "by_batch",
        {"system": _plain("system"), "batch size": _plain("batch_size"), **STAGE_COLUMNS, **BYTE_COLUMNS},
    ),
    (
        "Settings tried",
        "",
        "search",
        {
            "system": _plain("system"),
            "memory": _plain("memory"),
            "workers": _plain("workers"),
            "form": lambda row: row["form"] or "-",
            "epoch, s": _s("seconds"),
            "": lambda row: "fastest" if row["chosen"] else row["reason"] or "",
        },
    ),
    (
        "The machine",
        f"A fixed loop on all cores before each run; a round is quiet where it took within {MOST_DEVIATION:.0%} of "
        "the median\nof all. Others: cores' time that processes outside the run used, at most.\n\n",
        "noise",
        {
            "round": lambda row: str(row["round"] + 1),
            "quiet": lambda row: "yes" if row["quiet"] else "no",
            "loop, s": lambda row: f"{row['calibration_min_s']:.3f} to {row['calibration_max_s']:.3f}",
            "others": lambda row: f"{row['others_share']:.0%}",
        },
    ),
    (
        "What did not run",
        "",
        "not_run",
        {"system": _plain("system"), "phase": _plain("phase"), "reason": _plain("reason")},
    ),
)


def table(rows: Sequence[Row], columns: Columns) -> str:
    """The rows in Markdown; a column is its head, and what a row has there."""
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(
        f"| {' | '.join(cell(row).replace('|', '/') for cell in columns.values())} |\n" for row in rows
    )


def new_result(bench: Bench) -> dict[str, Any]:
    """What is known before anything ran."""
    config = bench.config
    return {
        "dataset": bench.graph.facts,
        "settings": settings_of(config),
        "versions": versions(),
        "host": {"cores": cores(), "threads": config.workload(bench.graph.store).threads},
        "tables": {"accuracy": [], "not_run": bench.failures},
        "runs": bench.runs,
    }
