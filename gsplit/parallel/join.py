"""How trainers that were spawned on this host join: NCCL where each has a GPU, gloo on the CPU, loopback only."""

from __future__ import annotations

import errno
import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch.torch_version import TorchVersion

from gsplit.device import accelerator, numa, runtime
from gsplit.device.failures import refused_by_device
from gsplit.errors import InputError
from gsplit.host import keep_freed_memory
from gsplit.hosts import Place
from gsplit.parallel.collectives import Group
from gsplit.parallel.connecting import connect
from gsplit.parallel.first_exchange import LIMIT_S, check_exchange
from gsplit.parallel.meeting import LOOPBACK_INTERFACE, Meeting
from gsplit.parallel.member import DEVICE_PATIENCE, PATIENCE, Member, limit_waits

LOOPBACK = "127.0.0.1"
LOOPBACK_S = 1.0
"""Seconds within which a connection over loopback is made."""
UNREACHABLE = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ECONNREFUSED)
"""Errors of a host that does not reach itself."""
TIMEOUT = timedelta(minutes=10)
"""How long trainers wait for each other to start."""
ANSWER = timedelta(seconds=30)
"""How long a process waits for the store to answer it, which waits for no trainer."""
LIBUV_LISTENS = TorchVersion(torch.__version__) >= "2.8"
"""Whether PyTorch's store takes a socket that listens where libuv serves it; before 2.8 its older server does."""
STORE_FILES = 16
"""Files that the process with the store needs for it: 11, and a few that are open while a trainer is started."""
TRAINER_FILES = 4
"""Files that it needs for a trainer: two connections to the store, the pipe it reports through, and its end."""
_made: list[bool] = []
"""Default groups that :func:`joined_at` has made in this process."""


def no_loopback() -> str | None:
    """Why processes of this host cannot reach each other over loopback, with what to do; None where they can.

    PyTorch's store would try for :data:`TIMEOUT`, and look for no signal meanwhile.
    """
    try:
        with socket.socket() as listener:
            listener.bind((LOOPBACK, 0))
            listener.listen()
            with socket.create_connection(listener.getsockname(), timeout=LOOPBACK_S):
                return None
    except TimeoutError:
        why = f"a connection to {LOOPBACK} is not answered; let a firewall allow what goes over lo"
    except OSError as error:
        if error.errno not in UNREACHABLE:
            raise
        why = f"the loopback interface is down ({error.strerror}); bring it up: ip link set lo up"
    return f"the trainers cannot reach each other on this host: {why}"


def _check_files(listener: socket.socket, world: int) -> None:
    """Check that the store can be opened, and trainers can connect to it.

    Where it can open no file more, a store accepts no connection and closes it, or leaves it unanswered, and whoever
    connects tries again for the whole of its timeout, in this process without looking at signals.

    Raises:
        OSError: where too few files may be open.
    """
    with ExitStack() as opened:
        for _ in range(STORE_FILES + TRAINER_FILES * world):
            opened.callback(os.close, os.dup(listener.fileno()))


@contextmanager
def rendezvous(world: int) -> Iterator[int]:
    """The port of a store through which ``world`` processes find each other; it listens on loopback only.

    Raises:
        InputError: where they cannot.
        OSError: where this process may open too few files.
    """
    if (why := no_loopback()) is not None:
        raise InputError(why)
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]
        _check_files(listener, world)
        try:
            store = dist.TCPStore(
                LOOPBACK,
                port,
                world_size=None,
                is_master=True,
                wait_for_workers=False,
                timeout=ANSWER,
                master_listen_fd=os.dup(listener.fileno()),  # which the store closes
                use_libuv=LIBUV_LISTENS,
            )
        except dist.DistError as error:  # no thread, or no file, is left for it
            reason = str(error).splitlines()[0]
            raise InputError(
                f"the trainers cannot find each other on this host: {reason}; allow more open files (ulimit -n) and "
                "processes (ulimit -u)"
            ) from None
        yield port
        del store


def backend_for(device: torch.device) -> str:
    """Return what tensors are sent with: gloo those of the host, and the accelerator's own those on it."""
    if not accelerator.is_one(device):
        return "gloo"
    return f"cpu:gloo,{device.type}:{dist.get_default_backend_for_device(device)}"


def joined(
    rank: int, world: int, port: int, device_type: str, threads: int, patience: timedelta = DEVICE_PATIENCE
) -> AbstractContextManager[Member]:
    """Join the default group as ``rank``, for as long as the process lives.

    The group is not taken down: that would wait, holding Python's lock, for threads of gloo's that may want the same
    lock, and may wait for peers. A trainer's process leaves without (:mod:`gsplit.processes.child`).

    Args:
        rank: of this trainer.
        world: number of trainers.
        port: of the :func:`rendezvous`.
        device_type: ``cpu``, or that of an accelerator: the one of the rank, or shared where there are fewer.
        threads: that PyTorch may use in this process.
        patience: how long trainers wait for each other in a collective of accelerators.

    Raises:
        InputError: where this or the block is refused something by the accelerator, such as memory; where two
            accelerators do not exchange what they should.
    """
    place = Place(rank=rank, world=world, local=rank, here=world, address=LOOPBACK, port=port)
    return _joined(place, partial(_client, port), LOOPBACK_INTERFACE, device_type, threads, patience)


def joined_at(
    meeting: Meeting, device_type: str, threads: int, patience: timedelta
) -> AbstractContextManager[Member]:
    """Join the default group at the place that somebody else has started this trainer at; see :func:`joined`.

    A group that this made before is taken down only where another one is to be made, for that may hang. What its
    training has left in cycles goes before: it would keep that group's threads, and all memory that was mapped. A
    group that somebody else has made, as Ray Train does, stays; beside it is made one of all its members.

    Raises:
        InputError: where the default group of the script is not of all trainers.
    """
    if not dist.is_initialized():
        _made.append(True)
    elif _made:
        gc.collect()
        dist.destroy_process_group()
    else:
        _check_default_group(meeting.place)
    return _joined(meeting.place, meeting.client, meeting.interface, device_type, threads, patience)


def _check_default_group(place: Place) -> None:
    """Check that the default group, which somebody else has made, is of all trainers."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if (rank, world) != (place.rank, place.world):
        raise InputError(
            f"PyTorch's default process group has this process as {rank} of {world}, and {place.by} has started it "
            f"as {place.rank} of {place.world}; drop init_process_group"
        )


@contextmanager
def _joined(
    place: Place,
    client: Callable[[], dist.Store],
    interface: str,
    device_type: str,
    threads: int,
    patience: timedelta,
) -> Iterator[Member]:
    """Join the default group at a place, by clients of a store and a network interface."""
    rank, here = place.rank, place.here
    torch.set_num_threads(threads)
    if device_type == "cpu":
        keep_freed_memory()
    device = torch.device("cpu")
    try:
        if device_type != accelerator.HOST:
            count = accelerator.count(device_type)
            if count < here:
                # NCCL refuses two ranks of one host on one GPU unless they claim to be of different hosts. Only
                # tests come here: the command refuses more trainers than GPUs.
                os.environ.setdefault("NCCL_HOSTID", f"gsplit-{rank}")
            device = torch.device(device_type, place.local % count)
            accelerator.work_on(device)
            places = [runtime.pci_address(torch.device(device_type, other % count)) for other in range(here)]
            numa.bind(places, place.local, threads)
        member = _member(place, client, interface, device, patience)
        yield member
        if accelerator.is_one(device):  # nobody leaves while another may still read what it sent
            accelerator.synchronize(device)
            member.barrier()
    except (RuntimeError, AssertionError) as error:
        line = None if device_type == accelerator.HOST else refused_by_device(error)
        if line is None:
            raise
        raise InputError(f"trainer {rank} on {device}: {line}") from None


def _client(port: int) -> dist.TCPStore:
    """A connection to the store of a :func:`rendezvous`."""
    store = dist.TCPStore(LOOPBACK, port, world_size=None, is_master=False, timeout=ANSWER)
    store.set_timeout(TIMEOUT)
    return store


def _member(
    place: Place, client: Callable[[], dist.Store], interface: str, device: torch.device, patience: timedelta
) -> Member:
    """This trainer in PyTorch's default group, whose members each work on their device and can exchange rows."""
    rank, world = place.rank, place.world
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(variable, interface)
    store = client()
    # A client that waits answers to nobody, so on accelerators the one that looks for whom it waits is another.
    group_store = client() if accelerator.is_one(device) else store
    beside: list[Group] = []

    def make_group() -> None:
        if dist.is_initialized():  # by somebody else, with limits of theirs
            beside.append(dist.new_group(backend=backend_for(device), timeout=PATIENCE))
            return
        dist.init_process_group(
            backend_for(device), store=group_store, rank=rank, world_size=world, timeout=PATIENCE,
            device_id=device if accelerator.is_one(device) else None,
        )  # fmt: skip

    if accelerator.is_one(device):
        limit_s = min(LIMIT_S, patience.total_seconds())
        connect(store, rank, world, device, TIMEOUT.total_seconds(), limit_s, make_group)
    else:
        make_group()
    member = Member.of_default_group(device, patience, hosts=place.hosts)
    if beside:
        member = replace(member, group=beside[0], backend=backend_for(device))
    limit_waits(member.group, device, patience)
    group_store.set_timeout(PATIENCE)  # all have started; through it they also meet in groups made later
    check_exchange(member, store, min(LIMIT_S, patience.total_seconds() / 4))
    return member
