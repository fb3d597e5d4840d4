"""Hosts whose memory is in several nodes, each nearer to some of the cores and GPUs than to others (NUMA).

The kernel takes a page from the node of the core that asks for it. Memory that all trainers read would so be in the
node of the one that allocates it, and half of the GPUs of two sockets would read it through the other socket. It is
spread over the nodes piece by piece, each allocated by a core of the next node: a policy of the kernel's
(set_mempolicy) does the same by pages, but containers forbid that call. And a trainer stays on the cores of its GPU's
node, with the threads that it starts.

Cores that a user, a container or a job's scheduler has chosen are respected: only a process that may use all of the
host is bound, and memory is spread over the nodes of its cores.

None of this has been seen on such a host: tests give it files like theirs and look at what it asks of the kernel.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

ROOT = Path("/")
"""Folder in which ``/sys`` is looked for; tests have a tree of their own."""
PIECE_BYTES = 2 << 20
"""Bytes in a row that one node has of memory that is spread: a large page."""
_chosen: list[set[int]] = []
"""The cores of this process before it was bound."""


def cores_of_nodes() -> dict[int, set[int]]:
    """The cores of each node that has some and memory, by its number; none where the system does not say."""
    folder = ROOT / "sys/devices/system/node"
    with contextlib.suppress(OSError, ValueError):
        nodes = _listed(folder / "has_memory") & _listed(folder / "has_cpu")
        return {node: _listed(folder / f"node{node}/cpulist") for node in sorted(nodes)}
    return {}


def bind(addresses: Sequence[str | None], own: int, threads: int) -> bool:
    """Keep this process, and the threads that it starts from now on, on the cores of its GPU's node.

    It stays where it is on a host of one node, where its cores were chosen already, and where the node has too few
    for the trainers whose GPUs are there.

    Args:
        addresses: PCI addresses of the GPUs of all trainers; None where one is not known.
        own: which of them is this trainer's.
        threads: that each trainer computes with.
    """
    nodes, allowed = cores_of_nodes(), os.sched_getaffinity(0)
    near = [_node_of(address) for address in addresses]
    cores, everything = nodes.get(near[own], set()), set().union(*nodes.values())
    if len(nodes) < 2 or not cores or allowed != everything or near.count(near[own]) * threads > len(cores):
        return False
    if not _go_to(cores):
        return False
    _chosen[:] = [allowed]
    return True


def allocate(fd: int, num_bytes: int) -> None:
    """Make room in a file in memory, spread over the nodes of the cores that this process was given.

    Raises:
        OSError: where the system does not give it.
    """
    now = os.sched_getaffinity(0)
    allowed = _chosen[0] if _chosen else now
    nodes = [cores for all_cores in cores_of_nodes().values() if (cores := all_cores & allowed)]
    if len(nodes) < 2:
        os.posix_fallocate(fd, 0, num_bytes)
        return
    try:
        for piece, begin in enumerate(range(0, num_bytes, PIECE_BYTES)):
            _go_to(nodes[piece % len(nodes)])
            os.posix_fallocate(fd, begin, min(PIECE_BYTES, num_bytes - begin))
    finally:
        _go_to(now)


def _go_to(cores: set[int]) -> bool:
    """Keep this process on some cores; False where a sandbox forbids that, and it stays where it is."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        return False
    return True


def _node_of(address: str | None) -> int:
    """The node of a device on the PCI bus; -1 where the system does not say, as it does itself."""
    with contextlib.suppress(OSError, ValueError):
        return int((ROOT / f"sys/bus/pci/devices/{address}/numa_node").read_text())
    return -1


def _listed(path: Path) -> set[int]:
    """The numbers of a list of the kernel's, such as ``0-3,8-11``."""
    numbers: set[int] = set()
    for part in path.read_text().strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers
