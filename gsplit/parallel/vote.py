"""How trainers agree to stop where nobody asks all of them: in the sum of the gradients that they make anyway.

A trainer that was asked to stop, or whose host was, adds 1 to a number that is summed with the gradients of a
mini-batch. So all read the same sum after the same mini-batch, and nothing more is sent. On an accelerator it is read
some mini-batches later, when it is there without waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor


class StopVote:
    """One trainer's part in the vote; all trainers make the same calls.

    Args:
        asked: whether somebody has asked this trainer's host to stop.
        late: mini-batches after which a sum is read.
    """

    def __init__(self, asked: Callable[[], bool], late: int) -> None:
        self._asked, self._late = asked, late
        self._sums: deque[Tensor] = deque(maxlen=late + 1)

    def own(self, like: Tensor) -> Tensor:
        """This trainer's number [1], of the type and device of another tensor."""
        return torch.full((1,), float(self._asked()), dtype=like.dtype, device=like.device)

    def note(self, total: Tensor) -> None:
        """Take the sum over all trainers."""
        self._sums.append(total)

    def stops(self) -> bool:
        """Return whether the mini-batch that was trained last is the last one."""
        return len(self._sums) > self._late and bool(self._sums[0] > 0)
