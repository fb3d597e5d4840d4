"""Where processes are born and where they end.

:func:`start` starts one process per rank; :meth:`Children.join` waits for all of them at once. As soon as one
fails the others are ended: SIGTERM, a grace period, SIGKILL. The report of the one that failed first is what
the parent raises: its peers fail too, a moment later, of a connection that broke, and must not hide the cause.

Nothing is shared but one pipe a child, which only that child writes to, so a child that is killed can hold no
lock. Children are spawned, never forked, and ask the kernel to be killed with their parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from gsplit.errors import InputError

GRACE_S = 3.0
"""How long ended children may take before SIGKILL, and how long to wait for the report of an earlier failure."""
EXIT_S = 60.0
"""How long a child that has reported its result may take to leave."""
PR_SET_PDEATHSIG = 1
NAME = "gsplit-trainer"
"""Of the processes, followed by the rank."""
HINTS = {
    signal.SIGKILL: "if nobody did that, the host ran out of memory: see the kernel's log",
    signal.SIGBUS: "a file it had mapped was shortened or lost, or the disk failed",
}


class ProcessDied(RuntimeError):
    """A child failed; the message holds its traceback, or the signal that ended it."""


@dataclass(frozen=True)
class Report:
    """The last word of a child."""

    kind: str
    """``result``, ``input`` (the user's mistake) or ``error`` (ours)."""
    content: Any
    """What the function returned, a message, or a traceback."""
    time_s: float
    """Monotonic, the same clock in all processes of the host."""


@dataclass
class Child:
    """One process and the pipe it reports through."""

    rank: int
    process: SpawnProcess
    pipe: Connection
    report: Report | None = None

    @property
    def failed(self) -> bool:
        """Ended in any way but by a result."""
        if self.report is not None:
            return self.report.kind != "result"
        return self.process.exitcode is not None

    @property
    def done(self) -> bool:
        return self.report is not None or self.process.exitcode is not None


def refuse_in_trainer(call: str) -> None:
    """For functions that start trainers: each would import the script that calls them, and call them again.

    Raises:
        InputError: in a trainer.
    """
    if multiprocessing.current_process().name.startswith(NAME):
        raise InputError(
            f"a trainer imported the script that calls {call} and would call it again; "
            "put the call under: if __name__ == '__main__':"
        )


def start(function: Callable[..., Any], world: int, *arguments: Any) -> Children:
    """Start ``function(rank, *arguments)`` in ``world`` new processes."""
    context = multiprocessing.get_context("spawn")
    children = Children([])
    # Python starts this process with the first child, and leaves SIGINT unblocked after that.
    resource_tracker.ensure_running()
    # Children inherit the mask: Ctrl-C reaches the whole foreground group, and the parent decides what ends when.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for rank in range(world):
            reader, writer = context.Pipe(duplex=False)
            process = context.Process(
                target=_child_main,
                args=(os.getpid(), rank, writer, function, arguments),
                name=f"{NAME}-{rank}",
            )
            process.start()
            writer.close()
            children.members.append(Child(rank, process, reader))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        children.end()
        raise
    return children


@dataclass
class Children:
    """The processes of one :func:`start`."""

    members: list[Child]

    def join(self) -> list[Any]:
        """Wait for all; returns their results by rank.

        Raises:
            InputError: where a child raised one.
            ProcessDied: where a child failed otherwise. No child is left in either case.
        """
        try:
            while not all(child.done for child in self.members):
                self._wait(None)
                if any(child.failed for child in self.members):
                    self._collect_last_words()
                    raise _cause([child for child in self.members if child.failed])
            for child in self.members:
                child.process.join(EXIT_S)
            return [child.report.content for child in self.members if child.report]
        finally:
            self.end()

    def end(self) -> None:
        """End whoever still runs, and wait until they are gone; a second Ctrl-C has to wait as well."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._end()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _end(self) -> None:
        for send in ("terminate", "kill"):
            for child in self.members:
                if child.process.is_alive():
                    getattr(child.process, send)()
            deadline_s = time.monotonic() + GRACE_S
            for child in self.members:
                child.process.join(max(0.0, deadline_s - time.monotonic()))
        for child in self.members:
            child.pipe.close()

    def _collect_last_words(self) -> None:
        """Give every child a moment to report: the one that failed first need not be the one heard first."""
        deadline_s = time.monotonic() + GRACE_S
        while (left_s := deadline_s - time.monotonic()) > 0 and not all(child.done for child in self.members):
            self._wait(left_s)
            if any(_ended_by_signal(child) for child in self.members):
                return

    def _wait(self, timeout_s: float | None) -> None:
        waiting = [child for child in self.members if not child.done]
        sentinels = {child.process.sentinel: child for child in waiting}
        pipes = {child.pipe: child for child in waiting}
        for ready in multiprocessing.connection.wait([*sentinels, *pipes], timeout_s):
            child = sentinels[ready] if isinstance(ready, int) else pipes[ready]  # type: ignore[index]
            if child.report is None:
                # The pipe of a child that was killed is closed: no report, the exit code tells.
                with contextlib.suppress(EOFError, OSError):
                    if child.pipe.poll():
                        child.report = child.pipe.recv()
                if child.report is None:
                    child.process.join(GRACE_S)


def _ended_by_signal(child: Child) -> bool:
    """Not SIGABRT: with it a communication library ends a process whose peer has failed before."""
    return child.report is None and (child.process.exitcode or 0) < 0 and child.process.exitcode != -signal.SIGABRT


def _cause(failed: list[Child]) -> Exception:
    """The failure that made the others fail: a death by signal, or else the earliest report."""
    for child in failed:
        code = child.process.exitcode
        if _ended_by_signal(child) and code is not None:
            return ProcessDied(_death(child, code))
    reported = [(child.report.time_s, child.rank, child.report) for child in failed if child.report]
    if not reported:
        child = failed[0]
        code = child.process.exitcode
        if code is not None and code < 0:
            return ProcessDied(_death(child, code))
        return ProcessDied(
            f"trainer {child.rank} ended with exit code {code} before it could report. A script that starts "
            "trainers must be a file, do so under if __name__ == '__main__':, and define models where they can "
            "be imported"
        )
    _, rank, report = min(reported, key=lambda entry: entry[:2])
    if report.kind == "input":
        return InputError(report.content)
    return ProcessDied(f"trainer {rank} failed:\n{report.content}")


def _death(child: Child, code: int) -> str:
    ended_by = signal.Signals(-code)
    hint = f"; {HINTS[ended_by]}" if ended_by in HINTS else ""
    return f"trainer {child.rank} (pid {child.process.pid}) was ended by {ended_by.name}{hint}"


def _child_main(
    parent: int, rank: int, pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    die_with_parent(parent)
    try:
        report = Report("result", function(rank, *arguments), time.monotonic())
    except InputError as error:
        report = Report("input", str(error), time.monotonic())
    except BaseException:
        report = Report("error", traceback.format_exc(), time.monotonic())
    pipe.send(report)
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    if report.kind != "result":
        # Peers may sit in a collective that waits for this process: tearing down politely could wait for them.
        os._exit(1)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
