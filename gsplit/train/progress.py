"""How far a run is: what a checkpoint must remember beside weights and optimizer."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gsplit.sampling.tickets import Position
from gsplit.train.feed import MiniBatch
from gsplit.train.metrics import STAGES, TRAFFIC


@dataclass(kw_only=True)
class Progress:
    """Where the run stands, and the sums of the epoch at work over the mini-batches done (of this trainer)."""

    epoch: int = 0
    """Whole epochs done."""
    done: set[int] = field(default_factory=set)
    """Mini-batches done in the epoch at work."""
    seconds: float = 0.0
    loss_sum: Tensor | float = 0.0
    """Sum over mini-batches of loss times targets; a tensor on the device, so that adding does not wait."""
    targets: int = 0
    traffic: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TRAFFIC, 0))
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Seconds."""
    batches_since_checkpoint: int = 0

    @property
    def batch(self) -> int:
        """How many mini-batches are done in the epoch at work."""
        return len(self.done)

    def position(self) -> Position:
        """For the tickets that are left: what was done ahead of the first mini-batch that was not."""
        first_left = next(batch for batch in itertools.count() if batch not in self.done)
        ahead = sorted(batch for batch in self.done if batch > first_left)
        return Position(epoch=self.epoch, batch=self.batch, ahead=ahead)

    def add(self, mini_batch: MiniBatch, loss: Tensor, reduced_bytes: int) -> None:
        """Count a mini-batch that was just computed."""
        segment, exchanged = mini_batch.segment, mini_batch.lane.counters
        self.done.add(segment.batch)
        self.batches_since_checkpoint += 1
        self.loss_sum = self.loss_sum + loss.double() * segment.num_targets
        self.targets += segment.num_targets
        for name, count in {
            "sampled_edges": segment.num_edges,
            "computed_edges": segment.num_edges,
            "computed_vertices": sum(segment.level_sizes[1:]),
            "loaded_rows": mini_batch.loaded.rows,
            "host_to_device_bytes": mini_batch.loaded.host_to_device_bytes,
            "exchange_forward_bytes": exchanged.forward_bytes,
            "exchange_backward_bytes": exchanged.backward_bytes,
            "exchange_messages": exchanged.forward_messages + exchanged.backward_messages,
            "all_reduce_bytes": reduced_bytes,
        }.items():
            self.traffic[name] += count
        for stage, seconds in mini_batch.seconds.items():
            self.stages[stage] += seconds

    def mean_loss(self) -> float:
        return float(self.loss_sum) / max(1, self.targets)

    def next_epoch(self) -> None:
        self.epoch += 1
        self.done = set()
        self.seconds = 0.0
        self.loss_sum = 0.0
        self.targets = 0
        self.traffic = dict.fromkeys(TRAFFIC, 0)
        self.stages = dict.fromkeys(STAGES, 0.0)

    def state(self, traffic: dict[str, int], stages: dict[str, float]) -> dict[str, Any]:
        """For a checkpoint; ``traffic`` and ``stages`` are the sums over all trainers."""
        return {
            "epoch": self.epoch,
            "done": sorted(self.done),
            "seconds": self.seconds,
            "loss_sum": float(self.loss_sum),
            "targets": self.targets,
            "traffic": traffic,
            "stages": stages,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], rank: int, device: torch.device) -> Progress:
        """What :meth:`state` gave. Trainer 0 takes over the sums of all; they will be summed again."""
        state = {**state, "done": set(state["done"])}
        progress = cls(**{**state, "loss_sum": torch.tensor(state["loss_sum"], dtype=torch.float64, device=device)})
        if rank != 0:
            progress.traffic = dict.fromkeys(TRAFFIC, 0)
            progress.stages = dict.fromkeys(STAGES, 0.0)
        return progress
