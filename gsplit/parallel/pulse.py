"""The pulse of a trainer among hosts: each second it looks whether the others are there, and ends where they are not.

A connection breaks where a process ends. Where a cable is cut or a host loses its power nothing breaks, and a
collective waits for ever; so each host's first trainer counts in the store, and who sees no host count any more ends
its process, with a line. Two threads do that: one talks to the store, which may hang with the network, the other
looks at the clock.

| what is seen | after | the line |
|---|---|---|
| another trainer has written down why it failed | ``END_S`` | that |
| a process of this host is gone, and has not said that it leaves | one second | that it was killed |
| a host counts no more | ``--silence`` | that it has been silent |
| the store does not answer | ``--silence`` | that its host has been silent |
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import torch.distributed as dist

from gsplit.parallel.meeting import PULSE, End, Meeting
from gsplit.starting import FAILED

BEAT_S = 1.0
"""Seconds between two counts, at most; a quarter of ``--silence`` where that is less."""
END_S = 3.0
"""Seconds that a trainer has to find out for itself that another has failed."""
STAYS_S = 2.0
"""Seconds more that the trainer with the store has, so that the others have read in it why."""
LOOK_S = 0.25
"""Seconds between two looks at the clock."""


class Pulse:
    """Beats from when it is made until it is closed; all trainers make one, together.

    Args:
        meeting: of this trainer.
        silence_s: seconds without a count after which a host, or the store, is taken for gone.
        end: called with why this process ends, and whether it says so for its host; it does not return.
    """

    def __init__(self, meeting: Meeting, silence_s: float, end: Callable[[End, bool], None]) -> None:
        self._meeting, self._silence_s, self._end = meeting, silence_s, end
        self._place, self._store = meeting.place, meeting.client()
        self._beat_s = min(BEAT_S, silence_s / 4)
        self._closed = threading.Event()
        now_s = time.monotonic()
        self._answered_s = now_s
        """When the store answered last."""
        self._counts = dict.fromkeys(range(self._place.hosts), (b"", now_s))
        """What each host has counted, and when that was new."""
        self._deaf_s = 0.0
        """Seconds that this process lost since the store answered last."""
        self._found: tuple[End, float] | None = None
        """Why the run ends, and when this process does."""
        for target in (self._talk, self._watch):
            threading.Thread(target=target, name="gsplit-pulse", daemon=True).start()

    def close(self) -> None:
        """Leave off."""
        self._closed.set()

    def _talk(self) -> None:
        count = 0
        while not self._closed.wait(self._beat_s if count else 0):
            count += 1
            with suppress(dist.DistError, RuntimeError):  # the next beat tries again
                if self._place.local == 0:
                    self._store.set(PULSE.format(self._place.host), str(count))
                self._hear()
                self._answered_s, self._deaf_s = time.monotonic(), 0.0

    def _hear(self) -> None:
        for host, (before, _) in list(self._counts.items()):
            key = PULSE.format(host)
            if self._store.check([key]) and (counted := self._store.get(key)) != before:
                self._counts[host] = counted, time.monotonic()
        if self._found is None:
            from_s = time.monotonic() + (STAYS_S if self._place.rank == 0 and not self._place.served else 0)
            if (end := self._meeting.written(self._store)) is not None:
                self._found = end, from_s + END_S
            elif (end := self._meeting.killed_here(self._store)) is not None:
                self._found = self._meeting.write(end, self._store), from_s + BEAT_S
        if self._found is not None and time.monotonic() > self._found[1] and not self._closed.is_set():
            speaks = self._meeting.speaks(self._store)
            self._meeting.count_out(self._store)
            self._end(self._found[0], speaks)

    def _watch(self) -> None:
        looked_s = time.monotonic()
        while not self._closed.wait(LOOK_S):
            now_s = time.monotonic()
            # Where this process was stopped, or did not get at Python's lock, it could not have heard anything.
            self._deaf_s += max(0.0, now_s - looked_s - 2 * LOOK_S)
            looked_s = now_s
            if self._found is not None and now_s > self._found[1] + 2 * BEAT_S:  # the store does not answer
                self._end(self._found[0], self._meeting.speaks_alone)
            line = self._silent(now_s)
            if line is not None:
                self._end(End(line=f"{self._place.name}: {line}", code=FAILED), self._meeting.speaks_alone)

    def _silent(self, now_s: float) -> str | None:
        """Who has been silent for too long; None for nobody."""
        place, is_down = self._place, "it is down, or the network to it is cut"
        silent_s = now_s - self._answered_s - self._deaf_s
        if silent_s > self._silence_s:
            return (
                f"{place.address}:{place.port}, where trainers find each other, has been silent for "
                f"{silent_s:.0f} s: {is_down}"
            )
        for host, (_, since_s) in self._counts.items():
            silent_s = now_s - since_s - self._deaf_s
            if host != place.host and silent_s > self._silence_s and now_s - self._answered_s < self._silence_s / 2:
                first = host * place.here
                name = f"{self._meeting.names[first]} (trainers {first} to {first + place.here - 1})"
                return f"{name} has been silent for {silent_s:.0f} s: {is_down}"
        return None


def leave_at_once(code: int) -> None:
    """End this process without taking anything down, which might wait for those who are gone."""
    os._exit(code)
