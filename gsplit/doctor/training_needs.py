"""Memory that a training by mini-batches takes, of the host and of each trainer's accelerator.

Nothing here has a formula for what another module knows: a step takes what a dry run of it took, and evaluation and
caches are asked of the modules that refuse what does not fit. The plans of the whole graph are those that
``gsplit train --strategy full --dry-run`` shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gsplit.data import Layout, open_layout
from gsplit.device import accelerator
from gsplit.engine.dry import StepBytes
from gsplit.engine.engines import engine_of
from gsplit.engine.evaluation.evaluation_memory import bytes_at_most
from gsplit.engine.rows.reserve import reserve_of
from gsplit.engine.run import Run
from gsplit.engine.sampled.engine import bulk_of, sampler_bytes
from gsplit.engine.strategy import cached_bytes, copied_dtype, row_bytes
from gsplit.engine.typed.trained import trained_bytes
from gsplit.engine.whole.private_memory import process_bytes
from gsplit.features.staging import STAGES, pinned_bytes, staged_bytes
from gsplit.launch.resolve import dry_run_of
from gsplit.limits import host_memory
from gsplit.supply.ring import with_headroom

PINNED = "pinned staging"
"""Name of what PyTorch keeps pinned of the host's memory for copies to devices."""
BEHIND = "device behind"
"""Name of what a device takes that is behind its trainer; the CPU never is."""
SHARE_OF_BULKS = 8
"""Part of the free memory that --bulk auto takes for its slots at most."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """Memory that one thing takes."""

    what: str
    """The thing."""
    num_bytes: int
    """Bytes, of all that have it together."""
    about: str
    """Their cause."""


@dataclass(frozen=True, kw_only=True)
class TrainingNeeds:
    """Memory of a training. On the CPU trainers take of the host what a step takes with the CPU's kernels."""

    device: str
    """The type of device that is computed on."""
    trainers: int
    """Number of trainers."""
    samplers: int
    """Number of sampler processes."""
    host: list[Need]
    """Memory of the host, by what takes it."""
    step: StepBytes | None
    """A training step on one trainer with an accelerator's kernels, where a dry run could be made."""
    host_step: StepBytes | None
    """The same with the kernels of the CPU, where the training is on it."""
    accelerator: list[Need]
    """Memory of each trainer's accelerator; what it would be where the training is on the CPU."""
    cache_bytes: int | None
    """Bytes of the largest cache on the device that training is on; None where its size is left to auto."""

    host_bytes: int
    """Bytes of the host, all together."""
    accelerator_bytes: int
    """Bytes of an accelerator, all together."""


def needs_of(run: Run) -> TrainingNeeds:
    """Return what a run takes; nothing is started.

    Args:
        run: as decided, with another strategy than ``full``.
    """
    layout, process = open_layout(run.layout, trusted=True, typed=True), process_bytes()  # before a step takes some
    on_cpu = run.config.device == accelerator.HOST
    cache_bytes = cached_bytes(run.config, run.strategy, layout)
    engine = engine_of(run.config)
    step = run.step or dry_run_of(engine, run)
    host_step = (dry_run_of(engine, run, on_host=True) or step) if on_cpu else None
    on_device = list(_of_a_device(run, step, cache_bytes if not on_cpu else 0))
    processes = Need(what="processes of trainers", num_bytes=run.trainers * process, about="PyTorch and libraries")
    host = [processes, *_supplied(run, layout, step)]
    if on_cpu:
        host += [
            replace(need, what=f"{need.what}, of all", num_bytes=run.trainers * need.num_bytes)
            for need in _of_a_device(run, host_step, 0)
            if need.what != BEHIND
        ]
        if cache_bytes:
            host.append(Need(what="caches", num_bytes=run.trainers * cache_bytes, about="--cache-size"))
    if evaluation := bytes_at_most(run, layout):
        host.append(Need(what="evaluation", num_bytes=evaluation, about="levels and chunks, at most"))
    return TrainingNeeds(
        device=run.config.device,
        trainers=run.trainers,
        samplers=run.samplers,
        host=host,
        step=step,
        host_step=host_step,
        accelerator=on_device,
        cache_bytes=cache_bytes,
        host_bytes=sum(need.num_bytes for need in host),
        accelerator_bytes=sum(need.num_bytes for need in on_device),
    )


def _supplied(run: Run, layout: Layout, step: StepBytes | None) -> Iterator[Need]:
    """Memory that trainers are supplied from: rows that are copied, slots, samplers."""
    config = run.config
    typed = layout.graph.schema.is_typed
    copied = copied_dtype(config, layout) is not None
    reads = config.device != accelerator.HOST and config.loader != "gather" and not typed
    if copied or (reads and accelerator.reads_host_memory(config.device)):
        rows = layout.graph.num_vertices * row_bytes(config, layout)
        yield Need(what="features, copied", num_bytes=rows, about="once for all trainers")
    if typed and (trained := trained_bytes(run, layout)):
        yield Need(what="trained features", num_bytes=trained, about="of all trainers together: --train-features")
    if step is not None and config.device != accelerator.HOST:
        pinned = _staged(run, layout, step, gathered=not (reads and accelerator.reads_host_memory(config.device)))
        pinned += 0 if run.samplers else STAGES * pinned_bytes(step.slot)  # else slots are, or copies from them wait
        yield Need(what=PINNED, num_bytes=run.trainers * pinned, about="rows and ids on their way: --batch-size")
    if run.samplers:
        each = sampler_bytes(config, layout)
        yield Need(
            what="samplers", num_bytes=run.samplers * each, about="maps of vertices: --samplers, --sampler-memory"
        )
        if step is not None:
            size = (config.slots or 0) * (bulk_of(config) or 1) * with_headroom(step.slot)
            if bulk_of(config) is None:
                size = max(size, host_memory().available_bytes // SHARE_OF_BULKS)
            yield Need(what="slots", num_bytes=size, about="sampled mini-batches: --slots, --bulk")


def _staged(run: Run, layout: Layout, step: StepBytes, *, gathered: bool) -> int:
    """Pinned bytes of a trainer for rows on their way; those of several types come one after the other."""
    most, item, typed = 0, run.precision.rows.itemsize, layout.graph.schema.is_typed
    for features in layout.graph.features_by_type:
        if features is not None:
            width = features.shape[1]
            stored = width * features.itemsize if typed else row_bytes(run.config, layout)
            most = max(most, staged_bytes(step.mini_batch // (width * item), stored, gathered=gathered))
    return most


def _of_a_device(run: Run, step: StepBytes | None, cache_bytes: int | None) -> Iterator[Need]:
    """Memory of one trainer's device."""
    if step is None:
        return
    layout = open_layout(run.layout, trusted=True, typed=True)
    prefetch = run.config.prefetch
    rows = ", and rows that are trained" if trained_bytes(run, layout) else ""
    yield Need(what="weights", num_bytes=step.weights, about=f"the model{rows}")
    yield Need(what="gradients and optimizer", num_bytes=step.kept - step.weights, about="kept between steps")
    ahead = 1 + prefetch
    yield Need(what="mini-batches", num_bytes=ahead * step.mini_batch, about=f"{ahead} loaded: --prefetch")
    rest = step.peak(prefetch) - step.kept - ahead * step.mini_batch
    yield Need(what="activations", num_bytes=rest, about="and what loading takes: --batch-size, --fan-out")
    behind = step.reserved(prefetch) - step.peak(prefetch)
    yield Need(what=BEHIND, num_bytes=behind, about="mini-batches that it has not done with")
    more = (reserve_of(run, layout) or 0) - step.reserved(prefetch) if run.step is not None else 0
    if more > 0:
        yield Need(what="evaluation, metrics", num_bytes=more, about="more than a step: --evaluate, --metrics")
    if cache_bytes:
        yield Need(what="cache", num_bytes=cache_bytes, about="--cache-size")
