"""Ctrl-C and SIGTERM as requests to stop.

The first one asks the children to stop; a second one, or a day of silence, ends them. SIGTERM is what Slurm, docker
stop and systemd send.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from gsplit.host import end_tidily
from gsplit.terminal import say_error

STOP_S = 86400.0
"""Seconds that children may take to stop when they are asked to: the current mini-batch is finished first, and may
take long. Another Ctrl-C ends the wait."""
SAME_S = 1.0
"""Seconds within which a second SIGTERM is the same one: timeout(1), for one, sends it to the process and to its
group."""
STOPPING = "stopping after the current mini-batch, and a checkpoint; Ctrl-C again ends at once"
"""The line that is printed when the children are asked to stop."""


class Interrupts:
    """Requests to stop, and a bell that wakes the waiting parent."""

    def __init__(self) -> None:
        self.bell, self._ring = multiprocessing.get_context("spawn").Pipe(duplex=False)
        """The pipe to wait for: it has something to read once somebody has asked to stop."""
        self._since_s: float | None = None
        self._number: int | None = None

    @property
    def end(self) -> BaseException:
        """The exception that ends this process as the signal would have, with what is half done taken back."""
        return SystemExit(128 + signal.SIGTERM) if self._number == signal.SIGTERM else KeyboardInterrupt()

    def left_s(self) -> float | None:
        """Seconds that the children still have to stop; None where nobody asked them to.

        Raises:
            KeyboardInterrupt, SystemExit: where no time is left.
        """
        if self._since_s is None:
            return None
        left_s = self._since_s + STOP_S - time.monotonic()
        if left_s <= 0:
            raise self.end
        return left_s

    def note(self, number: int, _: Any) -> None:
        """Handle a signal. The first one only rings, so that what the parent is at is not torn apart.

        Raises:
            KeyboardInterrupt, SystemExit: for the second one.
        """
        now_s = time.monotonic()
        if self._since_s is None:
            self._number, self._since_s = number, now_s
            self._ring.send_bytes(b"!")
        elif number != signal.SIGTERM or now_s - self._since_s > SAME_S:
            self._number = number
            raise self.end

    def say(self) -> None:
        """Tell the user what happens now."""
        say_error(STOPPING)

    def close(self) -> None:
        """Close the bell."""
        self.bell.close()
        self._ring.close()


class Asked:
    """Requests to stop that reach one of the trainers, where no launcher hears them for all.

    Args:
        stop: called at the first one, in a signal's handler.
        says: whether this trainer tells the user.
    """

    def __init__(self, stop: Callable[[], object], *, says: bool) -> None:
        self.number = 0
        """The signal that came first; 0 for none."""
        self._stop, self._says = stop, says

    def note(self, number: int, _: Any) -> None:
        """Handle a signal; raises KeyboardInterrupt for a second Ctrl-C."""
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.number:
            self.number = number
            self._stop()
            if self._says:
                say_error(STOPPING)


@contextmanager
def asked(stop: Callable[[], object], *, says: bool) -> Iterator[Asked]:
    """Have Ctrl-C and SIGTERM, unless they are handled otherwise, ask to stop until the block ends."""
    noted = Asked(stop, says=says)
    # Of a run that stops for one the next would tear the end apart.
    with _handled(noted.note, after=lambda handler: signal.SIG_IGN if noted.number else handler):
        yield noted


@contextmanager
def interrupts(asking: bool) -> Iterator[Interrupts]:
    """Note Ctrl-C and SIGTERM in the block instead of raising them.

    A signal that the process handles in a way of its own is left alone; in other threads than the main one, which
    signals do not reach, all are.

    Args:
        asking: whether there is anyone to ask; otherwise signals are left alone.
    """
    with closing(Interrupts()) as noted, _handled(noted.note, asking):
        yield noted


@contextmanager
def _handled(
    note: Callable[[int, Any], None], asking: bool = True, after: Callable[[Any], Any] = lambda handler: handler
) -> Iterator[None]:
    """Handle the signals that ask to stop, unless the process handles them in a way of its own.

    Args:
        note: handles them in the block.
        asking: whether to handle any.
        after: of a handler before the block, that after it.
    """
    ours = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: end_tidily}
    reach = asking and threading.current_thread() is threading.main_thread()
    before = {number: handler for number, handler in ours.items() if reach and signal.getsignal(number) is handler}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, after(handler))
