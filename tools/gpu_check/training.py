"""Training runs of the check, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.shared.results import records
from gsplit.files import read_json
from tools.gpu_check.place import Failed, Place

Words = Sequence[object]
FloatArray = NDArray[np.float64]
LARGEST_DIFFERENCE = 1e-8
"""Between logits in float64 after three epochs, where sums differ in their order only; as in tests/accelerator."""
ALIKE = ("--dropout", 0, "--epochs", 3, "--hidden", 16, "--save-predictions", "logits")
"""Flags of runs that are held against each other."""
EXACT = (*ALIKE, "--precision", 64)
"""Those of runs that only the order of sums tells apart."""
ROUNDED = 4
"""How much further from float64 than the CPU's roundings: PyTorch's operations round what our kernels do not, as in
tests/accelerator/test_mixed.py."""
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


def train(
    place: Place, name: str, layout: str, *flags: object, device: str = "", starter: Words = (), **variables: str
) -> dict[str, Any]:
    """The summary of a run, which is in ``work/run-NAME``; a starter stands before the command, as torchrun does."""
    device = device or place.device
    words: Words = (*starter, "-m", "gsplit.train", place.work / layout, "--device", device)
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


def equals(
    place: Place,
    name: str,
    parts: int,
    flags: Words,
    there: Words,
    variables: dict[str, str],
    starter: Words = (),
    preset: str = "tiny",
) -> str:
    """Train on the device and on the CPU in float64, and compare the logits of all vertices.

    Args:
        place: where.
        name: of the run on the device.
        parts: of the layout, and trainers.
        flags: of both runs; runs on the CPU with the same ones are made once.
        there: more flags, of the run on the device alone.
        variables: of the environment of that run.
        starter: of that run; see :func:`train`.
        preset: of the graph.

    Raises:
        Failed: where they differ by more than the order of sums explains.
    """
    theirs = _on_the_cpu(place, parts, *EXACT, *flags, preset=preset)
    train(place, name, make(place, preset, parts), *EXACT, *flags, *there, starter=starter, **variables)
    difference = _apart(_logits(place, name), theirs)
    told = f"largest difference of logits {difference:.1e}"
    if not difference <= LARGEST_DIFFERENCE:  # NaN, too
        raise Failed(f"{told}, above {LARGEST_DIFFERENCE:.0e}")
    return told


def nears(place: Place, precision: str) -> str:
    """Train in a mixed precision on the device and on the CPU, and hold their logits against those of float64.

    Raises:
        Failed: where the device's roundings take it further from float64 than they explain.
    """
    mixed = (*ALIKE, "--precision", precision)
    exact, theirs = _on_the_cpu(place, 1, *EXACT), _on_the_cpu(place, 1, *mixed)
    train(place, precision, make(place, "tiny", 1), *mixed)
    ours = _apart(_logits(place, precision), exact)
    told = f"logits differ from those of float64 by {ours:.1e}, the CPU's by {_apart(theirs, exact):.1e}"
    if not ours <= ROUNDED * _apart(theirs, exact):
        raise Failed(told)
    return told


def _on_the_cpu(place: Place, parts: int, *flags: object, preset: str = "tiny") -> FloatArray:
    name = "-".join(["cpu", str(parts), *map(str, flags)]).replace("--", "")
    if not (place.work / f"run-{name}" / "predictions.npy").exists():
        train(place, name, make(place, preset, parts), *flags, device="cpu")
    return _logits(place, name)


def _logits(place: Place, name: str) -> FloatArray:
    return np.load(place.work / f"run-{name}" / "predictions.npy").astype(np.float64)


def _apart(ours: FloatArray, theirs: FloatArray) -> float:
    return float(np.abs(ours - theirs).max())
