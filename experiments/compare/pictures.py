"""Pictures of a comparison, after the paper's figures 6 to 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from experiments.baselines.workload import STAGES

COLOURS = dict(zip(STAGES, ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#bbbbbb"), strict=True))
Rows = Sequence[Mapping[str, Any]]


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write a picture of each table that has rows; where they are."""
    tables, settings = result["tables"], result["settings"]
    title = f"{settings['dataset']}, {settings['model']}, hidden {settings['hidden']}, {settings['gpus']} trainers"
    written = []
    if tables.get("systems"):
        written.append(_save(folder / "epoch.png", title, lambda axes: _epochs(axes, tables["systems"])))
    if tables.get("accuracy"):
        written.append(_save(folder / "accuracy.png", title, lambda axes: _accuracy(axes, tables["accuracy"])))
    for key, column, label in (
        ("by_cache", "cache_percent", "cache of each trainer, % of all feature rows"),
        ("by_batch", "batch_size", "batch size, all trainers"),
    ):
        if tables.get(key):
            written.append(_save(folder / f"{key}.png", title, _by(tables[key], column, label)))
    return written


def _save(path: Path, title: str, fill: Any) -> Path:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    fill(axes)
    axes.set_title(title, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _epochs(axes: Axes, rows: Rows) -> None:
    """Bars by system, stages on top of each other."""
    names, bottoms = [row["system"] for row in rows], [0.0] * len(rows)
    for stage in STAGES:
        heights = [row[f"{stage}_s"] for row in rows]
        axes.bar(names, heights, bottom=bottoms, label=stage, color=COLOURS[stage])
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    rest = [max(0.0, row["epoch_s"] - bottom) for row, bottom in zip(rows, bottoms, strict=True)]
    axes.bar(names, rest, bottom=bottoms, label="other", color="white", edgecolor="#bbbbbb")
    axes.set_ylabel("seconds an epoch")
    axes.legend(fontsize=8)


def _accuracy(axes: Axes, rows: Rows) -> None:
    """Validation accuracy over time."""
    for name in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == name]
        axes.plot([row["seconds"] for row in own], [row["valid_accuracy"] for row in own], marker="o", label=name)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("validation accuracy")
    axes.legend(fontsize=8)


def _by(rows: Rows, column: str, label: str) -> Any:
    """Seconds an epoch by what a sweep varies."""

    def fill(axes: Axes) -> None:
        for name in dict.fromkeys(row["system"] for row in rows):
            own = sorted((row for row in rows if row["system"] == name), key=lambda row: row[column])
            axes.plot([row[column] for row in own], [row["epoch_s"] for row in own], marker="o", label=name)
        axes.set_xlabel(label)
        axes.set_ylabel("seconds an epoch")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)

    return fill
