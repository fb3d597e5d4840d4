"""Labels of vertices: classes, labels, or numbers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gsplit.device.precision import Precision
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.objective import Objective, check_logits, mini_batch_loss, weight_of
from gsplit.engine.tasks.task import Forward


@dataclass(frozen=True, kw_only=True)
class VertexTask:
    """A :class:`gsplit.engine.tasks.Task` on logits and labels of the targets."""

    objective: Objective
    """Objective of the run."""
    num_classes: int
    """C."""
    whole_weight: Tensor | None = None
    """[] what all training vertices weigh; where mini-batches have a share of it."""

    def forward(self, model: nn.Module, mini_batch: MiniBatch, *, precision: Precision) -> Forward:
        """Compute logits and loss of the own targets."""
        labels, each = mini_batch.labels, mini_batch.target_weights
        logits = precision.called(labels.device, mini_batch.logits, model)
        check_logits(logits, len(labels), self.num_classes)
        share = mini_batch_loss(self.objective, logits, labels, mini_batch.num_targets, each)
        if mini_batch.share_of_whole is None:
            weight = weight_of(self.objective, labels, each)
        else:
            assert self.whole_weight is not None
            weight = self.whole_weight * mini_batch.share_of_whole
        return Forward(logits, mini_batch.comm.tie(share), weight, mini_batch.num_targets)
