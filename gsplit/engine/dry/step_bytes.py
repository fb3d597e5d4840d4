"""What a training step takes of the memory of a device, as a dry run measured it."""

from __future__ import annotations

from dataclasses import dataclass

from gsplit.engine.feed import MOST_BEGUN


@dataclass(frozen=True, kw_only=True)
class StepBytes:
    """Bytes of one trainer, the one whose split takes most; each as an allocator hands it out."""

    weights: int
    """Bytes of the weights and buffers of the model."""
    kept: int
    """Bytes that stay between steps: weights, their gradients, and the state of the optimizer."""
    mini_batch: int
    """Bytes of one mini-batch that is loaded: features, labels, edges."""
    loading: int
    """Bytes beside it while it is being loaded."""
    step: int
    """Most bytes in a step, the mini-batch and what is kept among them."""
    slot: int
    """Bytes of all splits of a mini-batch, as samplers hand them over in the host's memory."""
    between: int
    """Bytes when the next mini-batch is there and the last one not gone."""

    @property
    def activations(self) -> int:
        """Bytes of a step beside what is kept and the mini-batch: activations and gradients of rows."""
        return max(0, self.step - self.kept - self.mini_batch)

    def peak(self, prefetch: int) -> int:
        """Most bytes of tensors that are alive in training.

        Args:
            prefetch: mini-batches loaded ahead, one of which may be at it while the step is computed.
        """
        ahead = prefetch * self.mini_batch
        return ahead + max(self.step + (self.loading if prefetch else 0), self.between + self.loading)

    def reserved(self, prefetch: int) -> int:
        """Bytes that the allocator holds: memory of mini-batches that the device is behind with is not free yet."""
        return self.peak(prefetch) + MOST_BEGUN * self.mini_batch
