"""The same run on accelerators and on the CPU, in the trainers of a pool: what differs, bit for bit."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch

import gsplit._core as _core
from gsplit.config.train import TrainConfig
from gsplit.kernels import library_alone
from gsplit.parallel import SPLIT
from support.runs import records, train_in_trainer
from support.steps import CPU

SCHEDULES = ("lazy", "eager", "random:1")
"""When simulated devices begin with what they are given."""


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
        mock.patch("gsplit.engine.sampled.engine.carrier_of", lambda parts: parts.member.along(SPLIT)),
        mock.patch("gsplit.train.trainer.with_mail", lambda member, pieces: member),
    ):
        yield


def differences(member, config: TrainConfig, schedules=SCHEDULES) -> list[str]:
    """What differs between a run on the CPU and the same on the accelerator of a member, under each schedule."""
    on_cpu = replace(config, device="cpu", out=config.out / "cpu", loader="auto")
    with as_on_accelerators():
        wanted = _run(replace(member, device=CPU), on_cpu)
    found = []
    for schedule in schedules if member.device.type == "sim" else ["as it is"]:
        if member.device.type == "sim":
            torch.ops.sim.set_schedule(schedule)
        out = config.out / schedule.replace(":", "-")
        got = _run(member, replace(config, device=member.device.type, out=out))
        assert got.keys() == wanted.keys()
        found += [f"{schedule}: {name}" for name, value in got.items() if not _equal(value, wanted[name])]
    return found


def _run(member, config) -> dict:
    """Everything that a run computes, on this trainer."""
    results = train_in_trainer(member, config)
    weights = {f"weights {name}": weight.cpu() for name, weight in results["after"].items()}
    if member.rank:
        return weights
    return weights | {"logits": results["logits"], "mini-batches": _computed(config.out)}


def _computed(out: Path) -> list[dict]:
    """What was computed and sent in each mini-batch by each trainer, without the seconds."""
    names = ("epoch", "batch", "trainer", "targets", "loss", "traffic")
    return [{name: record[name] for name in names} for record in records(out, "mini-batch")]


def _equal(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool((one == other).all()) if hasattr(one, "shape") else one == other
