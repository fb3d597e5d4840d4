"""How far a run is: what a checkpoint must remember beside weights and optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gsplit.sampling import Segment
from gsplit.train.metrics import STAGES, TRAFFIC


@dataclass(kw_only=True)
class Progress:
    """Where the run stands, and the sums of the epoch at work over the mini-batches done (of this trainer)."""

    epoch: int = 0
    """Whole epochs done."""
    batch: int = 0
    """Mini-batches done in the epoch at work."""
    seconds: float = 0.0
    loss_sum: Tensor | float = 0.0
    """Sum over mini-batches of loss times targets; a tensor on the device, so that adding does not wait."""
    targets: int = 0
    traffic: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TRAFFIC, 0))
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Seconds."""
    batches_since_checkpoint: int = 0

    def add(self, segment: Segment, loss: Tensor, num_targets: int, reduced_bytes: int) -> None:
        """Count a mini-batch that was just computed."""
        self.batch += 1
        self.batches_since_checkpoint += 1
        self.loss_sum = self.loss_sum + loss.double() * num_targets
        self.targets += num_targets
        self.traffic["sampled_edges"] += segment.num_edges
        self.traffic["computed_edges"] += segment.num_edges
        self.traffic["computed_vertices"] += sum(segment.level_sizes[1:])
        self.traffic["all_reduce_bytes"] += reduced_bytes

    def mean_loss(self) -> float:
        return float(self.loss_sum) / max(1, self.targets)

    def next_epoch(self) -> None:
        self.epoch += 1
        self.batch = 0
        self.seconds = 0.0
        self.loss_sum = 0.0
        self.targets = 0
        self.traffic = dict.fromkeys(TRAFFIC, 0)
        self.stages = dict.fromkeys(STAGES, 0.0)

    def state(self, traffic: dict[str, int], stages: dict[str, float]) -> dict[str, Any]:
        """For a checkpoint; ``traffic`` and ``stages`` are the sums over all trainers."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "seconds": self.seconds,
            "loss_sum": float(self.loss_sum),
            "targets": self.targets,
            "traffic": traffic,
            "stages": stages,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], rank: int, device: torch.device) -> Progress:
        """What :meth:`state` gave. Trainer 0 takes over the sums of all; they will be summed again."""
        progress = cls(**{**state, "loss_sum": torch.tensor(state["loss_sum"], dtype=torch.float64, device=device)})
        if rank != 0:
            progress.traffic = dict.fromkeys(TRAFFIC, 0)
            progress.stages = dict.fromkeys(STAGES, 0.0)
        return progress
