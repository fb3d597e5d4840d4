"""One child process: what it runs, what it reports, and why it ended.

A child reports once, through a pipe that only it writes to: what its function returned, or how that failed. One that
a signal ended reports nothing; its exit code tells. Of several that failed, :func:`cause` finds the one that made the
others fail: its peers fail too, a moment later, of a connection that broke.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from gsplit.errors import InputError, ProcessDied, refused_by_host
from gsplit.host import die_with_parent
from gsplit.processes.parcel import Sent
from gsplit.processes.scripts import GUARD, NO_GUARD, script_was_imported
from gsplit.starting import Importing

GRACE_S = 3.0
"""Seconds to wait for the report of an earlier failure."""
HINTS = {
    signal.SIGKILL: "if nobody did that, the host ran out of memory: see the kernel's log",
    signal.SIGABRT: "a library gave up, as NCCL does after --timeout; its lines above say of what",
    signal.SIGBUS: "a file it had mapped was shortened or lost, or the disk failed",
}
"""What may be behind a signal that ended a process."""


@dataclass(frozen=True)
class Report:
    """The last word of a child."""

    kind: str
    """``result``, ``input`` (the user's mistake) or ``error`` (ours)."""
    content: Any
    """What the function returned, a message, or a traceback."""
    time_s: float
    """When it was sent, by the monotonic clock, which all processes of the host share."""


@dataclass
class Child:
    """One process and the pipe it reports through."""

    rank: int
    """Number of the child, from 0; the first argument of its function."""
    process: SpawnProcess
    pipe: Connection
    report: Report | None = None
    """Last word of the child; None as long as it has sent none."""

    @property
    def failed(self) -> bool:
        """True where it has ended in any way but by a result."""
        ended = self._ended()
        return ended if self.report is None else self.report.kind != "result"

    @property
    def done(self) -> bool:
        """True where it has reported, or ended."""
        return self._ended() or self.report is not None

    def take_report(self) -> None:
        """Take the report out of the pipe, if there is one; the pipe of a child that was killed is closed."""
        if self.report is None:
            with contextlib.suppress(EOFError, OSError):
                if self.pipe.poll():
                    self.report = self.pipe.recv()

    def _ended(self) -> bool:
        """Return whether it has ended; its report is taken then, which it may have sent since somebody looked."""
        ended = self.process.exitcode is not None
        if ended:
            self.take_report()
        return ended


def hear(child: Child) -> None:
    """Take the report of a child that has one, or has ended."""
    child.take_report()
    if child.report is None:
        child.process.join(GRACE_S)


def ended_by_signal(child: Child) -> bool:
    """Return whether a signal other than SIGABRT ended the child before it could report.

    With SIGABRT a communication library ends a process whose peer has failed before.
    """
    return child.report is None and (child.process.exitcode or 0) < 0 and child.process.exitcode != -signal.SIGABRT


def cause(failed: list[Child]) -> Exception:
    """The failure that made the others fail: a death by signal, or else the earliest report."""
    for child in failed:
        code = child.process.exitcode
        if ended_by_signal(child) and code is not None:
            return ProcessDied(death(f"trainer {child.rank}", child.process.pid, code))
    if any(child.report is None and child.process.exitcode == NO_GUARD for child in failed):
        return InputError(GUARD)
    reported = [(child.report.time_s, child.rank, child.report) for child in failed if child.report]
    if not reported:
        child = failed[0]
        code = child.process.exitcode
        if code is not None and code < 0:
            return ProcessDied(death(f"trainer {child.rank}", child.process.pid, code))
        return ProcessDied(
            f"trainer {child.rank} ended with exit code {code} before it could report. A script that starts "
            "trainers must be a file, do so under if __name__ == '__main__':, and define models where they can "
            "be imported"
        )
    _, rank, report = min(reported, key=lambda entry: entry[:2])
    if report.kind == "input":
        return InputError(report.content)
    return ProcessDied(f"trainer {rank} failed:\n{report.content}")


def death(who: str, pid: int | None, code: int) -> str:
    """Return how a process ended, in words; ``code`` is its exit code, or minus the number of a signal."""
    if code >= 0:
        return f"{who} (pid {pid}) ended with exit code {code}"
    ended_by = signal.Signals(-code)
    hint = f"; {HINTS[ended_by]}" if ended_by in HINTS else ""
    return f"{who} (pid {pid}) was ended by {ended_by.name}{hint}"


def child_main(parent: int, rank: int, pipe: Connection, parcel: Sent) -> None:
    """The life of a child: call the function, report, leave."""
    die_with_parent(parent)
    script_was_imported()
    try:
        with Importing():
            function, arguments = parcel.open()
        report = Report("result", function(rank, *arguments), time.monotonic())
    except InputError as error:
        report = Report("input", str(error), time.monotonic())
    except MemoryError as error:
        reason = f"trainer {rank} is out of memory: {error or 'no more could be had'}"
        report = Report("input", f"{reason}; use fewer --gpus or a smaller --batch-size", time.monotonic())
    except BaseException as error:
        line = refused_by_host(error)
        if line is None:
            report = Report("error", traceback.format_exc(), time.monotonic())
        else:
            report = Report("input", f"trainer {rank}: {line}", time.monotonic())
    pipe.send(report)
    pipe.close()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # None, or nobody reads it any more
            stream.flush()
    # Nothing is left to do, and taking PyTorch down politely takes up to a second; after a failure it might even wait
    # for peers that sit in a collective and wait for this process.
    os._exit(0 if report.kind == "result" else 1)
