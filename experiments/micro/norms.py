"""Processor time of normalisation with ReLU and dropout behind it on the CPU: PyTorch's over ours, in turn.

    python -m experiments.micro.norms

``forward`` and ``both`` are what PyTorch's operations take, with activation and dropout behind them in one pass of
the core, over what the core's pass of all takes: forward, and forward and backward. ``over_floor`` is what that takes
both ways over reading and writing rows at the bandwidth at which this machine copies memory: forward one read and one
written, of a batch two more read; backward two read and one written, of a batch two more read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from experiments.micro.step import rates
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, from_one_on
from experiments.shared.results import printed
from gsplit import cli
from gsplit.host import keep_freed_memory
from gsplit.nn import BatchNorm
from gsplit.nn.norm import normalised
from gsplit.nn.rowwise.activation import Finish

NORMS: dict[str, Callable[[int], nn.Module]] = {"rms": nn.RMSNorm, "layer": nn.LayerNorm, "batch": BatchNorm}
MOVED = {"rms": 5, "layer": 5, "batch": 9}
"""Rows that are read or written, forward and backward."""


@dataclass(frozen=True, kw_only=True)
class NormsConfig(Flags):
    """Times of normalisations, of which each number is a median of passes that run in turn."""

    rows: Positive = 100_000
    """Rows that are normalised."""
    widths: Annotated[tuple[int, ...], from_one_on("--widths")] = (16, 64, 128, 256)
    """Features of a row."""
    threads: Positive = 1
    """Threads that a pass may use."""
    repeats: Positive = 9
    """Medians are of so many."""


def as_pytorch(norm: nn.Module) -> nn.Module:
    """The same normalisation, but of a class of its own, which the core does not take."""
    norm.__class__ = type("AsPyTorch", (type(norm),), {})
    return norm


def seconds(norm: nn.Module, finish: Finish, x: Tensor, gradients: Tensor) -> tuple[float, float]:
    """Forward, and forward and backward."""
    x.grad = None
    norm.zero_grad()
    start_s = time.process_time()
    out = normalised(norm, x, finish)
    middle_s = time.process_time()
    out.backward(gradients)
    return middle_s - start_s, time.process_time() - start_s


def measure(config: NormsConfig) -> list[dict[str, Any]]:
    """A row for each normalisation and width."""
    torch.set_num_threads(config.threads)
    bandwidth, _ = rates()
    finish, rows = Finish(torch.relu, nn.Dropout(0.5)), []
    for name, make in NORMS.items():
        for width in config.widths:
            x, gradients = torch.randn(config.rows, width, requires_grad=True), torch.randn(config.rows, width)
            ways = [make(width), as_pytorch(make(width))]
            taken = [[seconds(way, finish, x, gradients) for way in ways] for _ in range(config.repeats + 1)][1:]
            forward, both = (median(other[i] / own[i] for own, other in taken) for i in range(2))
            floor_s = MOVED[name] * x.nbytes / bandwidth
            over = median(own[1] for own, _ in taken) / floor_s
            numbers = {"forward": forward, "both": both, "over_floor": over}
            about = {"norm": name, "width": width, "threads": config.threads}
            rows.append(printed({**about, **{key: round(value, 2) for key, value in numbers.items()}}))
    return rows


command = Experiment("micro.norms", NormsConfig, measure)

if __name__ == "__main__":
    keep_freed_memory()  # as trainers do
    cli.main(command)
