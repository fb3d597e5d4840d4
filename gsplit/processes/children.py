"""Where processes are born and where they end.

:func:`start` starts one process per rank; :meth:`Children.join` waits for all of them at once. As soon as one
fails the others are killed. The report of the one that failed first is what the parent raises: its peers fail too, a
moment later, of a connection that broke, and must not hide the cause.

Nothing is shared but one pipe a child, which only that child writes to, so a child that is killed can hold no
lock. Children are spawned, never forked, and ask the kernel to be killed with their parent.

While it waits, the parent may have other work (:class:`Attendant`: feeding the samplers). Ctrl-C and SIGTERM are then
passed on as a request to stop (:mod:`gsplit.processes.interrupts`).
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from gsplit.errors import InputError
from gsplit.host import die_with_parent, held_back, sweep_cuda_ipc
from gsplit.processes.interrupts import Interrupts, interrupts
from gsplit.processes.parcel import Parcel, Sent
from gsplit.processes.scripts import GUARD, NAME, NO_GUARD, script_was_imported

GRACE_S = 3.0
"""How long to wait for children that were killed, and for the report of an earlier failure."""
EXIT_S = 60.0
"""How long a child that has reported its result may take to leave."""
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


class Attendant(Protocol):
    """What else the parent attends to while its children run."""

    def files(self) -> list[Connection]:
        """To wait for."""

    def ready(self, file: Connection) -> None:
        """There is something to read; what this raises ends the children."""

    def stop(self) -> bool:
        """Ask the children to end soon. False where there is nothing that they could save."""


def start(function: Callable[..., Any], world: int, *arguments: Any, own: Sequence[Any] | None = None) -> Children:
    """Start ``function(rank, *arguments)``, or ``function(rank, *arguments, own[rank])``, in ``world`` processes."""
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
                    target=_child_main, args=(os.getpid(), rank, writer, parcel), name=f"{NAME}-{rank}"
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
    stopped_by: BaseException | None = None
    """What to raise where the children stopped because they were asked to."""

    def join(self, attendant: Attendant | None = None) -> list[Any]:
        """Wait for all; returns their results by rank.

        Args:
            attendant: to be served meanwhile. With one, Ctrl-C and SIGTERM ask the children to stop.

        Raises:
            InputError: where a child raised one, or the attendant.
            ProcessDied: where a child failed otherwise, or the attendant did.
            KeyboardInterrupt: after a second Ctrl-C, or the first where there is nobody to ask to stop.
            SystemExit: the same for SIGTERM. No child is left in any case.
        """
        try:
            with interrupts(attendant is not None) as interrupted:
                while not all(child.done for child in self.members):
                    self._wait(interrupted.left_s(), _duties(attendant, interrupted))
                    if any(child.failed for child in self.members):
                        self._collect_last_words()
                        raise _cause([child for child in self.members if child.failed])
                for child in self.members:
                    child.process.join(EXIT_S)
                self.stopped_by = interrupted.end
            return [child.report.content for child in self.members if child.report]
        finally:
            self.end()

    def end(self) -> None:
        """Kill whoever still runs, and wait until they are gone; whoever wants to end this process waits as well."""
        with held_back():
            for child in self.members:
                if child.process.is_alive():
                    child.process.kill()  # it shares nothing that it could leave behind
            deadline_s = time.monotonic() + GRACE_S
            for child in self.members:
                child.process.join(max(0.0, deadline_s - time.monotonic()))
            for child in self.members:
                child.pipe.close()
                if child.process.pid is not None and not child.process.is_alive():
                    sweep_cuda_ipc(child.process.pid)
            atexit.unregister(self.end)

    def _collect_last_words(self) -> None:
        """Give every child a moment to report: the one that failed first need not be the one heard first."""
        deadline_s = time.monotonic() + GRACE_S
        while (left_s := deadline_s - time.monotonic()) > 0 and not all(child.done for child in self.members):
            self._wait(left_s)
            if any(_ended_by_signal(child) for child in self.members):
                return

    def _wait(self, timeout_s: float | None, duties: dict[Connection, Callable[[], None]] | None = None) -> None:
        """Wait for news of any child, or for any duty, and see to it."""
        news: dict[Any, Callable[[], None]] = dict(duties or {})
        for child in self.members:
            if not child.done:
                news[child.process.sentinel] = news[child.pipe] = partial(_hear, child)
        for ready in multiprocessing.connection.wait(list(news), timeout_s):
            news[ready]()


def _hear(child: Child) -> None:
    """Take the report of a child that has one, or has ended."""
    if child.report is None:
        # The pipe of a child that was killed is closed: no report, the exit code tells.
        with contextlib.suppress(EOFError, OSError):
            if child.pipe.poll():
                child.report = child.pipe.recv()
        if child.report is None:
            child.process.join(GRACE_S)


def _duties(attendant: Attendant | None, interrupted: Interrupts) -> dict[Connection, Callable[[], None]]:
    """What the parent does beside waiting for its children, by the file that calls for it."""
    if attendant is None:
        return {}

    def pass_on() -> None:
        interrupted.bell.recv_bytes()
        if not attendant.stop():
            raise interrupted.end
        interrupted.say()

    return {interrupted.bell: pass_on} | {file: partial(attendant.ready, file) for file in attendant.files()}


def _ended_by_signal(child: Child) -> bool:
    """Not SIGABRT: with it a communication library ends a process whose peer has failed before."""
    return child.report is None and (child.process.exitcode or 0) < 0 and child.process.exitcode != -signal.SIGABRT


def _cause(failed: list[Child]) -> Exception:
    """The failure that made the others fail: a death by signal, or else the earliest report."""
    for child in failed:
        code = child.process.exitcode
        if _ended_by_signal(child) and code is not None:
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
    """How a process ended, in words; ``code`` is its exit code, or minus the number of a signal."""
    if code >= 0:
        return f"{who} (pid {pid}) ended with exit code {code}"
    ended_by = signal.Signals(-code)
    hint = f"; {HINTS[ended_by]}" if ended_by in HINTS else ""
    return f"{who} (pid {pid}) was ended by {ended_by.name}{hint}"


def _child_main(parent: int, rank: int, pipe: Connection, parcel: Sent) -> None:
    die_with_parent(parent)
    script_was_imported()
    try:
        function, arguments = parcel.open()
        report = Report("result", function(rank, *arguments), time.monotonic())
    except InputError as error:
        report = Report("input", str(error), time.monotonic())
    except MemoryError as error:
        reason = f"trainer {rank} is out of memory: {error or 'no more could be had'}"
        report = Report("input", f"{reason}; use fewer --gpus or a smaller --batch-size", time.monotonic())
    except FileNotFoundError as error:
        if "No usable temporary directory" not in str(error):  # tempfile's word for a disk that is full
            report = Report("error", traceback.format_exc(), time.monotonic())
        else:
            report = Report("input", f"trainer {rank}: {error}; make room, or set TMPDIR", time.monotonic())
    except BaseException:
        report = Report("error", traceback.format_exc(), time.monotonic())
    pipe.send(report)
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing is left to do, and taking PyTorch down politely takes up to a second; after a failure it might even wait
    # for peers that sit in a collective and wait for this process.
    os._exit(0 if report.kind == "result" else 1)
