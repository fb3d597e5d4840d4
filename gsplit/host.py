"""What processes ask of the host: memory that several of them share, and to end with their parent. No torch.

A :class:`SharedBuffer` is a memfd: it lives as long as a process has it open, so nothing is left behind whatever
happens, no other user can open it, and a small /dev/shm does no harm. The parent makes it and passes the descriptor
when it starts its children.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.limits import host_memory
from gsplit.units import binary

PR_SET_PDEATHSIG = 1
"""Number of prctl(2) that asks for a signal when the parent dies."""
KEEP = {-4: 0, -1: 2**31 - 1, -2: 1 << 28, -8: 1}
"""Parameters of mallopt(3): M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD and M_ARENA_MAX."""
GIVE_BACK = {-4: 1 << 16, -3: 1 << 20}
"""Parameters of mallopt(3): M_MMAP_MAX, M_MMAP_THRESHOLD."""
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask a process to end."""
SHARED_MEMORY = Path("/dev/shm")
"""Folder of POSIX shared memory."""


def memory_file(name: str) -> int:
    """A new file in memory, its descriptor; ``name`` is for the kernel's tools.

    Raises:
        OSError: where the system gives none; it says what was asked for.
    """
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "shared memory (memfd_create)") from None


class SharedBuffer:
    """Memory that several processes map. Pickles only while a process is spawned.

    Args:
        name: shown by the kernel's tools; it need not be unique.
        fd: a descriptor that this process was started with, instead of a new buffer.
    """

    def __init__(self, name: str, fd: int | None = None) -> None:
        self._fd = memory_file(name) if fd is None else fd

    def fileno(self) -> int:
        """File descriptor of the memory."""
        return self._fd

    @property
    def num_bytes(self) -> int:
        """Size of the memory."""
        return os.fstat(self._fd).st_size

    def grow(self, num_bytes: int, *, allocate: Callable[[int, int], None] | None = None) -> None:
        """Make room for ``num_bytes``; what is there stays. One process calls it, the others wait for it.

        Args:
            num_bytes: of the memory from then on.
            allocate: makes the file of a descriptor so long, such as :func:`gsplit.device.numa.allocate`; by default
                the memory is near the core that this process is on.

        Raises:
            MemoryError: where less than that is available, or the system does not give it.
        """
        if num_bytes <= self.num_bytes:
            return
        check_memory(num_bytes - self.num_bytes)
        try:
            if allocate is None:
                os.posix_fallocate(self._fd, 0, num_bytes)
            else:
                allocate(self._fd, num_bytes)
        except OSError as error:  # a limit of the container's, say
            raise MemoryError(f"no shared memory of {num_bytes:,} bytes could be had: {error.strerror}") from None

    def clear(self) -> None:
        """Give the memory back; nobody may look at what was there any more."""
        os.ftruncate(self._fd, 0)

    def view(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """The first bytes as an array; the mapping goes when the array does."""
        num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if num_bytes == 0:
            return np.zeros(shape, dtype)
        return np.frombuffer(mmap.mmap(self._fd, num_bytes), dtype).reshape(shape)

    def close(self) -> None:
        """Close the file descriptor; arrays stay until they are gone themselves."""
        os.close(self._fd)

    def __reduce__(self) -> tuple[Callable[..., SharedBuffer], tuple[Any]]:
        return _rebuild, (reduction.DupFd(self._fd),)


def _rebuild(passed: Any) -> SharedBuffer:
    buffer = SharedBuffer.__new__(SharedBuffer)
    buffer._fd = passed.detach()
    return buffer


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process at once, while a library neither looks for them nor lets Python look.

    It ends as a command does, with a line and exit code 130 or 143, but nothing is tidied up: not for where files are
    half written. What the process ignores, as shells start those in
    the background ignoring Ctrl-C, it goes on to ignore.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not for other threads to arrange
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}
    ending = _core.EndingSignals(list(before)) if before else None
    try:
        yield
    finally:
        del ending
        for number, handler in before.items():
            signal.signal(number, handler)


SOON_S = 0.01
"""Seconds until a signal is sent again: what dropped its exception is over then, or drops the next one, too."""
_again: list[threading.Timer] = []
"""The last one that sends a signal again."""
_ending: list[int] = []
"""The signals that were to end this process."""


def end_tidily(number: int, _: object) -> None:
    """Handle a signal: leave by SystemExit with the signal's exit code, so that what is half done is taken back.

    The same signal is ignored until :func:`ending_tidily` is over, for it would tear the taking back apart.
    """
    _ending.append(number)
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def is_ending() -> bool:
    """Return whether :func:`end_tidily` was called: a later error may be what a library made of its exception."""
    return bool(_ending)


def raise_again(dropped: Any) -> None:
    """Send a signal again whose exception Python has dropped; a ``sys.unraisablehook``.

    A handler is called wherever Python is, in a finaliser or a callback of the garbage collector, too. What is raised
    there is printed and forgotten, and the process would go on, deaf to SIGTERM from then on.
    """
    number = None
    if isinstance(dropped.exc_value, KeyboardInterrupt):
        number = signal.SIGINT
    elif isinstance(dropped.exc_value, SystemExit) and dropped.exc_value.code == 128 + signal.SIGTERM:
        number = signal.SIGTERM
        signal.signal(number, end_tidily)
    if number is None:
        sys.__unraisablehook__(dropped)
        return
    if not any(timer.is_alive() for timer in _again):  # one that is on its way is enough
        _again[:] = [threading.Timer(SOON_S, os.kill, (os.getpid(), number))]
        _again[0].daemon = True
        _again[0].start()


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until the block ends; processes that are started in it never see them.

    Signals reach the whole foreground group, or all processes of a job (Slurm), and the parent decides what ends
    when. Blocking them is for the children. For this process it is not enough: another thread of some library may
    take the signal, and Python then calls its handler in the main thread.
    """
    came: list[int] = []
    try:
        with contextlib.ExitStack() as restored:  # all of it, also where a signal comes in between
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            restored.callback(signal.pthread_sigmask, signal.SIG_SETMASK, mask)
            if threading.current_thread() is threading.main_thread():
                for number in ENDING:
                    if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                        restored.callback(signal.signal, number, handler)
                        signal.signal(number, lambda number, _: came.append(number))
            yield
    finally:
        for again in dict.fromkeys(came):
            signal.raise_signal(again)


@contextlib.contextmanager
def ending_tidily() -> Iterator[None]:
    """Let SIGTERM raise SystemExit, so that what is half done is taken back; what handles it already stays."""
    _ending.clear()
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, end_tidily)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def check_memory(num_bytes: int) -> None:
    """Raise MemoryError where less than that is available to this process."""
    available = host_memory().available_bytes
    if num_bytes > available:
        raise MemoryError(f"{binary(num_bytes)} of shared memory are needed, {binary(available)} are available")


def keep_freed_memory() -> None:
    """Have this process keep the memory that it frees, for what it needs next (glibc; elsewhere nothing changes).

    Each mini-batch needs about the memory that the one before has freed. By default glibc gives large pieces back to
    the kernel at once, and every page of the next is mapped and zeroed anew: half of the time of a training step on
    the CPU. Kept, they stay mapped, and the process holds the most that it ever needed until it ends.

    One arena serves all threads: others have pieces of at most 64 MiB, and would map larger ones anew all the same.
    """
    _keeping[0] = True
    _mallopt(KEEP)


def give_freed_memory_back() -> None:
    """Give what this process has freed and kept back to the kernel (glibc; elsewhere nothing happens)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextlib.contextmanager
def large_pieces_given_back() -> Iterator[None]:
    """Have large pieces mapped for themselves, and go when they are freed, where this process keeps what it frees.

    For what is computed once and takes much: kept memory would be in pieces that fit nothing that comes later, or
    that small things have been put into, and the process would hold more than it ever needed.
    """
    if not _keeping[0]:
        yield
        return
    _mallopt(GIVE_BACK)
    try:
        yield
    finally:
        _mallopt(KEEP)


_keeping = [False]
"""Whether this process keeps the memory that it frees."""


def _mallopt(values: dict[int, int]) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in values.items():
            mallopt(parameter, value)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent, of that pid, dies (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
