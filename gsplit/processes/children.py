"""Where processes are born and where they end.

:func:`start` starts one process per rank; :meth:`Children.join` waits for all of them at once. As soon as one
fails the others are killed. The report of the one that failed first is what the parent raises: its peers fail too, a
moment later, of a connection that broke, and must not hide the cause.

Nothing is shared but one pipe a child, which only that child writes to, so a child that is killed can hold no
lock. Children are spawned, never forked, and ask the kernel to be killed with their parent.

While it waits, the parent may have other work (:class:`Attendant`), such as keeping the samplers busy. Ctrl-C and
SIGTERM are then passed on as a request to stop (:mod:`gsplit.processes.interrupts`).
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.connection
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol

from gsplit.device.left_behind import remove_abandoned
from gsplit.host import held_back
from gsplit.processes.child import GRACE_S, Child, cause, child_main, ended_by_signal, hear
from gsplit.processes.interrupts import Interrupts, interrupts
from gsplit.processes.parcel import Parcel
from gsplit.processes.scripts import NAME

EXIT_S = 30.0
"""Seconds that children may take to leave after the last of them has reported its result."""
GONE_S = 60.0
"""Seconds that children may take to be gone once they were killed: with a context on a GPU, and memory that is
registered with its driver, that takes a while."""


class Attendant(Protocol):
    """Other work of the parent while its children run."""

    def files(self) -> list[Connection]:
        """The pipes to wait for."""

    def ready(self, file: Connection) -> None:
        """Read from a pipe that has something; what this raises ends the children."""

    def stop(self) -> bool:
        """Ask the children to end soon. False where there is nothing that they could save."""


def start(function: Callable[..., Any], world: int, *arguments: Any, own: Sequence[Any] | None = None) -> Children:
    """Start a function in several processes.

    Args:
        function: called as ``function(rank, *arguments)``, or ``function(rank, *arguments, own[rank])``.
        world: number of processes.
        arguments: for all of them.
        own: an argument more for each, by rank.
    """
    remove_abandoned()  # by runs that nobody could end
    context = multiprocessing.get_context("spawn")
    children = Children([])
    # Where a signal comes between two lines of ours. Before multiprocessing's own, which would wait for them.
    atexit.register(children.end)
    # Python starts this process with the first child, and leaves SIGINT unblocked after that.
    resource_tracker.ensure_running()
    try:
        with held_back():
            for rank in range(world):
                reader, writer = context.Pipe(duplex=False)
                parcel = Parcel((function, (*arguments, *([] if own is None else [own[rank]]))))
                process = context.Process(
                    target=child_main, args=(os.getpid(), rank, writer, parcel), name=f"{NAME}-{rank}"
                )
                try:
                    process.start()
                finally:
                    parcel.close()
                writer.close()
                children.members.append(Child(rank, process, reader))
    except BaseException:
        children.end()
        raise
    return children


@dataclass
class Children:
    """The processes of one :func:`start`."""

    members: list[Child]
    """The processes by rank."""
    stopped_by: BaseException | None = None
    """What to raise where the children stopped because they were asked to."""

    def join(self, attendant: Attendant | None = None) -> list[Any]:
        """Wait for all children; returns their results by rank.

        Args:
            attendant: to be served meanwhile. With one, Ctrl-C and SIGTERM ask the children to stop.

        Raises:
            InputError: where a child raised one, or the attendant.
            ProcessDied: where a child failed otherwise, or the attendant did.
            KeyboardInterrupt: after a second Ctrl-C, or the first where there is nobody to ask to stop.
            SystemExit: likewise after SIGTERM. No child is left in any case.
        """
        try:
            with interrupts(attendant is not None) as interrupted:
                while not all(child.done for child in self.members):
                    self._wait(interrupted.left_s(), _duties(attendant, interrupted))
                    if any(child.failed for child in self.members):
                        self._collect_last_words()
                        raise cause([child for child in self.members if child.failed])
                self._wait_until_gone(EXIT_S)
                self.stopped_by = interrupted.end
            return [child.report.content for child in self.members if child.report]
        finally:
            self.end()

    def end(self) -> None:
        """Kill the children that still run and wait until they are gone; a signal to this process waits, too."""
        with held_back():
            for child in self.members:
                if child.process.is_alive():
                    child.process.kill()  # it shares nothing that it could leave behind
            self._wait_until_gone(GONE_S)
            for child in self.members:
                child.pipe.close()
            atexit.unregister(self.end)

    def _wait_until_gone(self, limit_s: float) -> None:
        """Wait for all children to leave, so many seconds at most."""
        deadline_s = time.monotonic() + limit_s
        for child in self.members:
            child.process.join(max(0.0, deadline_s - time.monotonic()))

    def _collect_last_words(self) -> None:
        """Give every child a moment to report: the one that failed first need not be the one heard first."""
        deadline_s = time.monotonic() + GRACE_S
        while (left_s := deadline_s - time.monotonic()) > 0 and not all(child.done for child in self.members):
            self._wait(left_s)
            if any(ended_by_signal(child) for child in self.members):
                return

    def _wait(self, timeout_s: float | None, duties: dict[Connection, Callable[[], None]] | None = None) -> None:
        """Wait for news of any child, or for any duty, and see to it."""
        news: dict[Any, Callable[[], None]] = dict(duties or {})
        for child in self.members:
            if not child.done:
                news[child.process.sentinel] = news[child.pipe] = partial(hear, child)
        for ready in multiprocessing.connection.wait(list(news), timeout_s):
            news[ready]()


def _duties(attendant: Attendant | None, interrupted: Interrupts) -> dict[Connection, Callable[[], None]]:
    """Return what the parent does beside waiting for its children, by the file that calls for it."""
    if attendant is None:
        return {}

    def pass_on() -> None:
        interrupted.bell.recv_bytes()
        if not attendant.stop():
            raise interrupted.end
        interrupted.say()

    return {interrupted.bell: pass_on} | {file: partial(attendant.ready, file) for file in attendant.files()}
