"""A trainer's place among all: its rank, its device, the grid that the trainers form and its groups in it.

Whoever joins the processes is exchangeable: :func:`gsplit.parallel.join.joined` does it for processes that were
spawned on this host. Another joiner initialises PyTorch's default group and calls :meth:`Member.of_default_group`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import numpy as np
import torch
import torch.distributed as dist

from gsplit.host import SharedBuffer
from gsplit.parallel import collectives
from gsplit.parallel.checker import CollectiveChecker
from gsplit.parallel.collectives import Group
from gsplit.parallel.grid import HERE, HOSTS, SPLIT, Grid
from gsplit.parallel.mailboxes import Mailboxes, OverHosts
from gsplit.parallel.vote import StopVote

PATIENCE = timedelta(days=20)
"""How long a trainer waits in a collective of the host: as long as its peers live. One that dies breaks its
connections, and the launcher ends all; one in another collective is found out (:mod:`gsplit.parallel.checker`);
so a trainer that is waited for is only slow, at an evaluation or at writing a checkpoint. Libraries count it in
milliseconds, in 32 bits."""
DEVICE_PATIENCE = timedelta(minutes=30)
"""How long trainers on accelerators wait for each other there, where nobody says otherwise: between devices that
reach each other's memory NCCL has no connection that breaks, and one that hangs is like one that is slow."""


def limit_waits(group: Group | None, device: torch.device, patience: timedelta) -> None:
    """Let a group wait so long at most in collectives of an accelerator; those of the host keep their limit.

    Not the other way round: in PyTorch 2.6, other than in 2.13, gloo keeps the limit that it was made with.
    """
    if group is None or device.type == "cpu":
        return
    backend = group._get_backend(device)
    backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it
    if hasattr(backend, "_set_default_timeout"):  # NCCL's has; another may wait for as long as it was made with
        backend._set_default_timeout(patience)


@dataclass(frozen=True, kw_only=True)
class Member:
    """One trainer among all."""

    rank: int
    """From 0 to ``world`` - 1."""
    world: int
    """Number of trainers."""
    device: torch.device
    """Where this trainer computes."""
    group: Group | None = None
    """All trainers; None only for a trainer that is alone, outside of any group."""
    grid: Grid | None = None
    """How the trainers are laid out; None where nobody asks for a part of them."""
    patience: timedelta = DEVICE_PATIENCE
    """How long it waits for others in a collective of accelerators."""
    made: dict[tuple[int, ...], Group] = field(default_factory=dict)
    """Groups of some of the trainers that were made so far, by their ranks."""
    checker: CollectiveChecker | None = None
    """The collective checker, on which trainers agree about what they do next; None: that is not checked."""
    mail: Mailboxes | None = None
    """Memory through which all trainers tell each other what every mini-batch needs; None: by ``group``."""
    hosts: int = 1
    """Number of hosts; each has as many trainers, with ranks one after the other."""
    backend: str | None = None
    """What groups of trainers are made with; None: what PyTorch's default group was made with."""
    vote: StopVote | None = None
    """How trainers agree to stop, where no launcher asks all of them; None: one does."""

    def __post_init__(self) -> None:
        if self.world % self.hosts:
            raise ValueError(f"{self.world} trainers cannot be dealt out evenly to {self.hosts} hosts")
        if self.grid is not None and self.grid.world != self.world:
            raise ValueError(f"the grid {self.grid} is for {self.grid.world} trainers, not for {self.world}")

    @classmethod
    def of_default_group(
        cls, device: torch.device, patience: timedelta = DEVICE_PATIENCE, *, hosts: int = 1
    ) -> Member:
        """The member that this process is in PyTorch's default group, which somebody has initialised.

        Args:
            device: where it computes.
            patience: how long it waits for others in a collective of accelerators, in groups that it makes.
            hosts: number of hosts.
        """
        rank, world = dist.get_rank(), dist.get_world_size()
        return cls(rank=rank, world=world, device=device, group=dist.group.WORLD, patience=patience, hosts=hosts)

    def on(self, grid: Grid) -> Member:
        """The same member on a grid.

        Raises:
            ValueError: where the grid is for another number of trainers.
        """
        return replace(self, grid=grid)

    def coordinate(self, axis: str) -> int:
        """This trainer's coordinate along an axis of the grid."""
        return self._grid.coordinate(self.rank, axis)

    def along(self, *axes: str) -> Group | None:
        """The group of this trainer along these axes; None where it is alone in it.

        The first call makes the group. All trainers make the same calls in the same order: PyTorch knows a group by
        its ranks and by how many groups the process has made before.
        """
        return self._group_of(self._grid.group(self.rank, *axes))

    @property
    def here(self) -> range:
        """Ranks of the trainers of this host, which map the same memory."""
        first = self.rank - self.local
        return range(first, first + self._by_host.size(HERE))

    @property
    def local(self) -> int:
        """Number of this trainer among those of its host, from 0."""
        return self._by_host.coordinate(self.rank, HERE)

    @property
    def across(self) -> Group | None:
        """The trainers that have this one's number on each host, by host; None on one host.

        The first call makes the group, as :meth:`along` does.
        """
        return None if self.hosts == 1 else self._group_of(self._by_host.group(self.rank, HOSTS))

    @property
    def _by_host(self) -> Grid:
        return Grid.of(**{HOSTS: self.hosts, HERE: self.world // self.hosts})

    def _group_of(self, ranks: tuple[int, ...]) -> Group | None:
        """The group of these ranks, which is made where there is none yet; None for this trainer alone."""
        if len(ranks) == self.world:
            return self.group
        if len(ranks) == 1:
            return None
        if ranks not in self.made:
            group = dist.new_group(list(ranks), PATIENCE, self.backend, use_local_synchronization=True)
            limit_waits(group, self.device, self.patience)
            self.made[ranks] = group
        return self.made[ranks]

    @property
    def everyone(self) -> Group | Mailboxes | None:
        """All trainers, by the quickest way: for what is sent in every mini-batch, or after it."""
        return self.group if self.mail is None else self.mail

    def barrier(self) -> None:
        """Wait for all trainers: in the memory through which those of one host tell each other, or by the group."""
        if self.mail is not None and self.hosts == 1:
            self.mail.meet()
        else:
            collectives.barrier(self.group)

    @property
    def _grid(self) -> Grid:
        assert self.grid is not None, "the member is on no grid"
        return self.grid


def with_checker(member: Member, buffer: SharedBuffer, *, axes: tuple[str, ...] | None = None) -> Member:
    """The same member with a fresh collective checker; all trainers make the call.

    Args:
        member: on a grid.
        buffer: memory for the checker, the same for all of a host, who are compared with each other.
        axes: of the grid, along which rows are exchanged; by default ``split``, or all of them where there is none.
    """
    if member.world == 1:
        return member
    assert member.grid is not None
    if axes is None:
        axes = (SPLIT,) if SPLIT in member.grid.axes else member.grid.axes
    here, local = member.here, member.local
    shape = CollectiveChecker.shape(len(here))
    if local == 0:
        buffer.grow(shape[0] * shape[1] * 8)
    member.barrier()
    words = buffer.view(shape, np.uint64)
    words[2 * local : 2 * local + 2] = 0
    member.barrier()
    group = [rank - here.start for rank in member.grid.group(member.rank, *axes) if rank in here]
    return replace(member, checker=CollectiveChecker(words, local, group, first=here.start))


def with_mail(member: Member, pieces: Sequence[Sequence[SharedBuffer]]) -> Member:
    """The same member with fresh mailboxes for sums over all trainers, on the CPU; all trainers make the call.

    Between hosts the trainers with one number on each of them sum by PyTorch's group what they have of their host's
    sum, a share each.

    Args:
        member: any.
        pieces: memory for them (:meth:`~gsplit.parallel.mailboxes.Mailboxes.fresh`), which nothing else uses.
    """
    if len(member.here) == 1 or member.device.type != "cpu":
        return member
    mail = mailboxes_of(member, pieces, member.here)
    if (across := member.across) is not None:
        mail.over_hosts = OverHosts(
            partial(collectives.all_reduce, group=across), partial(collectives.all_gather, group=across)
        )
    return replace(member, mail=mail)


def mailboxes_of(member: Member, pieces: Sequence[Sequence[SharedBuffer]], ranks: Sequence[int]) -> Mailboxes:
    """Fresh mailboxes of some trainers of this host, by their ranks; all trainers of all hosts make the call."""
    first = member.here.start
    group = [rank - first for rank in ranks]
    return Mailboxes.fresh(pieces, member.local, group, member.barrier, first=first)
