"""The most private memory that processes take."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

PAUSE_S = 0.003


class Peak:
    """The most private memory of a process, looked at again and again by a thread until the block ends.

    Args:
        processes: by id; by default this one alone.
    """

    def __init__(self, processes: Sequence[int | str] = ("self",)) -> None:
        self.num_bytes = 0
        self._processes = processes
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        with ExitStack() as stack:
            files = [stack.enter_context(Path(f"/proc/{each}/statm").open()) for each in self._processes]
            ended = False
            while not ended:
                ended = self._done.wait(PAUSE_S)
                self.num_bytes = max(self.num_bytes, *map(_private_bytes, files))


def _private_bytes(statm: TextIO) -> int:
    """What is resident and neither of a file nor of memory that processes share."""
    statm.seek(0)
    resident, shared = map(int, statm.read().split()[1:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
