"""Python processes that begin with PyTorch imported: forked from one that did it, not a second and a half later.

``Popen([sys.executable, "-m", "gsplit.train", ...])`` is subprocess's, with the same words, environment, folder,
files and parent. What such a process spawns by multiprocessing is forked, too, from a twin that was forked before
anything ran: as where each process is started anew, none has what its parent has done to itself. So are the programs
that GSplit gives Python as a text: samplers, suppliers and partitioning, which would import no PyTorch and have it
here. Common to all is what a start makes at random (the seed of Python's hashes), and what is looked up as PyTorch is
imported. Tests of starting start Python itself, and so do all where GSPLIT_TEST_STARTS is set, as ``make test-all``
does.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import importlib
import inspect
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import process, util
from pathlib import Path
from typing import Any

from gsplit import starting

STARTS = "GSPLIT_TEST_STARTS"
"""Variable: where it is set, each process is started anew."""
IMPORTED = (
    "gsplit.train.loop",
    "gsplit.train.api",
    "gsplit.predict.api",
    "gsplit.launch.placed",
    "gsplit.partition.interface.api",
    "torch.distributed.run",
)
PROGRAMS = ("gsplit.supply.sampler_process", "gsplit.supply.supplier", "gsplit.partition.interface.api")
"""What GSplit imports in the programs that it gives Python as a text."""
OURS = ("gsplit", "experiments", "torch.distributed.run")
OF_TORCHRUN = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
"""What starts its trainers."""
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""PyTorch's variable: whether importing it registers devices."""
UNBUFFERED = "-u"
"""Python's flag, which torchrun gives and nothing here depends on."""
WHO = "support.forked"
"""What a nursery is called where processes are listed."""
HERE = str(Path(__file__).parents[1])
ROOM = "-" * 6000
"""A word in the place of which stand those of a forked process, for whoever lists processes."""
STANDARD = {0: 0, 1: 1, 2: 2}
LONGEST = 1 << 18
"""Bytes of a request."""
PDEATHSIG, CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
_prctl = ctypes.CDLL(None).prctl


@dataclass(frozen=True)
class Request:
    """What a process is to be; the files come beside it."""

    words: list[str]
    numbers: list[int]
    """Of its files, in the order in which they come."""
    environment: dict[str, str]
    folder: str
    blocked: set[int]
    """Signals."""
    session: bool = False
    """Whether it begins one."""


class Nursery:
    """A process with everything imported, from which children of this process are forked; it ends with this one."""

    def __init__(self, line: socket.socket) -> None:
        self._line, self._owner, self._one_at_a_time = line, os.getpid(), threading.Lock()

    @classmethod
    def started(cls) -> Nursery:
        """One in a new Python."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            code = f"from support.forked import main; main({theirs.fileno()}, {os.getpid()})"
            subprocess.Popen(
                [sys.executable, "-c", code, ROOM],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": HERE, AUTOLOAD: "0"},
            )
        return cls(ours)

    @classmethod
    def twin(cls) -> Nursery:
        """One that is this process as it is now."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        owner = os.getpid()
        if os.fork() == 0:
            ours.close()
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in STANDARD:
                os.dup2(nothing, number)
            _show([WHO])
            _serve(theirs, owner)
        theirs.close()
        return cls(ours)

    @property
    def ours(self) -> bool:
        """Whether it is this process's, and not that of the one that this was forked from."""
        return self._owner == os.getpid()

    def fork(
        self,
        words: Sequence[str],
        files: Mapping[int, int],
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        session: bool = False,
    ) -> int:
        """The number of a new child of this process, which has some files of ours, ``{its number: ours}``."""
        request = Request(
            words=list(words),
            numbers=list(files),
            environment=dict(os.environ if environment is None else environment),
            folder=os.path.abspath(folder or ""),
            blocked={int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])},
            session=session,
        )
        with self._one_at_a_time:
            _prctl(CHILD_SUBREAPER, 1)  # it becomes our child as the one that forked it ends
            try:
                socket.send_fds(self._line, [pickle.dumps(request)], list(files.values()))
                return int.from_bytes(self._line.recv(8), "big")
            finally:
                _prctl(CHILD_SUBREAPER, 0)


def nursery() -> Nursery | None:
    """The nursery of this process; None where processes are started anew."""
    global _nursery
    if os.environ.get(STARTS):
        return None
    if _from is not None and _from.ours:
        return _from
    if _nursery is None or not _nursery.ours:
        _nursery = Nursery.started()
    return _nursery


@contextlib.contextmanager
def forked_from(twin: Nursery | None) -> Iterator[None]:
    """Inside, processes are forked from this one, if there is one."""
    global _from
    _from = twin
    try:
        yield
    finally:
        _from = None


_nursery: Nursery | None = None
_from: Nursery | None = None


class Popen(subprocess.Popen):
    """subprocess's, of a module of ours, torchrun or a script."""

    def _execute_child(self, *arguments, **named):
        anew: Any = super()
        _execute(self, anew._execute_child, _is_ours, arguments, named)


def _execute(
    popen: Any, anew: Callable[..., None], is_ours: Callable[[list[str]], bool], arguments: tuple, named: dict
) -> None:
    """Do as subprocess.Popen does to start a process, ``anew``; one that is ours is forked."""
    given = inspect.signature(anew).bind(*arguments, **named).arguments
    words = given["args"] if isinstance(given["args"], (list, tuple)) else [given["args"]]
    words = [os.fsdecode(word) for word in words if word != UNBUFFERED]
    if not is_ours(words) or (born := nursery()) is None:
        return anew(*arguments, **named)
    theirs = enumerate((given["p2cread"], given["c2pwrite"], given["errwrite"]))
    popen.pid = born.fork(
        words,
        {number: number if file == -1 else file for number, file in theirs}
        | {file: file for file in given["pass_fds"]},
        environment=given["env"],
        folder=given["cwd"],
        session=given["start_new_session"],
    )
    popen._child_created = True
    ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    popen._close_pipe_fds(*(given[end] for end in ends))


def spawn_by_forking() -> None:
    """Let multiprocessing fork what it spawns, and GSplit its programs."""
    anew = vars(subprocess.Popen)["_execute_child"]

    @functools.wraps(anew)
    def executed(self, *arguments, **named):
        _execute(self, anew.__get__(self), _is_program, arguments, named)

    setattr(subprocess.Popen, "_execute_child", executed)  # noqa: B010
    started = util.spawnv_passfds

    def spawned(path, words, files):
        words = [os.fsdecode(word) for word in words]
        if "--multiprocessing-fork" not in words or (born := nursery()) is None:
            return started(path, words, files)
        return born.fork(words, STANDARD | {number: number for number in files})

    util.spawnv_passfds = spawned


def main(line: int, owner: int) -> None:
    """Be a nursery, or what is forked from it."""
    for name in IMPORTED:
        importlib.import_module(name)
    spawn_by_forking()
    vars(importlib.import_module(OF_TORCHRUN))["Popen"] = Popen
    _serve(socket.socket(fileno=line), owner)


def _is_ours(words: list[str]) -> bool:
    """Whether this is Python, without flags of its own, with a module of ours, torchrun or a script."""
    if words[0] != sys.executable or len(words) == 1:
        return False
    if words[1] == "-m":
        return f"{words[2]}.".startswith(tuple(f"{name}." for name in OURS))
    return not words[1].startswith("-")


def _is_program(words: list[str]) -> bool:
    """Whether this is Python with a program of GSplit's."""
    return words[:2] == [sys.executable, "-c"] and any(f"from {name} import" in words[2] for name in PROGRAMS)


def _serve(line: socket.socket, owner: int) -> None:
    """Fork what is asked for until the owner ends; returns, if at all, in one that has run to its end."""
    _prctl(PDEATHSIG, signal.SIGKILL)
    while os.getppid() == owner:
        asked, files, _, _ = socket.recv_fds(line, LONGEST, 250)
        if not asked:
            break
        if (between := os.fork()) == 0:
            between = os.getpid()
            if os.fork() != 0:
                os._exit(0)
            while os.getppid() == between:
                os.sched_yield()
            line.send(os.getpid().to_bytes(8, "big"))
            return _end(pickle.loads(asked), files)
        for file in files:
            os.close(file)
        os.waitpid(between, 0)
    os._exit(0)


def _end(request: Request, files: list[int]) -> None:
    """Do as a process does, to its end, but take nothing apart: PyTorch's operators alone take a fifth of a second.

    Where it ends otherwise than by an exit code, or what it has said cannot be written, Python's own end is left.
    """
    code: Any = 0
    try:
        _live(request, files)
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    if not isinstance(code, int):
        sys.exit(code)
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    try:
        for file in (sys.stdout, sys.stderr):
            file.flush()
    except (OSError, ValueError):
        sys.exit(code)
    os._exit(code & 0xFF)


def _live(request: Request, files: list[int]) -> None:
    """Do as the words say."""
    _take(request, files)
    sys.orig_argv = request.words
    _, first, *others = request.words
    if "--multiprocessing-fork" in others:
        code = others[others.index("-c") + 1] if first != "-c" else others[0]
        sys.argv = ["-c", "--multiprocessing-fork"]
        exec(code, {})
        return
    global _nursery
    _nursery = Nursery.twin()
    if first == "-c":
        sys.argv = ["-c", *others[1:]]
        exec(others[0], {})
        return
    sys.argv = ["-m", *others[1:]] if first == "-m" else [first, *others]
    starting.watch("gsplit")  # as its import would
    if first == "-m":
        sys.path.insert(0, request.folder)
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(first))
        runpy.run_path(first, run_name="__main__")


def _take(request: Request, files: list[int]) -> None:
    """Have the session, files, signals, environment and folder that were asked for."""
    if request.session:
        os.setsid()
    above = max(request.numbers) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    os.closerange(0, above)
    for number, file in zip(request.numbers, moved, strict=True):
        os.dup2(file, number)
    os.closerange(above, os.sysconf("SC_OPEN_MAX"))
    # Left open, as those of a new Python are.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, request.blocked)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    vars(process)["ORIGINAL_DIR"] = request.folder  # beside which multiprocessing looks for scripts
    tempfile.tempdir = None
    given = [folder for folder in request.environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:] = [*given, *(folder for folder in sys.path if folder not in (HERE, ""))]
    if request.environment.get(AUTOLOAD) != "0" and not _is_program(request.words):
        for backend in metadata.entry_points(group="torch.backends"):  # as PyTorch's import does
            backend.load()()
    _show(request.words)


def _show(words: list[str]) -> None:
    """Put words in the place of this process's own, where whoever lists processes finds them."""
    begin, end = (int(field) for field in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    shown = b"\0".join(os.fsencode(word) for word in words)[: end - begin - 1]
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)
