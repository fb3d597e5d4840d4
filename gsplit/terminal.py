"""Lines for the user, on standard output and standard error."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress

from gsplit.errors import InputError


def say(line: str) -> None:
    """Print a line; a reader that went away, as ``head`` does, must not end a training run.

    Raises:
        InputError: where standard output cannot be written to, as on a full disk.
    """
    _write_output(line + "\n")


def flush() -> None:
    """Have all that was printed written; raises what :func:`say` does."""
    _write_output("")


def say_error(line: str) -> None:
    """Print a line on standard error, if it can be written to; there is no other place to complain in."""
    if sys.stderr is not None:
        try:
            print(line, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - or leaving would try to write once more


def reader_gone() -> bool:
    """Return whether standard output is a pipe whose reader has gone away."""
    with suppress(OSError, ValueError, AttributeError):
        poll = select.poll()
        poll.register(sys.__stdout__.fileno(), 0)  # type: ignore[union-attr]
        return bool(poll.poll(0))
    return False


def _write_output(text: str) -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open, for the lines to come
        if not isinstance(error, BrokenPipeError):
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"standard output cannot be written to: {reason}") from None
