"""Whether a training step fits an accelerator: asked before any process is started."""

from __future__ import annotations

from gsplit.data import Layout
from gsplit.device import accelerator
from gsplit.engine.dry.step_bytes import StepBytes
from gsplit.engine.rows.reserve import reserve_of
from gsplit.engine.run import Run
from gsplit.engine.strategy import check_cache
from gsplit.errors import InputError
from gsplit.features.room import floor_bytes, sharers_of
from gsplit.units import binary


def check_step(run: Run, layout: Layout) -> None:
    """Refuse a run whose step, or whose cache beside it, is more than its accelerators have in all.

    What they have free only trainers know, who look at it before they take their caches.

    Raises:
        InputError: with what the step takes and what there is.
    """
    if run.step is None:
        return
    total, sharers = accelerator.smallest_bytes(run.config.device), sharers_of(run.config.device, run.trainers)
    if (line := why_not(run.step, run, total, sharers)) is not None:
        raise InputError(line)
    check_cache(run.config, run.strategy, layout, working_bytes=reserve_of(run, layout))


def why_not(step: StepBytes, run: Run, total: int, sharers: int) -> str | None:
    """Why a step does not fit a device of so many bytes, with what to do; None where it does."""
    config = run.config
    needed, there = step.reserved(config.prefetch), (total - floor_bytes(total)) // sharers
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
