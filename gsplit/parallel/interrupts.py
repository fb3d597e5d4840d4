"""Ctrl-C as a request: the first one asks the children to stop; a second one, or a day of silence, ends them."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOP_S = 86400.0
"""How long children may take to stop when they are asked to: an evaluation they are at is finished first, and may
take long. Who does not want to wait presses Ctrl-C again."""
STOPPING = "stopping after the mini-batch at work, or the evaluation; Ctrl-C again ends at once"


class Interrupts:
    """Whether Ctrl-C was pressed, and a bell that wakes the waiting parent."""

    def __init__(self) -> None:
        self.bell, self._ring = multiprocessing.get_context("spawn").Pipe(duplex=False)
        self._since_s: float | None = None

    def left_s(self) -> float | None:
        """Seconds that the children still have to stop; None where nobody asked them to.

        Raises:
            KeyboardInterrupt: where they have none.
        """
        if self._since_s is None:
            return None
        left_s = self._since_s + STOP_S - time.monotonic()
        if left_s <= 0:
            raise KeyboardInterrupt
        return left_s

    def note(self, *_: Any) -> None:
        """The signal handler. It only rings: what the parent is at is not torn apart."""
        if self._since_s is not None:
            raise KeyboardInterrupt
        self._since_s = time.monotonic()
        self._ring.send_bytes(b"!")

    def say(self) -> None:
        """Tell the user what happens now."""
        with contextlib.suppress(OSError, ValueError):  # Ctrl-C also ends whoever reads our errors, such as tee
            print(STOPPING, file=sys.stderr, flush=True)

    def close(self) -> None:
        self.bell.close()
        self._ring.close()


@contextmanager
def interrupts(stop: Callable[[], None] | None) -> Iterator[Interrupts]:
    """Notes Ctrl-C instead of raising it, where there is someone to ask, and signals reach this thread."""
    noted = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    ours = (
        stop is not None
        and before is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    )
    if ours:
        signal.signal(signal.SIGINT, noted.note)
    try:
        yield noted
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
        noted.close()
