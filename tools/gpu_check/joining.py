"""``python -m tools.gpu_check.joining``: trainers join, exchange what both sides know, and say what that takes.

With nobody else on the GPUs. A trainer's memory is what its device lacks: after a first tensor, which takes a
context, after a product, for which a library takes a workspace, and after joining and an all-to-all, for which NCCL
takes buffers.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from gsplit.device import accelerator
from gsplit.parallel import rendezvous
from gsplit.parallel.join import joined
from gsplit.processes import start
from tools.gpu_check.links import gb_per_second
from tools.gpu_check.measured import Measured, devices_of, print_measured

PATIENCE = timedelta(seconds=120)
"""How long trainers wait for each other; a quarter of it for their first exchanges."""
MIB = 1 << 20


def measure(kind: str, gpus: int, mib: int) -> Measured:
    """The slowest trainer's rate, and what the first one's device lacks."""
    with rendezvous(gpus) as port:
        told = start(trainer, gpus, gpus, port, kind, mib).join()
    rate, steps = min(rate for rate, _ in told), told[0][1]
    found = Measured(line=f"{gpus} joined and exchanged what both sides know")
    if gpus > 1:
        found.line += f"; all-to-all {rate:.2f} GB/s"
        found.rates.append(("all-to-all, bytes that a trainer sends", rate, _first_copy(kind, gpus), None))
    if steps:
        found.line += f"; MiB taken after {', '.join(f'{name} {taken // MIB}' for name, _, taken, _ in steps)}"
    for name, free, taken, reserved in steps:
        text = f"{free // MIB} MiB free, {taken // MIB} taken, {reserved // MIB} of them the allocator's"
        found.memory.append((f"after {name}", text))
    return found


def _first_copy(kind: str, gpus: int) -> str:
    """The name of the rate of a copy between two devices, as :mod:`tools.gpu_check.links` has it."""
    first, second = devices_of(kind, gpus)[:2]
    return f"{first} to {second}"


def trainer(rank: int, world: int, port: int, kind: str, mib: int) -> tuple[float, list[tuple[str, int, int, int]]]:
    """GB a second that this trainer sends to others in an all-to-all; its device's memory after each step."""
    device = devices_of(kind, min(world, accelerator.count(kind)) if kind != accelerator.HOST else world)[rank]
    steps: list[tuple[str, int, int, int]] = []

    def look(name: str) -> None:
        if accelerator.is_one(device):
            accelerator.synchronize(device)
            free, total = accelerator.free_and_total(device)
            reserved = int(torch.get_device_module(device).memory_reserved(device))
            steps.append((name, free, total - free, reserved))

    if accelerator.is_one(device):
        accelerator.work_on(device)
    x = torch.ones(512, 512, device=device)
    look("a first tensor")
    x = x @ x
    look("a product")
    with joined(rank, world, port, kind, threads=1, patience=PATIENCE) as member:
        dist.all_reduce(x)
        look("joining (NCCL)")
        rows = (mib << 18) // world * world
        sent = torch.full((rows,), float(rank), device=device)
        got = torch.empty_like(sent)
        rate = gb_per_second(lambda: dist.all_to_all_single(got, sent), sent.nbytes * (world - 1) // world, [device])
        assert torch.equal(got.cpu(), torch.arange(world).float().repeat_interleave(rows // world))
        look("an all-to-all")
        member.barrier()
    return rate, steps


if __name__ == "__main__":
    print_measured(measure)
