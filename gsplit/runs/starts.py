"""The starts of a run, numbered: only the last one writes in its folder.

A trainer 0 that was stopped, or whose host was cut off, may live on after the run was started again elsewhere. So who
starts a run where a starter of many processes may start it again writes a number into ``start.json``, one more than
there was, and before each write it looks whether that is still its own. Both happen under a lock, ``.start``, that is
held for as long as a write takes: nobody is stopped between a look and the write that follows it, but with the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsplit.atomic_folder import LOCK, InUse
from gsplit.errors import InputError
from gsplit.files import read_json, replace_file
from gsplit.waiting import until

START = "start.json"
START_LOCK = ".start"
PATIENCE_S = 60.0
"""Seconds that a start waits for a write of another to be over."""
_own: dict[Path, int] = {}
"""The numbers of the starts of this process that go on, by the folder of the run."""


@dataclass(frozen=True, kw_only=True)
class Starter:
    """Who starts a run, where it is started in a way that may start it again."""

    jobs: Mapping[str, str] = field(default_factory=dict)
    """What names the job, by who gave it the name; without any, it is not known from others."""
    again: bool = False
    """Whether the starter says that the job was started before."""
    silence_s: float = 0.0
    """Seconds after which a trainer of a former start that was cut off has ended by itself."""

    def made(self, run: Path) -> bool | None:
        """Tell whether this job has started a run before; None where nobody knows."""
        if not self.jobs:
            return None
        before = last(run).get("jobs", {})
        common = self.jobs.keys() & before.keys()
        if any(self.jobs[name] == before[name] for name in common):
            return True
        return False if common or not before else None


def last(run: Path) -> dict[str, Any]:
    """What the last start of a run has written; nothing where no start was numbered."""
    try:
        start = read_json(run / START)
        return start if isinstance(start.get("number"), int) and isinstance(start.get("jobs"), dict) else {}
    except (OSError, ValueError, AttributeError):
        return {}


@contextmanager
def started(run: Path, starter: Starter | None) -> Iterator[None]:
    """Number this start of a run whose folder this process holds; until the block ends it knows its own writes.

    Args:
        run: the folder.
        starter: who starts it; None where this process starts its trainers, which is numbered in runs alone that have
            a number.

    Raises:
        InUse: where a former start is in the middle of a write, and does not come to its end.
    """
    if starter is None and not (run / START).exists():
        yield
        return
    with _locked(run):
        number = last(run).get("number", 0) + 1
        about = {"number": number, "jobs": dict(starter.jobs if starter else {})}
        about |= {"host": socket.gethostname(), "pid": os.getpid()}
        replace_file(run / START, (json.dumps(about, indent=2) + "\n").encode())
    _own[run.absolute()] = number
    try:
        yield
    finally:
        del _own[run.absolute()]


@contextmanager
def writing(run: Path) -> Iterator[None]:
    """Write in the folder of a run, unless it was started again since; a process that started none just writes.

    Raises:
        InUse: where it was.
    """
    own = _own.get(run.absolute())
    if own is None:
        yield
        return
    with _locked(run):
        _check_last(run, own)
        yield


def is_last(run: Path) -> bool:
    """Return whether nobody has started a run again that this process has started."""
    own = _own.get(run.absolute())
    return own is None or last(run).get("number") == own


def take_over(run: Path) -> None:
    """Let the lock of a run, which a former start of this job holds and does not give back, be nobody's."""
    with _locked(run):
        (run / LOCK).unlink(missing_ok=True)


def _check_last(run: Path, own: int) -> None:
    there = last(run)
    if there.get("number") != own:
        by = f", start {there['number']} by pid {there.get('pid')} on {there.get('host')}" if there else ""
        raise InUse(f"another process has gone on with {run}{by}; this is start {own}, and writes nothing more there")


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Hold the lock of writes; wait for a write of another to be over."""
    try:
        descriptor = os.open(run / START_LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"cannot write to {run}: {error.strerror}") from None
    try:
        if not until(lambda: _is_locked(descriptor, run), PATIENCE_S):
            who = last(run)
            raise InUse(
                f"pid {who.get('pid')} on {who.get('host')} is in the middle of a write to {run} and does not go on; "
                "end it, or choose another folder"
            )
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, run: Path) -> bool:
    """Lock a file, unless another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InputError(f"cannot lock {run}: {error.strerror}; choose a folder on another disk") from None
    return True
