"""Lines for the user, on standard output."""

from __future__ import annotations

import os
import sys


def say(line: str) -> None:
    """Print a line; a reader that went away, as ``head`` does, must not end a training run."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open, for the lines to come
