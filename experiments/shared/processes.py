"""Runs in processes of their own: environment, time limit, memory, what else used the machine; and forked ones."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any, TypeVar

import psutil

from experiments.shared.rounds import cores
from gsplit.host import ending_tidily

T = TypeVar("T")

MEMORY: dict[str, dict[str, str]] = {
    "as it comes": {},
    "kept": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_TOP_PAD_": "268435456"},
}
"""What glibc's allocator is told. *Kept*: pages that were freed stay with the process and need not be mapped anew."""
WATCHED_EVERY_S = 0.2
GRACE_S = 10.0
LINES_TOLD = 60
"""Lines of what a run that failed wrote last that are told: a traceback of several processes."""
SETTINGS_OF_OTHERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "GOMP_CPU_AFFINITY")


class RunFailed(Exception):
    """A run that did not end well; the message says why in a line.

    Args:
        reason: that line.
        told: the end of what the run wrote to its standard error, where there is any.
    """

    def __init__(self, reason: str, told: str = "") -> None:
        super().__init__(reason)
        self.told = told


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Most memory of a run, over all moments that were looked at."""

    rss_bytes: int = 0
    """Resident set of its largest process."""
    pss_bytes: int = 0
    """Proportional sets of all processes: what several share counts once, mapped files included."""


@dataclass(frozen=True, kw_only=True)
class Used:
    """What a run took."""

    wall_s: float
    others_share: float
    """Share of all cores' time that processes outside the run used meanwhile, as /proc/stat has it."""
    memory: Memory | None


def train_command(layout: Path, out: Path, flags: Mapping[str, Any]) -> list[str]:
    """The command of a training: each flag, by its field or its name, with its value, or alone where that is None."""
    pairs = ((f"--{name.replace('_', '-')}", value) for name, value in flags.items())
    words = [str(word) for pair in pairs for word in pair if word is not None]
    return [sys.executable, "-m", "gsplit", "train", str(layout), "--out", str(out), *words]


def begin_again_with(variables: Mapping[str, str]) -> None:
    """Start this program anew with variables that libraries read when they are loaded, unless it has all of them."""
    missing = {name: value for name, value in variables.items() if name not in os.environ}
    if missing:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **missing})


def environment(memory: str, threads: int) -> dict[str, str]:
    """The environment of a run: ours without settings of libraries, and those of this run."""
    ours = {name: value for name, value in os.environ.items() if name not in SETTINGS_OF_OTHERS}
    loopback = {"GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo", "DGLBACKEND": "pytorch"}
    return {**ours, **loopback, "OMP_NUM_THREADS": str(threads), **MEMORY[memory]}


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    limit_s: float,
    watched_until: Callable[[], bool] | None = None,
) -> Used:
    """Run a command to its end; what it prints is in ``folder/stdout`` and ``folder/stderr``.

    Args:
        watched_until: look at the memory until this is true; None: never.

    Raises:
        RunFailed: for an exit code other than 0, and after ``limit_s``.
    """
    busy_s, own_s, start_s = _busy_s(), _own_s(), time.perf_counter()
    with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as err:
        process = psutil.Popen(command, env=dict(environment), stdout=out, stderr=err, start_new_session=True)
        with _ended(process):
            memory = None if watched_until is None else _watch(process, watched_until, start_s + limit_s)
            with contextlib.suppress(psutil.TimeoutExpired, subprocess.TimeoutExpired):
                process.wait(timeout=max(0.1, start_s + limit_s - time.perf_counter()))
            code = process.poll()
    if code is None:
        raise RunFailed(f"not done within {limit_s:g} s", _end_of(folder / "stderr"))
    if code != 0:
        raise RunFailed(_reason(folder / "stderr", code), _end_of(folder / "stderr"))
    wall_s = time.perf_counter() - start_s
    others_s = max(0.0, (_busy_s() - busy_s) - (_own_s() - own_s))
    return Used(wall_s=wall_s, others_share=min(1.0, others_s / (wall_s * cores())), memory=memory)


def _watch(process: psutil.Popen, until: Callable[[], bool], end_s: float) -> Memory:
    rss = pss = 0
    while process.poll() is None and time.perf_counter() < end_s and not until():
        all_pss = 0
        for each in _family(process):
            with contextlib.suppress(psutil.Error):
                info = each.memory_full_info()
                rss, all_pss = max(rss, info.rss), all_pss + info.pss
        pss = max(pss, all_pss)
        time.sleep(WATCHED_EVERY_S)
    return Memory(rss_bytes=rss, pss_bytes=pss)


def _family(process: psutil.Popen) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return []


@contextlib.contextmanager
def _ended(process: psutil.Popen) -> Iterator[None]:
    """Leave no process behind, however the block ends."""
    try:
        yield
    finally:
        family = _family(process)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(psutil.TimeoutExpired, subprocess.TimeoutExpired):
                process.wait(timeout=GRACE_S)
        for each in family:
            with contextlib.suppress(psutil.Error):
                each.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whoever outlived its parent
        psutil.wait_procs(family, timeout=GRACE_S)


def _end_of(stderr: Path) -> str:
    """The last lines of a file."""
    return "\n".join(stderr.read_text(errors="replace").splitlines()[-LINES_TOLD:])


def _reason(stderr: Path, code: int) -> str:
    """The last line that says something: an error's own, after any traceback."""
    lines = [line.strip() for line in stderr.read_text(errors="replace").splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "Error" in line or line.startswith("error:")), None)
    return f"exit code {code}: {(said or (lines or ['nothing said'])[-1])[:300]}"


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _own_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@contextlib.contextmanager
def working_folder(prefix: str, *, keep: bool) -> Iterator[Path]:
    """A folder that is gone afterwards, unless it is to be kept: then its place is printed."""
    folder, here = Path(tempfile.mkdtemp(prefix=prefix)), Path.cwd()
    try:
        with ending_tidily():
            yield folder
    finally:
        os.chdir(here)
        if keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder)


def fork(work: Callable[[], int]) -> int:
    """The process id of a child that does ``work`` and exits with what it gives; 1 where that fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(code)


def run_forked(
    works: Iterable[tuple[T, Callable[[], int]]], jobs: int, limit_s: float
) -> Iterator[tuple[T, int | None, float]]:
    """Do each work in a forked process of its own, ``jobs`` at a time; give them as they end.

    Args:
        works: each with what names it, made when its turn comes. One that calls ``os.setsid`` ends with all that it
            has started.
        jobs: processes at a time.
        limit_s: after which a process is killed.

    Yields:
        What names the work, its exit code (None: not in time; negative: by a signal), and its seconds.
    """
    waiting = iter(works)
    running: dict[int, tuple[T, int, float]] = {}
    more = True
    try:
        while running or more:
            while more and len(running) < jobs:
                named = next(waiting, None)
                more = named is not None
                if named is not None:
                    pid = fork(named[1])
                    running[os.pidfd_open(pid)] = (named[0], pid, time.monotonic())
            if not running:
                return
            left_s = min(begin_s for _, _, begin_s in running.values()) + limit_s - time.monotonic()
            ready = connection.wait(list(running), max(0.0, left_s))  # of any number, which select is not
            for handle, (name, pid, begin_s) in list(running.items()):
                seconds = time.monotonic() - begin_s
                if handle in ready or seconds >= limit_s:
                    del running[handle]
                    yield name, _code_of(handle, pid, late=handle not in ready), seconds
    finally:
        for handle, (_, pid, _) in running.items():
            _code_of(handle, pid, late=True)


def _code_of(handle: int, pid: int, *, late: bool) -> int | None:
    """The exit code of a child, None where it is late; it is gone afterwards, and so is its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(handle)
    return None if late else os.waitstatus_to_exitcode(status)


def import_all(names: Iterable[str]) -> None:
    """Import modules once, before anything is forked, as far as they are there."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def call_command(module: str, arguments: Sequence[str]) -> int:
    """Run the ``command`` of a module in this process as ``python -m`` does; its exit code."""
    from gsplit import cli

    sys.argv = [f"python -m {module}", *arguments]
    try:
        cli.main(importlib.import_module(module).command)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1 if stop.code else 0
    return 0
