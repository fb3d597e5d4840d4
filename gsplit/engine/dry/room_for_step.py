"""Whether a training fits an accelerator: by all that it has before any process is started, then by what is free.

| asked | by | compared with |
|---|---|---|
| before the start | the command | the bytes of the smallest device, less a floor: to ask what is free takes memory |
| before anything is loaded | every trainer | what is free, once the libraries have what they take |

What a context takes, NCCL for each group, and handles and workspaces of products is different on each device and with
each version: trainers have all of it taken first, so that nobody has to guess it.
"""

from __future__ import annotations

import logging

import torch

from gsplit.data import Layout
from gsplit.device import accelerator
from gsplit.engine.dry.step_bytes import StepBytes
from gsplit.engine.rows.reserve import reserve_of
from gsplit.engine.run import Run
from gsplit.engine.strategy import check_cache
from gsplit.engine.whole import fitting
from gsplit.engine.whole.plan_table import plan_of_run
from gsplit.errors import InputError
from gsplit.features.room import sharers_of, usable_bytes
from gsplit.parallel import SPLIT, Member
from gsplit.parallel.collectives import Group, all_gather_object, all_reduce, all_to_all, broadcast_object, size_of
from gsplit.units import binary

logger = logging.getLogger(__name__)


def check_step(run: Run, layout: Layout) -> None:
    """Refuse a run whose step, or whose cache beside it, is more than its accelerators have in all.

    Raises:
        InputError: with what it takes and what there is.
    """
    if (line := _why_not(run, layout, fitting.bytes_there(run))) is not None:
        raise InputError(line)
    if run.step is not None:
        check_cache(run.config, run.strategy, layout, working_bytes=reserve_of(run, layout))


def check_room(run: Run, layout: Layout, member: Member) -> None:
    """Refuse a run whose step is more than its accelerators have free, or warn where it may be, once.

    All trainers make the call, on their grid.

    Raises:
        InputError: with what it takes and what there is.
    """
    if not accelerator.is_one(member.device):
        return
    assert member.grid is not None
    for axis in (SPLIT,) if SPLIT in member.grid.axes else member.grid.axes:
        _use_once(member.along(axis), member.device)
    _use_once(member.group, member.device)
    accelerator.warm_up(member.device)
    member.barrier()  # others may be on the same device
    free, _ = accelerator.free_and_total(member.device)
    least = min(all_gather_object(free, member.group)) // sharers_of(member.device.type, len(member.here))
    line = _why_not(run, layout, usable_bytes(least), warns=True) if member.rank == 0 else None
    if (line := broadcast_object(line, member.group)) is not None:
        raise InputError(line)


def why_not(step: StepBytes, run: Run, there: int) -> str | None:
    """Why a step does not fit into so many bytes of a device, with what to do; None where it does."""
    config = run.config
    needed = step.reserved(config.prefetch)
    if needed <= there:
        return None
    smaller = {
        "neighbours": "a smaller --batch-size or --fan-out",
        "ladies": "a smaller --batch-size or --layer-sizes",
        "fastgcn": "a smaller --batch-size or --layer-sizes",
        "clusters": "fewer --clusters",
    }.get(config.sampling, "a smaller --subgraph")
    where = f"{config.device} has {binary(there)} for a trainer"
    if step.kept + step.mini_batch > there:
        return (
            f"weights, gradients and the state of the optimizer take {binary(step.kept)} and a mini-batch "
            f"{binary(step.mini_batch)}, but {where}; use a smaller model, {smaller}"
        )
    return (
        f"a training step takes {binary(needed)}, {binary(step.activations)} of it for activations and "
        f"{binary(step.mini_batch)} for each mini-batch that is loaded, but {where}; use {smaller}"
    )


def _why_not(run: Run, layout: Layout, there: int, *, warns: bool = False) -> str | None:
    """Why the run's step does not fit into so many bytes of a device; None where it does, or nobody knows.

    Where it may fit, or may not, a warning says so if it is asked for.
    """
    if run.config.strategy != "full":
        return None if run.step is None else why_not(run.step, run, there)
    tight = fitting.why_tight(run, layout, plan_of_run(run), there)
    if tight is None or tight.surely:
        return None if tight is None else tight.line
    if warns:
        logger.warning(tight.line)
    return None


def _use_once(group: Group | None, device: torch.device) -> None:
    """Have a group take the memory that it keeps: NCCL connects and takes buffers at the first call of each kind."""
    size = size_of(group)
    if group is None or size == 1:
        return
    rows = torch.zeros(size, 1, device=device)
    all_reduce(rows, group)
    all_to_all(torch.empty_like(rows), rows, [1] * size, [1] * size, group)
