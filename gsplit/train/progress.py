"""How far a run is, and where its time goes: what a checkpoint must remember beside weights and optimizer."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gsplit.bars import tqdm
from gsplit.device import accelerator
from gsplit.engine.minibatch import MiniBatch
from gsplit.parallel import Member
from gsplit.parallel.between_hosts import BESIDE, OF_MINI_BATCH, SENT
from gsplit.parallel.collectives import all_gather
from gsplit.runs.log import STAGES, finite, traffic_names
from gsplit.supply.tickets import Position


@dataclass
class Lap:
    """The stages of one mini-batch on one trainer."""

    _seconds: dict[str, float] = field(default_factory=dict)
    _events: list[tuple[str, Any, Any]] = field(default_factory=list)

    def seconds(self) -> dict[str, float]:
        """Seconds of each stage. An accelerator must have come that far: synchronise before."""
        for stage, start, end in self._events:
            self._seconds[stage] = start.elapsed_time(end) / 1000
        self._events.clear()
        return self._seconds


class StageClock:
    """Takes the time of each stage: on a GPU by events, read once an epoch, so that measuring never waits."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lap = Lap()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Take the time of the block as that of a stage."""
        with torch.profiler.record_function(stage):
            yield from self._timed(stage)

    def _timed(self, stage: str) -> Iterator[None]:
        start_s = time.perf_counter()
        if accelerator.is_one(self._device) and stage != "wait":  # the host waits, not the device
            start, end = (accelerator.timed_event(self._device) for _ in range(2))
            start.record()
            yield
            end.record()
            self._lap._events.append((stage, start, end))
        else:
            yield
            self._lap._seconds[stage] = time.perf_counter() - start_s

    def lap(self) -> Lap:
        """The stages since the last call."""
        lap, self._lap = self._lap, Lap()
        return lap


Counts = dict[Any, int]
"""Counts by name (:func:`gsplit.runs.log.traffic_names`), and where there are several types of vertices also by pairs
of a type and a name."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """The counts and times of one mini-batch on this trainer."""

    batch: int
    num_targets: int
    """Number of targets of all trainers."""
    loss: Tensor
    """Loss of all targets; on the device, so that nobody waits for it."""
    counts: Counts
    ahead: dict[str, float]
    """Seconds that it took to sample and load."""
    lap: Lap

    def seconds(self) -> dict[str, float]:
        """Seconds of each stage; see :meth:`Lap.seconds`."""
        return dict.fromkeys(STAGES, 0.0) | self.ahead | self.lap.seconds()


def mini_batch_counts(mini_batch: MiniBatch, reduced_bytes: int) -> Counts:
    """Return what is counted of a mini-batch that was just computed."""
    exchanged = mini_batch.comm.counters
    by_type = {
        (type_, name): count
        for number, (type_, counts) in enumerate(mini_batch.counts_by_type.items())
        for name, count in {
            **counts,
            "exchange_forward_bytes": exchanged.bytes_of_types["forward", number],
            "exchange_backward_bytes": exchanged.bytes_of_types["backward", number],
        }.items()
    }
    return {
        **mini_batch.counts,
        **mini_batch.loaded.by_name(),
        "exchange_forward_bytes": exchanged.forward_bytes,
        "exchange_backward_bytes": exchanged.backward_bytes,
        "exchange_forward_messages": exchanged.forward_messages,
        "exchange_backward_messages": exchanged.backward_messages,
        **exchanged.moves,
        "all_reduce_bytes": reduced_bytes,
        **SENT.take(OF_MINI_BATCH),
        **by_type,
    }


def as_recorded(counts: Counts) -> dict[str, dict[str, Any]]:
    """Return counts as records have them: ``traffic``, and ``traffic_by_type`` where some are of a type."""
    traffic = {name: count for name, count in counts.items() if isinstance(name, str)}
    by_type: dict[str, dict[str, int]] = {}
    for name, count in counts.items():
        if not isinstance(name, str):
            by_type.setdefault(name[0], {})[name[1]] = count
    return {"traffic": traffic, **({"traffic_by_type": by_type} if by_type else {})}


@dataclass(kw_only=True)
class Progress:
    """The state of a run, and the sums of the current epoch over the mini-batches done."""

    epoch: int = 0
    """Whole epochs done."""
    done: set[int] = field(default_factory=set)
    """Mini-batches done in the current epoch."""
    seconds: float = 0.0
    loss_sum: Tensor | float = 0.0
    """Sum over mini-batches of loss times weight; a tensor on the device, so that adding does not wait."""
    weight: Tensor | float = 0.0
    """Sum over mini-batches of what their targets weigh."""
    targets: int = 0
    """Number of targets of the mini-batches done."""
    traffic: Counts = field(default_factory=dict)
    """Sums over all trainers, without what is still in ``fresh``."""
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Seconds, likewise."""
    own_edges: int = 0
    """Edges that this trainer computed in the current epoch, since this start of the run."""
    fresh: list[Computed] = field(default_factory=list)
    """Mini-batches of this trainer that are in no file yet."""
    batches_since_checkpoint: int = 0
    first_not_finite: int | None = None
    """The first mini-batch of the current epoch whose loss was not finite, of those that are written down."""
    unvalidated: bool = False
    """Whether scores were wanted in the middle of the epoch, after the mini-batches done, and the run stopped."""

    @property
    def batch(self) -> int:
        """Number of mini-batches that are done in the current epoch."""
        return len(self.done)

    def position(self) -> Position:
        """Return where the tickets left begin, and what was done ahead of the first mini-batch that was not."""
        first_left = next(batch for batch in itertools.count() if batch not in self.done)
        ahead = sorted(batch for batch in self.done if batch > first_left)
        return Position(epoch=self.epoch, batch=self.batch, ahead=ahead)

    def add(self, mini_batch: MiniBatch, lap: Lap, loss: Tensor, weight: Tensor | float, reduced_bytes: int) -> None:
        """Count a mini-batch that was just computed, whose targets weigh ``weight`` together."""
        self.done.add(mini_batch.batch)
        self.batches_since_checkpoint += 1
        self.loss_sum = self.loss_sum + loss.double() * weight
        self.weight = self.weight + weight
        self.targets += mini_batch.num_targets
        self.own_edges += mini_batch.counts["computed_edges"]
        self.fresh.append(
            Computed(
                batch=mini_batch.batch,
                num_targets=mini_batch.num_targets,
                loss=loss.clone(),  # of a view of all gradients
                counts=mini_batch_counts(mini_batch, reduced_bytes),
                ahead=mini_batch.seconds,
                lap=lap,
            )
        )

    def mean_loss(self) -> float:
        """Mean loss of the targets of the current epoch; not a number where there were none."""
        weight = float(self.weight)
        return float(self.loss_sum) / weight if weight else math.nan

    def line(self, num_batches: int, epochs: int, seconds: float) -> str:
        """Return where the run stands, for people; reading the loss waits for the device.

        Args:
            num_batches: number of mini-batches of an epoch.
            epochs: number of epochs of the run.
            seconds: spent on the mini-batches that are done in the current epoch.
        """
        each_s = seconds / max(1, self.batch)
        left = num_batches - self.batch + (epochs - self.epoch - 1) * num_batches
        return (
            f"Epoch {self.epoch + 1:02d} | mini-batch {self.batch} of {num_batches} | loss {self.mean_loss():.4f} | "
            f"{self.targets / max(seconds, 1e-9):,.0f} targets/s | {tqdm.format_interval(left * each_s)} left"
        )

    def next_epoch(self) -> None:
        """Begin the next epoch with nothing done."""
        self.epoch += 1
        self.done = set()
        self.first_not_finite = None
        self.seconds = 0.0
        self.loss_sum = 0.0
        self.weight = 0.0
        self.targets = 0
        self.own_edges = 0
        self.traffic = {}
        self.stages = dict.fromkeys(STAGES, 0.0)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint remembers; nothing is fresh any more."""
        assert not self.fresh
        return {
            "epoch": self.epoch,
            "done": sorted(self.done),
            "seconds": self.seconds,
            "loss_sum": float(self.loss_sum),
            "weight": float(self.weight),
            "targets": self.targets,
            "traffic": self.traffic,
            "stages": self.stages,
            **({"unvalidated": True} if self.unvalidated else {}),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], device: torch.device) -> Progress:
        """Return what :meth:`state` gave."""
        loss_sum = torch.tensor(state["loss_sum"], dtype=torch.float64, device=device)
        weight = state.get("weight", state["targets"])  # checkpoints of earlier releases have targets alone
        return cls(**{**state, "weight": weight, "done": set(state["done"]), "loss_sum": loss_sum})


class Every:
    """Says when some seconds have passed since it last said so.

    Args:
        seconds: between two times; 0: never.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._since_s = seconds, time.monotonic()

    def due(self) -> bool:
        """Return whether it is time again."""
        if not self._seconds or time.monotonic() - self._since_s < self._seconds:
            return False
        self._since_s = time.monotonic()
        return True


def gather_counts(progress: Progress, member: Member, layers: int) -> list[dict[str, Any]]:
    """Add what is fresh to the sums of the epoch; all trainers make the call, after the same mini-batches.

    What trainers have sent to other hosts beside mini-batches is added, too.

    Returns:
        On every trainer the records of all, one for each mini-batch and trainer (docs/formats.md, "Run").
    """
    fresh, progress.fresh = progress.fresh, []
    names: tuple[Any, ...] = traffic_names(layers)
    names += tuple(name for name in (fresh[0].counts if fresh else ()) if name not in names)
    accelerator.synchronize(member.device)  # the events of the stages are over
    beside = SENT.take(BESIDE)
    columns = names + tuple(beside)
    rows = [(computed.counts | dict.fromkeys(beside, 0), computed.seconds()) for computed in fresh]
    if beside:
        rows.append((dict.fromkeys(names, 0) | beside, dict.fromkeys(STAGES, 0.0)))
    own = torch.zeros(len(rows), len(columns) + len(STAGES), dtype=torch.float64)  # exact for counts below 2**53
    for row, (counts, seconds) in zip(own, rows, strict=True):
        values = [*(counts[name] for name in columns), *(seconds[name] for name in STAGES)]
        row[:] = torch.tensor(values, dtype=torch.float64)
    tables = all_gather(own, member.everyone)
    totals = torch.stack(tables).sum(dim=(0, 1)).tolist()
    for name, count in zip(columns, totals, strict=False):
        progress.traffic[name] = progress.traffic.get(name, 0) + int(count)
    for name, seconds_ in zip(STAGES, totals[len(columns) :], strict=True):
        progress.stages[name] += seconds_
    losses = torch.stack([computed.loss for computed in fresh]).tolist() if fresh else []
    if progress.first_not_finite is None:
        bad = (computed.batch for computed, loss in zip(fresh, losses, strict=True) if not math.isfinite(loss))
        progress.first_not_finite = next(bad, None)
    return [
        _record(progress.epoch, computed, loss, rank, names, table[i].tolist())
        for i, (computed, loss) in enumerate(zip(fresh, losses, strict=True))
        for rank, table in enumerate(tables)
    ]


def _record(
    epoch: int, computed: Computed, loss: float, rank: int, names: tuple[Any, ...], values: list[float]
) -> dict[str, Any]:
    counts, seconds = values[: len(names)], values[-len(STAGES) :]
    return {
        "kind": "mini-batch",
        "epoch": epoch + 1,
        "batch": computed.batch,
        "trainer": rank,
        "targets": computed.num_targets,
        "loss": finite(loss),
        "stages": {name: round(s, 6) for name, s in zip(STAGES, seconds, strict=True)},
        **as_recorded({name: int(count) for name, count in zip(names, counts, strict=True)}),
    }
