"""Memory with a name that a process which is killed leaves behind, and what sweeps it.

GSplit's own memory has no name and goes with its processes. NCCL names its memory in /dev/shm, where GPUs meet
through the host. A process that has such files keeps a list of them in a file beside them, and a lock on that for as
long as it lives. A process that starts others, or has ended some, removes what is on lists that nobody holds.

The kernel gives the lock back, so what lives is never taken for dead: not after its number has gone to another
process, and not in a container that shares the folder but sees no process of another.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import uuid
from pathlib import Path

from gsplit.host import SHARED_MEMORY

LIST = "gsplit_"
"""What the names of lists begin with."""
OF_NCCL = re.compile(r"nccl-[\w-]+")
"""Names that NCCL gives, where GPUs meet through the host."""

_own: dict[str, int] = {}
"""The list of this process by the folder that it is in, a descriptor that holds the lock."""


def list_named_memory(folder: Path = SHARED_MEMORY) -> None:
    """Put the named memory that this process maps now on its list; without any, no list is made."""
    with contextlib.suppress(OSError):  # no /proc, or a folder that is full: they are left then
        listed = _names(_own[str(folder)]) if str(folder) in _own else set()
        paths = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
        names = {Path(path).name for path in paths if Path(path).parent == folder}
        if new := sorted(name for name in names - listed if OF_NCCL.fullmatch(name)):
            if str(folder) not in _own:
                _own[str(folder)] = _new_list(folder)
            os.write(_own[str(folder)], "".join(f"{name}\n" for name in new).encode())


def sweep(folder: Path = SHARED_MEMORY) -> None:
    """Remove the named memory of this user's processes that are gone, and their lists."""
    living, gone = set[str](), dict[Path, int]()
    try:
        for path in folder.glob(f"{LIST}*"):
            with contextlib.suppress(OSError):  # of another user, or somebody sweeps as well
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                gone[path] = descriptor
                if not _is_ours(os.fstat(descriptor)):
                    os.close(gone.pop(path))
                elif not _locked(descriptor):
                    living |= _names(descriptor)
                    os.close(gone.pop(path))
        for path, descriptor in gone.items():
            for name in _names(descriptor) - living:
                with contextlib.suppress(OSError):
                    if OF_NCCL.fullmatch(name) and _is_ours((folder / name).lstat()):
                        (folder / name).unlink()
            path.unlink(missing_ok=True)
    finally:
        for descriptor in gone.values():
            os.close(descriptor)


def _new_list(folder: Path) -> int:
    """An empty list, locked. One that is swept before it is locked is made anew."""
    while True:
        path = folder / f"{LIST}{uuid.uuid4().hex}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists():
            return descriptor
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whether the lock could be had, for nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _names(descriptor: int) -> set[str]:
    return set(os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace").splitlines())


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.getuid()
