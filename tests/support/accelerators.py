"""The same run on accelerators and on the CPU, in the trainers of a pool: what differs.

Simulated devices have the CPU's kernels and its generator, so they are held to its bits. Real ones, and simulated
ones that were told so, add in another order and draw other masks: there the run is in float64, without dropout, and
numbers may differ by rounding alone.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch

import gsplit._core as _core
from gsplit.config.train import TrainConfig
from gsplit.kernels import library_alone
from gsplit.parallel import SPLIT
from support.runs import records, train_in_trainer
from support.steps import CPU

SCHEDULES = ("lazy", "eager", "random:1")
"""When simulated devices begin with what they are given."""


ROUNDING = 1e-8
"""What float64 may be off by, relative to the largest number beside it or to 1: sums of thousands of terms, each
rounded by 1e-16, through a few steps of training. A bias before batch normalisation has no gradient but that, which
Adam divides by its own size and 1e-8: on an H100 it was 6e-11 from the CPU's."""


def has_cpu_numbers(kind: str) -> bool:
    """Whether a kind of device adds in the CPU's order, and draws its numbers."""
    return kind == "sim" and torch.ops.sim.numbers() == "cpu"


def keep_busy(device: torch.device) -> None:
    """Give a device's current stream work for a hundredth of a second or more: what is given it next is late."""
    x = torch.ones(256, 256, device=device)
    for _ in range(8):
        x = x @ x


@contextlib.contextmanager
def as_on_accelerators():
    """On the CPU what is summed where, and in which order, is what an accelerator sums, for bits to be equal.

    PyTorch's operations are in the place of the core's, and its process group in that of the trainers' memory.
    """
    with (
        library_alone(),
        mock.patch.object(_core, "narrow_fits", return_value=False),
        mock.patch("gsplit.engine.sampled.maker.carrier_of", lambda parts: parts.member.along(SPLIT)),
        mock.patch("gsplit.train.trainer.with_mail", lambda member, pieces: member),
    ):
        yield


def differences(member, config: TrainConfig, schedules=SCHEDULES) -> list[str]:
    """What differs between a run on the CPU and the same on the accelerator of a member, under each schedule."""
    kind = member.device.type
    config = held_to(kind, config)
    on_cpu = replace(config, device="cpu", out=config.out / "cpu", loader="auto")
    with as_on_accelerators():
        wanted = computed(replace(member, device=CPU), on_cpu)
    found = []
    for schedule in schedules if kind == "sim" else ["as it is"]:
        if kind == "sim":
            torch.ops.sim.set_schedule(schedule)
        out = config.out / schedule.replace(":", "-")
        got = computed(member, replace(config, device=kind, out=out))
        assert got.keys() == wanted.keys()
        if has_cpu_numbers(kind):
            found += [f"{schedule}: {name}" for name, value in got.items() if not equal(value, wanted[name])]
        else:
            apart = {name: apart_by(value, wanted[name]) for name, value in got.items()}
            found += [f"{schedule}: {name}, by {off:.1e}" for name, off in apart.items() if not off <= ROUNDING]
    return found


def held_to(kind: str, config: TrainConfig) -> TrainConfig:
    """A run whose numbers a kind of device shares with the CPU: any where it has the CPU's, else to rounding."""
    if has_cpu_numbers(kind):
        return config
    # Rows that travel in bfloat16 are rounded, up here and down there where float64 differs in its last bit.
    return replace(config, dtype="float64", dropout=0.0, attention_dropout=0.0, exchange_dtype="model")


def computed(member, config) -> dict:
    """Everything that a run computes, on this trainer."""
    results = train_in_trainer(member, config)
    weights = {f"weights {name}": weight.cpu() for name, weight in results["after"].items()}
    if member.rank:
        return weights
    return weights | {"logits": results["logits"], "mini-batches": _mini_batches(config.out)}


def _mini_batches(out: Path) -> list[dict]:
    """What was computed and sent in each mini-batch by each trainer, without the seconds."""
    names = ("epoch", "batch", "trainer", "targets", "loss", "traffic")
    return [{name: record[name] for name in names} for record in records(out, "mini-batch")]


def apart_by(one, other) -> float:
    """By how much numbers differ at most, relative to the largest beside them or 1; infinite where all else differs.

    In tensors, arrays, dicts and lists.
    """
    if isinstance(one, dict):
        same = one.keys() == other.keys()
        return max((apart_by(value, other[name]) for name, value in one.items()), default=0.0) if same else math.inf
    if isinstance(one, list):
        same = len(one) == len(other)
        return max(map(apart_by, one, other), default=0.0) if same else math.inf
    if isinstance(one, (float, torch.Tensor, np.ndarray)):
        one, other = (torch.as_tensor(value, dtype=torch.float64) for value in (one, other))
        if one.shape != other.shape:
            return math.inf
        off = float((one - other).abs().max() / other.abs().max().clamp(1.0)) if one.numel() else 0.0
        return math.inf if math.isnan(off) else off  # max() would leave it out
    return 0.0 if one == other else math.inf


def equal(one, other) -> bool:
    """Whether everything is the same, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool((one == other).all()) if hasattr(one, "shape") else one == other
