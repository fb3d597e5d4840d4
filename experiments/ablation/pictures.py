"""Pictures of an ablation: ratios to the base, or, after the paper's figures 6 to 9, epochs by what is varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from experiments.ablation.variants import BASE

VARIED = {
    "cache": ("cache-size", "cache of each trainer, % of all feature rows", 0.0),
    "batch": ("batch-size", "batch size, all trainers", None),
}
"""Study -> the flag that it varies, its axis, and its value in the base (None: the batch size of the settings)."""


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write a picture of each study that ran; where they are."""
    tables, settings = result["tables"], result["settings"]
    title = f"{settings['dataset']}, {settings['model']}, hidden {settings['hidden']}, {settings['gpus']} trainers"
    written = []
    for study in dict.fromkeys(row["study"] for row in tables["changes"]):
        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        if study in VARIED:
            flag, label, at_base = VARIED[study]
            points = _points(tables["changes"], study, flag, settings["batch_size"] if at_base is None else at_base)
            axes.plot(*zip(*points, strict=True), marker="o")
            axes.set(xlabel=label, ylabel="seconds an epoch", ylim=(0, None))
        else:
            rows = [r for r in tables["ratios"] if (r["study"], r["what"], r["over"]) == (study, "epoch", BASE)]
            axes.barh([row["change"] for row in rows], [row["ratio"] for row in rows], color="#4477aa")
            axes.axvline(1, color="#bbbbbb")
            axes.set_xlabel("seconds an epoch, over those of the base")
        axes.set_title(f"{study}: {title}", fontsize=9)
        written.append(folder / f"{study}.png")
        figure.savefig(written[-1], dpi=120)
        plt.close(figure)
    return written


def _points(rows: Sequence[Mapping[str, Any]], study: str, flag: str, at_base: float) -> list[tuple[float, float]]:
    """(value of the flag, seconds of an epoch), the base among them, by value."""
    found = []
    for row in rows:
        if row["study"] == study:
            value = at_base if row["change"] == BASE else float(row["change"].removeprefix(f"{flag}=").rstrip("%"))
            found.append((value, row["epoch_s"]))
    return sorted(found)
