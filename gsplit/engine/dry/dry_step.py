"""A dry run of one training step: of the real model, on a real mini-batch, on a device that computes nothing.

What the run's own sampler draws is known to the last edge, and what the model makes of it is found by making it:
forward, loss, backward, the sum of the gradients, and the step of the real optimizer, with the kernels that
accelerators use, or those of the CPU. Nobody is asked for the rows of other trainers; theirs have the sizes that the
segment says.

A small step is made with zeros on the CPU, in less time than it takes to import what ``meta`` needs. A large one is
made on the device ``meta``, where shapes are all there is, in the time of a small one. A model that looks at values
(``item()``, a library's own kernels), or wants autocast, cannot run there, and is computed on the CPU, until an
operation has taken too much memory or time. With the kernels of the CPU it is always computed there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gsplit.data import Layout
from gsplit.engine.dry.live_bytes import AsAccelerators, Bound, Copies, LiveBytes
from gsplit.engine.dry.step_bytes import StepBytes
from gsplit.engine.dry.typed_loads import TypedLoads, typed_loading, typed_numbers
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.level_widths import widths_of
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.run import Run
from gsplit.engine.step import backward
from gsplit.engine.strategy import copied_dtype
from gsplit.engine.tasks.named import task_of
from gsplit.errors import InputError
from gsplit.kernels import StoredRows, library_alone
from gsplit.limits import host_memory
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.optim import Steps, optimizer_of
from gsplit.parallel import Member
from gsplit.parallel.mailboxes import Mailboxes
from gsplit.sampling import MicroBatches, SamplerSpec, Segment
from gsplit.supply.ring import Handle, extents_of
from gsplit.supply.tickets import Ticket

FEWEST, MOST = 2, 32
"""Mini-batches that are sampled, of which the largest is computed; the smaller they are, the less alike."""
MOST_EDGES = 1 << 20
"""Edges from which on the fewest will do."""
SMALL = 1 << 30
"""Rows of all levels times weights of the model up to which a step takes the CPU a moment."""

CPU_SHARE = 0.5
"""Share of the memory that is available to which a step on the CPU is let come."""
CPU_S = 60.0
"""Seconds that it is let take."""

logger = logging.getLogger(__name__)


def step_bytes(
    run: Run, layout: Layout, spec: SamplerSpec, num_batches: int, *, on_host: bool = False
) -> StepBytes | None:
    """Return what a training step of a run takes of a device; no process is started, and nothing is written.

    Args:
        run: as decided.
        layout: to sample from.
        spec: how mini-batches are sampled.
        num_batches: number of mini-batches of an epoch.
        on_host: with the kernels of the CPU, which keep less than those of accelerators; where that would take too
            much memory or time, as without it.

    Returns:
        None where the model fails; what trainers say of it, they say themselves.

    Raises:
        InputError: for a model that cannot be trained on blocks.
    """
    with torch.random.fork_rng(devices=[]):
        segment, slot = largest_split(run, layout, spec, num_batches)
        of_host = (("cpu", True),) if on_host else ()
        for device, core in (*of_host, *((name, False) for name in _devices(run, segment))):
            try:
                return replace(measured(run, layout, segment, torch.device(device), on_host=core), slot=slot)
            except InputError:
                raise
            except Exception as error:  # of a user's model, or of operations that look at values
                logger.debug("a step on %s fails: %s: %s", device, type(error).__name__, error)
                why = error
    logger.warning("what training takes of a device is not known, for its dry run fails: %s", why)
    return None


def _devices(run: Run, segment: Segment) -> tuple[str, ...]:
    """Return where to try a step, in this order."""
    work = sum(map(sum, segment.levels)) * sum(p.numel() for p in run.new_model().parameters())
    # ``meta`` has no autocast: layers of one type go by their rows, those of several take what autocast gives them.
    known = run.precision.autocast in (None, None if segment.is_typed else run.precision.rows)
    return ("meta", "cpu") if work > SMALL and known else ("cpu",)


def largest_split(run: Run, layout: Layout, spec: SamplerSpec, num_batches: int) -> tuple[Segment, int]:
    """The split that takes most of the first mini-batches of a run, and bytes of the largest of these in a slot."""
    numbers_of = numbers_of_levels(run, layout)
    micro_batches = MicroBatches(layout, spec)
    largest, most, edges, slot = None, -1, 0, 0
    for batch in range(min(MOST, num_batches)):
        if batch >= FEWEST and edges > MOST_EDGES:
            break
        end = 0
        for sampler in micro_batches.sample_all(0, batch):
            end = extents_of(sampler, end)[-1][1]
            for split in range(sampler.parts):
                segment = sampler.segment(split)
                edges += segment.num_edges
                if (taken := segment.num_bytes + numbers_of(segment) * run.dtype.itemsize) > most:
                    largest, most = segment, taken
        slot = max(slot, end)
    assert largest is not None
    return largest, slot


def numbers_of_levels(run: Run, layout: Layout) -> Callable[[Segment], int]:
    """Make what counts the numbers of all levels of a split."""
    if layout.graph.schema.is_typed:
        return typed_numbers(run, layout)
    widths = widths_of(run.new_model(), layout.graph.num_features, run.config.layers)
    return lambda segment: sum(size * width for size, width in zip(segment.level_sizes, widths, strict=True))


def measured(run: Run, layout: Layout, segment: Segment, device: torch.device, *, on_host: bool = False) -> StepBytes:
    """Make two steps on the same split, one after the other as in training, and count.

    Args:
        run, layout: of the training.
        segment: the split.
        device: ``meta``, or the CPU, where it is computed.
        on_host: with the CPU's own kernels, and rows that these read where they lie.
    """
    bound = None
    if device.type == "cpu":
        bound = Bound(num_bytes=int(CPU_SHARE * host_memory().available_bytes), seconds=CPU_S)
    kernels, loads = (nullcontext(), Copies()) if on_host else (library_alone(), AsAccelerators())
    with kernels, loads, LiveBytes(device.type, bound) as live:
        step = _Step(run, layout, segment, device, on_host=on_host)
        live.add([*step.parameters, *step.model.buffers()])
        weights = live.now
        first = step.load()
        mini_batch = live.now - weights
        step.make(first, 0)  # of the optimizer there is no state yet
        second = step.load()
        between = live.now
        del first
        live.restart()
        step.make(second, run.config.accumulate - 1)
        most = live.peak
        del second
        step.forget()
        return StepBytes(
            weights=weights,
            kept=live.now,
            mini_batch=mini_batch,
            loading=0 if step.lie else _loading(run, layout, segment),
            step=most,
            slot=segment.num_bytes,
            between=between,
        )


def _loading(run: Run, layout: Layout, segment: Segment) -> int:
    """Bytes beside a mini-batch while its features come: rows as they are stored, before they are where they belong.

    Rows of the host alone, in the type of the model, come at once.
    """
    if layout.graph.schema.is_typed:
        return typed_loading(run, layout, segment)
    features, copied = layout.graph.features, copied_dtype(run.config, layout)
    assert features is not None
    stored = features.dtype.itemsize if copied is None else copied.itemsize
    if run.strategy.cache_size is None and stored == run.precision.rows.itemsize:
        return 0
    places = 0 if run.strategy.cache_size is None else 16  # int64, where they are and where they go
    return len(segment.vertices) * (features.shape[1] * stored + places)


class _Step:
    """The parts of a trainer that a step takes, on a device."""

    def __init__(
        self, run: Run, layout: Layout, segment: Segment, device: torch.device, *, on_host: bool = False
    ) -> None:
        self._run, self._segment, self._device = run, segment, device
        graph = layout.graph
        self.model = run.new_model().train().to(device, run.dtype)
        self._task = task_of(run, graph, device)
        self._loads: _Loads | TypedLoads
        if graph.schema.is_typed:
            self._loads = TypedLoads(run, layout, device)
        else:
            self._loads = _Loads(run, layout, device, self.model, on_host=on_host)
        self.lie, trained = self._loads.lie, self._loads.trained
        own = [] if trained is None else [trained]
        self.parameters = [*self.model.parameters(), *own]
        """Those of the model, and rows that are trained."""
        weights = [p for p in self.model.parameters() if p.requires_grad]
        optimizers = [optimizer_of(run.config, each) for each in (weights, own) if each]
        for group in (group for each in optimizers for group in each.param_groups) if not on_host else ():
            group["foreach"] = True  # as on accelerators, where it takes more memory
        self._reduced: Any = None
        self._on_host = on_host
        member = Member(rank=0, world=1, device=device)
        self._steps = Steps(run.config, optimizers, weights, trained, member, 2 * run.config.accumulate)

    def load(self) -> MiniBatch:
        """The mini-batch, as the feed loads it."""
        run, segment = self._run, self._segment
        carrier = Silent(in_places=self._on_host) if segment.parts > 1 else None
        comm = BatchComm(carrier, ExchangeCounters(), self._device, exchange_dtype=run.exchange_dtype)
        return self._loads.mini_batch(segment, comm, Handle(ticket=Ticket(number=0, epoch=0, batch=0)))

    def make(self, mini_batch: MiniBatch, batch: int) -> None:
        """Make a step as :func:`gsplit.train.loop.step` does, and hold what that holds until it has the next one."""
        _, loss, weight, counted = self._task.forward(self.model, mini_batch, precision=self._run.precision)
        self._reduced = backward(self._steps, loss, weight, counted)
        self._steps.end(0, batch, counted)

    def forget(self) -> None:
        """Let go of the last step."""
        self._reduced = None


class _Loads:
    """Makes mini-batches of one type whose features are zeros, or read where they lie.

    Args:
        run, layout: of the training.
        device: where they shall be.
        model: of the run.
        on_host: as trainers on the CPU have them.
    """

    trained = None
    """No rows are trained."""

    def __init__(
        self, run: Run, layout: Layout, device: torch.device, model: torch.nn.Module, *, on_host: bool
    ) -> None:
        self._run, self._device = run, device
        self._loader = SplitLoader.from_host(  # rows are made, not loaded
            layout, run.needs, device=device, dtype=run.dtype, estimate=run.config.estimate
        )
        rows = copied_dtype(run.config, layout)
        as_they_are = run.strategy.cache_size is None and rows in (None, run.precision.rows)
        as_they_are = as_they_are and self._loader.features.stores and not run.config.normalize_features
        self.lie = on_host and as_they_are and bool(getattr(model, "reads_stored_rows", False))
        """Whether rows are read where they lie, as trainers on the CPU do."""

    def mini_batch(self, segment: Segment, comm: BatchComm, handle: Handle) -> MiniBatch:
        """The share of a split of a mini-batch."""
        x: Tensor | StoredRows
        if self.lie:
            x = self._loader.features.stored(segment.vertices)
        else:
            shape = len(segment.vertices), self._loader.layout.graph.num_features
            x = torch.zeros(shape, dtype=self._run.precision.rows, device=self._device)
        share = None if self._run.config.estimate == "ratio" else 1.0
        return self._loader.mini_batch(segment, comm, handle=handle, x=x, share_of_whole=share)


class Silent(Mailboxes):
    """Mailboxes that nobody else looks into: what is received has its size, and is zeros.

    Args:
        in_places: several tensors are filled one by one, as through memory; else a piece for all comes before them,
            as process groups receive it.
    """

    def __init__(self, *, in_places: bool = True) -> None:
        """Take no memory."""
        self._in_places = in_places

    def start(
        self, out: Tensor | Sequence[Tensor], sent: Tensor, receive_counts: Sequence[int], send_counts: Sequence[int]
    ) -> Callable[[], None]:
        """Send nothing; there is nothing to wait for, and zeros come."""
        places = [out] if isinstance(out, Tensor) else out
        piece = None if self._in_places or isinstance(out, Tensor) else sent.new_empty(sum(receive_counts))
        for place in places:
            place.zero_()
        del piece  # until here it is there
        return lambda: None
