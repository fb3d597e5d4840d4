"""The scale of a loss whose gradients are float16: as PyTorch's ``GradScaler``, agreed on by all trainers.

The smallest gradients of float16 would be 0, so the loss is multiplied before backward, and gradients are divided
behind it. Where one of them is not finite the scale was too large: no step is made, and the scale is halved. After
:data:`GROWTH_INTERVAL` steps, one after the other, it is doubled. Gradients are looked at once they are those of all
trainers, so that all see the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

INITIAL, GROWTH, BACKOFF = 2.0**16, 2.0, 0.5
GROWTH_INTERVAL = 2000
"""Steps without a gradient that is not finite, one after the other, after which the scale grows."""


class LossScale:
    """A factor of losses, and the number of steps that were left out for it."""

    def __init__(self) -> None:
        self.factor = INITIAL
        """What the loss is multiplied by."""
        self.overflowed = False
        """Whether a gradient was not finite, of the mini-batches that the next step is made of."""
        self._skipped = self._tracker = 0

    def unscale(self, gradients: list[Tensor], *, finite: bool) -> None:
        """Divide gradients, in place, by the factor; where they are not finite they become 0, for no step is made.

        Args:
            gradients: of a mini-batch.
            finite: whether those of all trainers are, which all say alike.
        """
        self.overflowed = self.overflowed or not finite
        if finite:
            torch._foreach_mul_(gradients, 1 / self.factor)  # by a power of two, which is exact
        else:
            torch._foreach_zero_(gradients)

    def update(self) -> bool:
        """Change the factor where a step is due; returns whether the step is to be made."""
        overflowed, self.overflowed = self.overflowed, False
        if overflowed:
            self.factor, self._tracker = self.factor * BACKOFF, 0
            self._skipped += 1
        else:
            self._tracker += 1
            if self._tracker == GROWTH_INTERVAL:
                self.factor, self._tracker = self.factor * GROWTH, 0
        return not overflowed

    def take_skipped(self) -> int:
        """Return how many steps were left out since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint remembers; the same on all trainers."""
        return {
            "scale": self.factor,
            "growth_tracker": self._tracker,
            "overflowed": self.overflowed,
            "skipped": self._skipped,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what :meth:`state` gave."""
        self.factor, self._tracker = state["scale"], state["growth_tracker"]
        self.overflowed, self._skipped = state["overflowed"], state["skipped"]
