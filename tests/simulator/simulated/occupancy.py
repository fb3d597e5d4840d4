"""When a device with a number of slots would begin with what its streams were given, in a time of its own.

A GPU has multiprocessors, and a kernel has blocks, each of which takes one (a slot) and keeps it to its end. Blocks
of the kernel that came first are handed out before any of the next; a kernel of a stream of higher priority is next
whenever a slot is free, but takes none from what runs. So a kernel of a hundred thousand blocks that wait for the bus
lets nobody else begin until the last of them has a slot, while one of sixteen leaves the other slots alone.

What streams were given is noted by ``torch.ops.sim.note_tasks``. A stream comes to a task when it is done with the
one before, and with what the task is to come after: waits of streams are noted, those of the host are the caller's to
add. Nothing here depends on a clock.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Task:
    """What a stream was given, and what becomes of it."""

    stream: int
    name: str
    blocks: int = 1
    """None of one that only waits."""
    seconds: float = 0.0
    """Of each block."""
    after: list[tuple[int, int]] = field(default_factory=list)
    """Streams, and how many of the tasks of each have to be over."""
    ready: float = 0.0
    """When its stream has come to it."""
    begun: float = 0.0
    """When its last block was given a slot."""
    ended: float = 0.0
    _number: int = field(default=0, repr=False)
    _left: int = field(default=0, repr=False)
    _running: int = field(default=0, repr=False)


def tasks_of(noted: Sequence[str], device: int) -> list[Task]:
    """The tasks of a device, in the order in which they were given.

    Args:
        noted: of ``torch.ops.sim.noted_tasks``.
        device: its number.
    """
    tasks = []
    for line in noted:
        of, stream, name = line.split(" ", 2)
        if int(of) == device:
            tasks.append(Task(stream=int(stream), name=name))
            if name.startswith("wait "):
                _, awaited, ticket = name.split(" ")
                tasks[-1].blocks, tasks[-1].after = 0, [(int(awaited), int(ticket))]
    return tasks


def run(
    tasks: Sequence[Task], slots: int, *, over: Mapping[int, int] | None = None, first: Sequence[int] = ()
) -> float:
    """Let a device do all tasks; each is told when it was ready, when it had begun and when it ended.

    Args:
        tasks: in the order in which they were given.
        slots: of the device.
        over: how many tasks each stream was done with before; none without.
        first: streams of high priority.

    Returns:
        The time when all is done.

    Raises:
        ValueError: where tasks wait for each other.
    """
    queues: dict[int, list[Task]] = defaultdict(list)
    for number, task in reversed(list(enumerate(tasks))):
        task._number, task._left, task._running = number, task.blocks, 0
        queues[task.stream].append(task)
    done = defaultdict(int, over or {})
    now, free, came = 0.0, slots, 0
    waiting: list[tuple[bool, int, Task]] = []  # kernels with blocks left: low priority, number of arrival
    busy: set[int] = set()  # streams whose task is waiting or running
    running: list[tuple[float, int, int, Task]] = []
    while True:
        moved = True
        while moved:  # streams come to their next tasks
            moved = False
            heads = sorted((queue[-1] for queue in queues.values() if queue), key=lambda task: task._number)
            for task in heads:
                stream, queue = task.stream, queues[task.stream]
                if stream in busy or any(done[other] < ticket for other, ticket in task.after):
                    continue
                queue.pop()
                task.ready = task.begun = task.ended = now
                if not task.blocks:
                    done[stream] += 1
                    moved = True
                    continue
                busy.add(stream)
                came += 1
                heapq.heappush(waiting, (stream not in first, came, task))
        while waiting and free:  # blocks are given slots
            task = waiting[0][2]
            given = min(free, task._left)
            task._left -= given
            task._running += given
            free -= given
            came += 1
            heapq.heappush(running, (now + task.seconds, came, given, task))
            if not task._left:
                task.begun = now
                heapq.heappop(waiting)
        if not running:
            break
        now, _, given, task = heapq.heappop(running)
        free += given
        task._running -= given
        if not (task._left or task._running):
            task.ended = now
            done[task.stream] += 1
            busy.remove(task.stream)
    if any(queues.values()):
        raise ValueError(f"tasks wait for each other: {[queue[-1] for queue in queues.values() if queue]}")
    return now
