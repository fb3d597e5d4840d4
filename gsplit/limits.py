"""How much of the host this process may take: what it has, or what control groups (cgroups) allow. No torch.

A container, a Slurm job or a systemd slice is a cgroup with a limit, and a process that goes beyond it is killed
while ``/proc/meminfo`` shows the whole host. So the answer is the least of the host's memory and of every cgroup from
the process's own up to the outermost one that it can see.

| | version 2 | version 1 |
|---|---|---|
| line of /proc/self/cgroup | ``0::PATH`` | ``N:...,memory,...:PATH`` |
| limit | memory.max, memory.high | memory.limit_in_bytes, hierarchical_memory_limit of memory.stat |
| taken | memory.current | memory.usage_in_bytes |
| of that, pages of files | active_file, inactive_file of memory.stat | total_active_file, total_inactive_file |

Pages of files count as available, as they do in the kernel's figure for the host: it drops them before it kills
anybody. Shared memory is not among them.

Time on cores is limited likewise: by cpu.max, or cpu.cfs_quota_us and cpu.cfs_period_us of the controller ``cpu``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from gsplit.errors import InputError

ROOT = Path("/")
"""Folder in which ``/proc`` and the mount points are looked for; tests have a tree of their own."""


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Main memory as this process may use it."""

    total_bytes: int
    """Memory there is: at most as much as the host has."""
    available_bytes: int
    """Memory that can be taken without swapping or being killed; it changes all the time."""


def host_memory() -> HostMemory:
    """The least of the host's memory and that of the cgroups that this process is in.

    Raises:
        InputError: where the system does not say, without /proc.
    """
    try:
        host = psutil.virtual_memory()
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise InputError(
            f"how much memory is free cannot be read, for {error.filename} is not there; mount /proc "
            "(mount -t proc proc /proc)"
        ) from None
    total, available = host.total, host.available
    for group in _cgroups():
        total = min(total, group.total_bytes)
        available = min(available, group.available_bytes)
    return HostMemory(total_bytes=total, available_bytes=available)


def core_quota() -> float | None:
    """The cores' worth of time that cgroups allow this process: the least on the way up; None without a limit."""
    quotas = []
    for version, path in _paths("cpu"):
        for folder in _folders(version, path, "cpu"):
            names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            words = [word for name in names for line in _lines(folder / name) for word in line.split()]
            if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
                quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def usable_cores() -> float:
    """The cores' worth of time that this process may take: of the cores that it may run on, what cgroups allow."""
    cores = len(os.sched_getaffinity(0))
    return min(cores, core_quota() or cores)


def private_bytes() -> int:
    """Memory of this process that is neither of a file nor of memory that processes share."""
    lines = (line.split() for line in _lines(Path("/proc/self/smaps_rollup")))
    return next((int(line[1]) << 10 for line in lines if line[0] == "Anonymous:"), 0)


def _cgroups() -> Iterator[HostMemory]:
    """Memory of every cgroup that has a limit."""
    for version, path in _paths("memory"):
        for folder in _folders(version, path, "memory"):
            group = _version_2(folder) if version == 2 else _version_1(folder)
            if group is not None:
                yield group


def _paths(controller: str) -> Iterator[tuple[int, str]]:
    """(version, path) of the cgroups that may limit what this process takes; hosts with both versions name two."""
    for line in _lines(ROOT / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield 2, path
        elif controller in controllers.split(","):
            yield 1, path


def _folders(version: int, path: str, controller: str) -> Iterator[Path]:
    """The folder of a cgroup and those above it, as far as they are mounted.

    A mount shows the tree from its own root on: in a container often just the container's cgroup. Where a path does
    not lie below the root of any mount (it is as another namespace sees it), the mount points have to do: what a
    container sees there is its own.
    """
    mounts = list(_mounts(version, controller))
    below = [(point, os.path.relpath(path, root)) for root, point in mounts if _lies_in(path, root)]
    for point, relative in below or [(point, ".") for _, point in mounts]:
        folder = Path(os.path.normpath(point / relative))
        while not folder.is_dir() and folder != point:
            folder = folder.parent
        yield folder
        while folder != point:
            folder = folder.parent
            yield folder


def _lies_in(path: str, root: str) -> bool:
    if ".." in (*path.split("/"), *root.split("/")):  # of another namespace
        return False
    return os.path.commonpath([path, root]) == root


def _mounts(version: int, controller: str) -> Iterator[tuple[str, Path]]:
    """(root, mount point) of each mount of that version of cgroups; of version 1, with a controller.

    The format is described in proc(5) under mountinfo.
    """
    for line in _lines(ROOT / "proc/self/mountinfo"):
        fields, _, about = line.partition(" - ")
        kind, _, options = about.split(" ", 2)
        if (version, kind) == (2, "cgroup2") or (
            (version, kind) == (1, "cgroup") and controller in options.split(",")
        ):
            root, point = (_unescaped(field) for field in fields.split(" ")[3:5])
            yield root, ROOT / point.lstrip("/")


def _version_2(folder: Path) -> HostMemory | None:
    limits = [_number(folder / name) for name in ("memory.max", "memory.high")]
    return _left([limit for limit in limits if limit is not None], folder, "memory.current", "")


def _version_1(folder: Path) -> HostMemory | None:
    # The second is the least of all above, those that are not mounted here included.
    limits = [_number(folder / "memory.limit_in_bytes"), _statistics(folder).get("hierarchical_memory_limit")]
    return _left([limit for limit in limits if limit is not None], folder, "memory.usage_in_bytes", "total_")


def _left(limits: list[int], folder: Path, taken: str, prefix: str) -> HostMemory | None:
    if not limits:
        return None
    statistics = _statistics(folder)
    files = sum(statistics.get(f"{prefix}{name}", 0) for name in ("active_file", "inactive_file"))
    used = max(0, (_number(folder / taken) or 0) - files)
    return HostMemory(total_bytes=min(limits), available_bytes=max(0, min(limits) - used))


def _statistics(folder: Path) -> dict[str, int]:
    pairs = (line.split(" ") for line in _lines(folder / "memory.stat"))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _number(path: Path) -> int | None:
    """The number in a file; None for ``max``, and where there is no file: the outermost cgroup has no limits."""
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text(errors="surrogateescape").splitlines()
    return []


def _unescaped(field: str) -> str:
    """A mount point as it is; mountinfo has octal numbers for spaces and the like."""
    for code in (r"\040", r"\011", r"\012", r"\134"):
        field = field.replace(code, chr(int(code[1:], 8)))
    return field
