"""Rows that all trainers of a host read where they lie: two buffers in turn, and a barrier for each use.

Every trainer writes its own rows into the next buffer and waits for the others. Whoever comes through the barrier of
the next use knows that all have entered it, and so have read what they wanted of the buffer before: it may be written
again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.profiler import record_function

from gsplit.host import SharedBuffer
from gsplit.nn.neighbourhood import times
from gsplit.parallel import Member
from gsplit.parallel.mailboxes import Mailboxes


class CommonRows:
    """Memory for rows of all trainers; every trainer makes every call.

    Args:
        member: of this trainer.
        buffers: memory, the same for all trainers.
        mail: mailboxes of all trainers, in which they wait for each other; None: they do so by the group, which takes
            many times as long.
    """

    def __init__(
        self, member: Member, buffers: tuple[SharedBuffer, SharedBuffer], mail: Mailboxes | None = None
    ) -> None:
        self._member, self._buffers, self._turn = member, buffers, 0
        self._mail = mail
        self._mapped: list[Tensor] = [torch.empty(0, dtype=torch.uint8) for _ in buffers]

    def share(self, own: Tensor, sizes: Sequence[int], by: Tensor | None = None) -> Tensor:
        """The rows of all trainers [sum(sizes), ...], by rank; to be read until the call after the next.

        Args:
            own: [sizes[rank], ...] rows of this trainer.
            sizes: numbers of rows of all trainers.
            by: [sizes[rank]] by which the own rows are multiplied; None: 1.

        Raises:
            MemoryError: where the host has no room.
        """
        member = self._member
        if member.world == 1:
            return times(own, by)
        shape = (sum(sizes), *own.shape[1:])
        memory = self._memory(shape[0] * own.shape[1:].numel() * own.itemsize)
        rows = memory.view(own.dtype).view(shape)
        first = sum(sizes[: member.rank])
        with record_function("share rows"):
            mine = rows[first : first + len(own)]
            if by is None:
                mine.copy_(own.detach())
            else:
                torch.mul(own.detach(), by.unsqueeze(1), out=mine)
            if self._mail is None:
                member.barrier()
            else:
                self._mail.meet()
        return rows

    def _memory(self, num_bytes: int) -> Tensor:
        """Bytes of the buffer whose turn it is."""
        turn, self._turn = self._turn, 1 - self._turn
        if len(self._mapped[turn]) < num_bytes:
            # Everybody sees the same sizes, so everybody comes here, or nobody.
            if self._member.rank == 0:
                self._buffers[turn].grow(num_bytes)
            self._member.barrier()
            self._mapped[turn] = torch.from_numpy(self._buffers[turn].view((num_bytes,), "uint8"))
        return self._mapped[turn][:num_bytes]
