"""A tree of control groups that is not the host's."""

from __future__ import annotations

from pathlib import Path

from gsplit import limits

MOUNTS = {
    2: "31 23 0:28 {root} {point} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate",
    1: "35 31 0:32 {root} {point} rw,relatime shared:9 - cgroup cgroup rw,memory",
}
POINTS = {2: "/sys/fs/cgroup", 1: "/sys/fs/cgroup/memory"}


def write_tree(root: Path, lines: str, mounts: list[str], files: dict[str, object]) -> None:
    """``proc/self`` and the files of some cgroups, below ``root``.

    Args:
        root: for :data:`gsplit.limits.ROOT`.
        lines: of /proc/self/cgroup.
        mounts: lines of /proc/self/mountinfo, beside some that are no cgroups.
        files: path -> content.
    """
    others = ["23 1 8:1 / / rw - ext4 /dev/sda1 rw", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"]
    about = {"/proc/self/cgroup": lines, "/proc/self/mountinfo": "\n".join([*others, *mounts])}
    for name, content in {**about, **files}.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


def give_memory(monkeypatch, tmp_path: Path, available: int, *, total: int | None = None) -> None:
    """Let this process be in a cgroup that allows it that many bytes more.

    Args:
        available: bytes; no more than the host has.
        total: bytes; by default as many.
    """
    total = available if total is None else total
    files = {"memory.max": total, "memory.current": total - available}
    write_tree(
        tmp_path / "limited",
        "0::/",
        [MOUNTS[2].format(root="/", point=POINTS[2])],
        {f"{POINTS[2]}/{name}": value for name, value in files.items()},
    )
    monkeypatch.setattr(limits, "ROOT", tmp_path / "limited")
