"""Four trainers that live as long as the test session; worlds of 2 and 3 are subgroups of them.

Starting a process costs seconds, most of them for imports, so one imports and the others are forked from it before
anything runs. A test sends a function to the pool instead:
``pool.run(3, function, *arguments)`` calls ``function(member, *arguments)`` in three of them and returns the three
results. Functions must be importable by name (module level).
"""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import multiprocessing.connection
import os
import time
import traceback
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from gsplit.data.importers.formats.dgl import import_dgl
from gsplit.engine.rows.shared import Shared
from gsplit.host import die_with_parent
from gsplit.parallel import Member, rendezvous
from gsplit.parallel.join import joined
from gsplit.processes import start
from support.disk import wait_for_no_disk
from support.forked import AUTOLOAD, Nursery, forked_from
from support.garbage import collect_seldom
from support.libraries import HAS_DGL

SIZE = 4
PATIENCE_S = 120.0
TELL_AFTER_S = 100.0
"""When a member that is still at work writes where its threads are, before it is given up."""
SHARED: Shared | None = None
"""In a member: the memory that a Job wants; it can only be passed when a process is spawned."""
OF_HOSTS: tuple[Shared, ...] = ()
"""In a member: the memory of each host, where the trainers count as those of several."""


def shared_of(member: Member) -> Shared:
    """In a member: the memory that the trainers of its host map."""
    shared = SHARED if member.hosts == 1 else OF_HOSTS[member.rank // len(member.here)]
    assert shared is not None
    return shared


class Pool:
    """``kind``: the type of the devices that its ``size`` trainers compute on; of four, worlds may be some."""

    twin: Nursery | None = None
    """With all that tests import, where they have no accelerator."""

    def __init__(self, kind: str = "cpu", size: int = SIZE) -> None:
        self._rendezvous = rendezvous(size)
        self._pipes = [multiprocessing.Pipe() for _ in range(size)]
        self._shared = Shared.create(size)
        self._of_hosts = tuple(Shared.create(size // 2) for _ in range(size))
        port = self._rendezvous.__enter__()
        memory = self._shared, self._of_hosts
        # A GPU's driver is of no use in a process that is forked; the simulated one is not there before.
        serve, processes = (_fork, 1) if kind in ("cpu", "sim") else (_serve, size)
        variables = {AUTOLOAD: "0"} if kind == "sim" else {}
        with mock.patch.dict(os.environ, variables), forked_from(self.twin):
            self._children = start(serve, processes, [theirs for _, theirs in self._pipes], port, memory, kind)

    def run(self, world: int, function, *arguments, **options) -> list:
        waiting = {ours: rank for rank, (ours, _) in enumerate(self._pipes[:world])}
        for ours in waiting:
            ours.send((world, partial(function, **options), arguments))
        results: list = [None] * world
        deadline_s = time.monotonic() + PATIENCE_S
        while waiting:
            # One that failed leaves the others waiting in a collective, so all are listened to at once.
            ready: list[Any] = multiprocessing.connection.wait(list(waiting), max(0.0, deadline_s - time.monotonic()))
            if not ready:
                self.close()
                raise AssertionError(f"ranks {sorted(waiting.values())} did not answer within {PATIENCE_S} s")
            for pipe in ready:
                rank = waiting.pop(pipe)
                kind, results[rank] = pipe.recv()
                if kind == "error":
                    self.close()
                    raise AssertionError(f"rank {rank} of {world} failed:\n{results[rank]}")
        return results

    @property
    def closed(self) -> bool:
        return not self._pipes

    def close(self) -> None:
        self._children.end()
        for pair in self._pipes:
            for end in pair:
                end.close()
        self._pipes = []
        for shared in (self._shared, *self._of_hosts):
            shared.close()
        self._rendezvous.__exit__(None, None, None)


class _OneLoop(dist.ProcessGroupGloo):
    """gloo's groups on one device: each device has a thread that wakes up a hundred times a second, for ever."""

    device: Any = None

    def __init__(self, store, rank, size, timeout):
        if _OneLoop.device is None:
            _OneLoop.device = self.create_device(interface=os.environ["GLOO_SOCKET_IFNAME"])
        kind: Any = dist.ProcessGroupGloo
        options = kind._Options()
        options._devices, options._timeout = [self.device], timeout
        super().__init__(store, rank, size, options)


def _fork(rank, pipes, port, memory, kind) -> None:
    """Trainer 0; the others go with it."""
    importlib.import_module("torch_geometric.nn")  # as dgl, what some tests want in a trainer
    if HAS_DGL:
        import_dgl()
    parent = os.getpid()
    for other in range(1, len(pipes)):
        if os.fork() == 0:
            die_with_parent(parent)
            rank = other
            break
    for other, pipe in enumerate(pipes):
        if other != rank:
            pipe.close()  # or nobody would see a trainer's end
    if kind == "sim":
        del os.environ[AUTOLOAD]  # processes that it starts have the device, too
        importlib.import_module("simulated").register()
    _serve(rank, pipes, port, memory, kind)


def _serve(rank, pipes, port, memory, kind) -> None:
    global SHARED, OF_HOSTS
    SHARED, OF_HOSTS = memory
    collect_seldom()
    wait_for_no_disk()
    vars(dist.distributed_c10d)["ProcessGroupGloo"] = _OneLoop
    pipe = pipes[rank]
    with joined(rank, len(pipes), port, kind, threads=1) as member:
        # All that tests want, made by all: a group that its members alone make is found by how many each has. Six are
        # always together, and make theirs as trainers do.
        size = len(pipes)
        groups = {world: dist.new_group(list(range(world))) for world in range(1 if size == SIZE else size, size + 1)}
        for ranks in ((0, 1), (2, 3), (0, 2), (1, 3)) if size == SIZE else ():
            member.made[ranks] = dist.new_group(list(ranks))
        while True:
            world, function, arguments = pipe.recv()
            faulthandler.dump_traceback_later(TELL_AFTER_S)
            try:
                result = function(replace(member, world=world, group=groups[world]), *arguments)
                assert kind != "sim" or not torch.ops.sim.unmapped_while_registered()
                pipe.send(("result", result))
            except BaseException:
                pipe.send(("error", traceback.format_exc()))
            finally:
                faulthandler.cancel_dump_traceback_later()
