"""Trainers on accelerators first exchange rows that both sides know, pair by pair, within a limit.

On a new machine this is what fails: copies between two GPUs that hang, or bring other bytes, over a PCIe switch whose
access control sends them through an IOMMU, or over half a broken link (NCCL, Troubleshooting, "GPU Direct"). NCCL
waits for ever then, all processes live, and nobody says which two devices it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from gsplit.errors import InputError
from gsplit.parallel.collectives import Group, all_to_all_within
from gsplit.parallel.connecting import TRY, with_devices, within
from gsplit.parallel.member import Member
from gsplit.waiting import until

LIMIT_S = 60.0
"""Seconds within which all pairs have exchanged their rows."""
TELL_S = 2.0
"""Seconds that trainers have, at most, to tell each other how far they came; those that are well tell nothing."""
POLL_S = 0.01
VALUES = 1 << 16
"""Numbers that a pair exchanges each way, 256 KiB."""
PLACE = "first exchange: place of {}"
"""Key of the store: in which round, and with whom, a trainer came no further."""


def check_exchange(member: Member, store: dist.Store, limit_s: float = LIMIT_S) -> None:
    """Exchange rows with every other trainer, one after the other.

    Args:
        member: a trainer on an accelerator; on the CPU, or alone, nothing is done.
        store: through which trainers have connected, to tell how far they came.
        limit_s: seconds that all of it may take.

    Raises:
        InputError: where two devices do not exchange what they should, with both named.
    """
    group = member.group
    if member.world == 1 or member.device.type == "cpu" or group is None:
        return
    deadline_s = time.monotonic() + limit_s
    for number, partner in enumerate(partners(member.rank, member.world)):
        tell_s = TELL_S
        try:
            # NCCL connects two devices in the first call that sends between them, which may never return.
            left_s = deadline_s - time.monotonic()
            received = within(left_s, member.device, partial(_received, member, partner, group, deadline_s))
        except dist.DistError as error:
            # PyTorch ends a process whose exchange failed a tenth of a second after it has seen that.
            wrong, tell_s = f"cannot exchange rows ({str(error).splitlines()[0]})", 0.0
        else:
            if received is None:
                wrong = f"exchanged nothing within {limit_s:.0f} s"
            elif partner is None or torch.equal(received, _values(partner, member.rank)):
                continue
            else:
                wrong = "exchange other bytes than were sent"
        raise InputError(_blamed(store, member, number, partner, wrong, tell_s))


def partners(rank: int, world: int) -> Iterator[int | None]:
    """Whom a trainer meets, round by round; None in a round that it sits out. Each pair meets once.

    The circle method: of an even number of players one stays in its place and the others move round; with an odd
    number the place that stays is nobody's.
    """
    seats = world + world % 2 - 1
    for turn in range(seats):
        if rank == seats:
            partner = next(i for i in range(seats) if (turn - i) % seats == i)
        else:
            partner = (turn - rank) % seats
            partner = seats if partner == rank else partner
        yield partner if partner < world else None


def _values(sender: int, receiver: int) -> Tensor:
    """Make what one trainer sends another, float32 [VALUES]: whole numbers of each pair and each way alone."""
    return torch.arange(VALUES, dtype=torch.float32) + (1 + sender) * 64 + receiver


def _received(member: Member, partner: int | None, group: Group, deadline_s: float) -> Tensor | None:
    """Receive from a partner float32 [VALUES] on the host, [0] without one; None where nothing came in time."""
    counts = [VALUES if peer == partner else 0 for peer in range(member.world)]
    sent = (torch.empty(0) if partner is None else _values(member.rank, partner)).to(member.device)
    out = torch.zeros(sum(counts), device=member.device)
    return out.cpu() if all_to_all_within(out, sent, counts, counts, group, deadline_s) else None


def _blamed(
    store: dist.Store, member: Member, number: int, partner: int | None, wrong: str, tell_s: float = TELL_S
) -> str:
    """One line that names two devices: those of the first round that did not end, whichever trainer says so.

    Who waits in a later round may only wait for one that waits in an earlier one.
    """
    store.set(PLACE.format(member.rank), f"{number} {-1 if partner is None else partner}")
    heard = dict[int, tuple[int, int]]()

    def all_are_heard() -> bool:
        for rank in range(member.world):
            if rank not in heard and store.check([PLACE.format(rank)]):
                at, other = map(int, store.get(PLACE.format(rank)).split())
                heard[rank] = at, other
        return len(heard) == member.world

    until(all_are_heard, tell_s, POLL_S)
    waiting = [(at, rank, other) for rank, (at, other) in heard.items() if other in heard and heard[other][1] == rank]
    _, *pair = min(waiting, default=(number, member.rank, -1 if partner is None else partner))
    return f"{with_devices(store, [rank for rank in pair if rank >= 0])} {wrong}; {TRY}"
