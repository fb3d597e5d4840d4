"""The one exception that stands for a mistake of the user."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input: a file, a flag or an argument. The message says what was wrong, where, and what to do.

    Commands print it as one line and exit with code 2; any other exception is a fault of ours and keeps its
    traceback.
    """
