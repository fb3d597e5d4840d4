"""Counts of random models of PyG and DGL that compute, split, what they compute in their library.

    python -m experiments.differential --models 500
    python -m experiments.differential --models 500 --seed 1 --json differential.json
    python -m experiments.differential --quick
    python -m experiments.differential --seed 1 --only 649

A model is drawn for each number: a convolution with its options and an aggregation, what forward takes, norms, skip
connections, jumping knowledge, edge weights, float32 or float64; sometimes a line by hand that no split can honour.
So is what it is trained on: a small graph, with or without loops and vertices without in-edges, and all of its
vertices as targets, half of them, or two, so that trainers have neither targets nor edges.

The library's own process calls the model on the whole graph: one step of SGD, and the logits of all vertices after
it. GSplit does the same, split over 2 and over 3 trainers: one mini-batch with all neighbours, and exact evaluation.
Gradients, parameters and buffers after the step, and logits are compared. Counted are models that are *equal* but for
the rounding of sums in another order, *refused* in a line before anything begins, *wrong* (anything that differs, and
trainers that fail), and *impossible*: those on which the library itself fails.

Models depend on ``--seed`` and their number alone: ``--only`` repeats one. The exit code is 1 where any is wrong. The
keys of ``--json`` are in docs/formats.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("DGLBACKEND", "pytorch")  # without it, DGL says that it writes a file

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Count, Positive, Seed
from gsplit import cli
from gsplit.host import ending_tidily


@dataclass(frozen=True, kw_only=True)
class DifferentialConfig(Flags):
    """Train random models of PyG and DGL for a step, split and in their library; count those that differ."""

    models: Positive = 100
    """Models to draw, some two or three a second."""
    quick: bool = False
    """Take half a minute: 20 models."""
    seed: Seed = 0
    """Seed of all that is random."""
    only: Count | None = None
    """Repeat the model of this number."""


QUICK = DifferentialConfig(models=20, quick=True)


def compared(config: DifferentialConfig) -> dict[str, Any]:
    """Draw the models, compare them, and count."""
    from experiments.differential.draw import draw
    from experiments.differential.judge import ENDS, judge, reason
    from experiments.differential.trainers import Trainers, quiet

    quiet()
    counted = Counter(dict.fromkeys(ENDS, 0))
    kinds: dict[str, Counter[str]] = {}
    refused, found = Counter[str](), []
    numbers = range(config.models) if config.only is None else [config.only]
    with (
        tempfile.TemporaryDirectory(prefix="gsplit-differential-") as folder,
        ending_tidily(),
        Trainers() as trainers,
    ):
        for number in numbers:
            drawn = draw(number, config.seed)
            outcome = judge(drawn, trainers, Path(folder))
            counted[outcome.end] += 1
            kinds.setdefault(drawn.convolution, Counter())[outcome.end] += 1
            if outcome.end == "refused":
                refused[reason(outcome.why)] += 1
            if outcome.end in ("wrong", "impossible"):
                found.append({"number": number, "model": str(drawn), "end": outcome.end, "what": outcome.why})
                print(f"{outcome.end}: {drawn}\n    {outcome.why}", flush=True)
            elif config.only is not None:
                print(f"{outcome.end}: {drawn}" + (f"\n    {outcome.why}" if outcome.why else ""), flush=True)
    return {
        "settings": {"models": config.models, "seed": config.seed, "only": config.only},
        "models": sum(counted.values()),
        "counted": dict(counted),
        "convolutions": {name: dict(ends) for name, ends in sorted(kinds.items())},
        "refused": dict(refused.most_common()),
        "found": found,
    }


command = Experiment(
    "differential",
    DifferentialConfig,
    compared,
    quick=QUICK,
    wrong=lambda found: bool(found["counted"]["wrong"]),
    needs=["torch"],
)

if __name__ == "__main__":
    cli.main(command)
