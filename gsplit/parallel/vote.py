"""How trainers agree to stop where nobody asks all of them: in the sum of the gradients that they make anyway.

A trainer that was asked to stop, or whose host was, adds 1 to a number that is summed with the gradients of a
mini-batch. So all read the same sum after the same mini-batch, and nothing more is sent. From an accelerator it is
copied as it comes, and read some mini-batches later: then the device has come so far, or is waited for in any case
(:mod:`gsplit.engine.feed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gsplit.device import accelerator


class StopVote:
    """One trainer's part in the vote; all trainers make the same calls.

    Args:
        asked: whether somebody has asked this trainer's host to stop.
        late: mini-batches after which a sum is read.
    """

    def __init__(self, asked: Callable[[], bool], late: int) -> None:
        self._asked, self._late = asked, late
        self._sums: deque[tuple[Tensor, Any]] = deque(maxlen=late + 1)

    def own(self, like: Tensor) -> Tensor:
        """This trainer's number [1], of the type and device of another tensor."""
        return torch.full((1,), float(self._asked()), dtype=like.dtype, device=like.device)

    def note(self, total: Tensor) -> None:
        """Take the sum over all trainers [1]."""
        if not accelerator.is_one(total.device):
            self._sums.append((total, None))
            return
        copied = torch.empty(1, dtype=total.dtype, pin_memory=True)
        copied.copy_(total, non_blocking=True)
        self._sums.append((copied, accelerator.current_stream(total.device).record_event()))

    def stops(self) -> bool:
        """Return whether the mini-batch that was trained last is the last one."""
        if len(self._sums) <= self._late:
            return False
        total, there = self._sums[0]
        if there is not None:
            there.synchronize()
        return bool(total > 0)
