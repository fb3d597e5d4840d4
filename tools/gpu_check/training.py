"""Training runs of the check, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.shared.results import records
from gsplit.files import read_json
from tools.gpu_check.place import Failed, Place

Words = Sequence[object]
LARGEST_DIFFERENCE = 1e-8
"""Between logits in float64 after three epochs, where sums differ in their order only; as in tests/accelerator."""
EXACT = ("--dtype", "float64", "--dropout", 0, "--epochs", 3, "--hidden", 16, "--save-predictions", "logits")
"""Flags of runs that are held against each other."""
TIMED = ("--hidden", 64, "--lr", 0.01, "--epochs", 6)
"""Flags of runs whose times are told."""


def sampled(place: Place) -> tuple[object, ...]:
    """Flags of runs on mini-batches; a rehearsal has enough of these for a trace."""
    return ("--fan-out", "10,10,10", "--batch-size", 16 if place.rehearsed else 4096)


def make(place: Place, preset: str, parts: int) -> str:
    """Make a graph, if it is not there, and a layout of it; the layout's name."""
    store, layout = place.work / preset, place.work / f"{preset}-{parts}"
    if not store.exists():
        place.python(f"graph-{preset}", "-m", "gsplit.data", "import", place.preset(preset), "--out", store)
    if not layout.exists():
        place.python(f"layout-{preset}-{parts}", "-m", "gsplit.partition", store, "--parts", parts, "--out", layout)
    return layout.name


def train(place: Place, name: str, layout: str, *flags: object, device: str = "", **variables: str) -> dict[str, Any]:
    """The summary of a run, which is in ``work/run-NAME``."""
    device = device or place.device
    words: Words = ("-m", "gsplit.train", place.work / layout, "--device", device)
    if device != "cpu":  # one that hangs is told of before the part's time is over
        words = (*words, "--timeout", 2 if place.rehearsed else 1)
    folder = place.work / f"run-{name}"
    place.python(f"train-{name}", *words, "--out", folder, "--overwrite", *flags, **variables)
    return read_json(folder / "summary.json")


def rate(place: Place, name: str, layout: str, *flags: object, **variables: str) -> str:
    """Seconds of the median epoch and of its stages, beside the first one's, in which kernels are compiled."""
    summary = train(place, name, layout, *TIMED, *flags, **variables)
    first, *others = records(place.work / f"run-{name}")
    median = sorted(others, key=lambda epoch: epoch["seconds"])[len(others) // 2]
    stages = [f"{stage} {seconds:.4f}" for stage, seconds in median["stages"].items() if seconds >= 0.00005]
    return (
        f"{median['seconds']:.4f} s an epoch ({', '.join(stages)}), {first['seconds']:.2f} s the first; "
        f"loss {summary['loss']:.4f}"
    )


def equals(place: Place, name: str, parts: int, flags: Words, there: Words, variables: dict[str, str]) -> str:
    """Train on the device and on the CPU, and compare the logits of all vertices.

    Args:
        place: where.
        name: of the run on the device.
        parts: of the layout, and trainers.
        flags: of both runs; runs on the CPU with the same ones are made once.
        there: more flags, of the run on the device alone.
        variables: of the environment of that run.

    Raises:
        Failed: where they differ by more than the order of sums explains.
    """
    layout = make(place, "tiny", parts)
    cpu = "-".join(["cpu", str(parts), *map(str, flags)]).replace("--", "")
    if not (place.work / f"run-{cpu}" / "predictions.npy").exists():
        train(place, cpu, layout, *EXACT, *flags, device="cpu")
    train(place, name, layout, *EXACT, *flags, *there, **variables)
    ours, theirs = (np.load(place.work / f"run-{run}" / "predictions.npy") for run in (name, cpu))
    difference = float(np.abs(ours - theirs).max())
    told = f"largest difference of logits {difference:.1e}"
    if not difference <= LARGEST_DIFFERENCE:  # NaN, too
        raise Failed(f"{told}, above {LARGEST_DIFFERENCE:.0e}")
    return told
