"""Bytes that this trainer sends to other hosts, by what they are for, counted where collectives are called.

A count is of what is sent, without the headers of a network and without what a transport says beside it. It follows
from the collective as gloo does it, which NCCL may do in other ways; ``P`` members, of whom this is number ``r``:

| collective | a member sends |
|---|---|
| all-reduce of n numbers | 2 (n - its share) to the one before it, in a ring |
| all-gather of n numbers each | (P - 1) n to the one before it, in a ring |
| broadcast of n numbers | n to r + 1, r + 2, r + 4, ..., counted from the first, as far as r is below the step |
| all-to-all | to each what is for it |

Bytes for a member on the same host are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

REDUCE, EXCHANGE, NORM = "reduce", "exchange", "norm"
"""What is sent in a mini-batch: gradients with loss and the vote to stop; rows; sums of batch normalisation."""
EVALUATION, COUNT = "evaluation", "count"
"""Beside mini-batches: rows and scores of an evaluation; counts, barriers, and whatever is left."""
OF_MINI_BATCH, BESIDE = (REDUCE, EXCHANGE, NORM), (EVALUATION, COUNT)


def name_of(purpose: str) -> str:
    """The key of ``traffic`` that has the bytes for a purpose."""
    return f"between_hosts_{purpose}_bytes"


@dataclass(frozen=True)
class Across:
    """The members of a group that is on several hosts.

    Args:
        hosts: the host of each member.
        me: number of this one.
    """

    hosts: Sequence[int]
    me: int

    def all_reduce(self, numbers: int, itemsize: int) -> int:
        """Bytes that this member sends to other hosts in an all-reduce of so many numbers."""
        size, me = len(self.hosts), self.me
        share = numbers * (me + 1) // size - numbers * me // size
        return 2 * (numbers - share) * itemsize * self._is_far(me - 1)

    def all_gather(self, num_bytes: int) -> int:
        """Those of an all-gather of so many bytes from each member."""
        return (len(self.hosts) - 1) * num_bytes * self._is_far(self.me - 1)

    def broadcast(self, num_bytes: int, root: int) -> int:
        """Those of a broadcast of so many bytes from a member."""
        size, far, step = len(self.hosts), 0, 1
        place = (self.me - root) % size
        while step < size:
            if place < step and place + step < size:
                far += self._is_far(self.me + step)
            step *= 2
        return far * num_bytes

    def all_to_all(self, bytes_for: Sequence[int]) -> int:
        """Those of an all-to-all that has so many bytes for each member."""
        return sum(num_bytes for member, num_bytes in enumerate(bytes_for) if self._is_far(member))

    def _is_far(self, member: int) -> bool:
        return self.hosts[member % len(self.hosts)] != self.hosts[self.me]


class Sent:
    """What this trainer's process has sent to other hosts since it was asked last."""

    def __init__(self) -> None:
        self.here = 0
        """Trainers of each host; 0: nothing is counted, for there is one host."""
        self._purpose: str | None = None
        self._bytes: dict[str, int] = {}

    def begin(self, world: int, hosts: int) -> None:
        """Count from zero, where there are several hosts."""
        self.here = world // hosts if hosts > 1 else 0
        self._purpose, self._bytes = None, {}

    def add(self, num_bytes: int, purpose: str) -> None:
        """Count what is sent, for a purpose where :meth:`during` names none."""
        purpose = self._purpose or purpose
        self._bytes[purpose] = self._bytes.get(purpose, 0) + num_bytes

    @contextmanager
    def during(self, purpose: str) -> Iterator[None]:
        """Count what is sent in the block for a purpose; in an evaluation all is for that."""
        before = self._purpose
        self._purpose = before if before == EVALUATION else purpose
        try:
            yield
        finally:
            self._purpose = before

    def take(self, purposes: Sequence[str]) -> dict[str, int]:
        """Bytes for each of these purposes since the last time, by the names of ``traffic``; none on one host."""
        if not self.here:
            return {}
        return {name_of(purpose): self._bytes.pop(purpose, 0) for purpose in purposes}


SENT = Sent()
"""Of this process, which is one trainer."""
