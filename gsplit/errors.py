"""The one exception that stands for a mistake of the user, and how it is told."""

from __future__ import annotations

import os
import sys
from types import TracebackType

PACKAGE = os.path.dirname(os.path.abspath(__file__))
"""Folder of this package; calls in it are not the user's."""


class InputError(ValueError):
    """Bad input: a file, a flag or an argument. The message says what was wrong, where, and what to do.

    Commands print it as one line and exit with code 2; any other exception is a fault of ours and keeps its
    traceback.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook in place of a traceback."""
        return [f"error: {' '.join(str(self).split())}"]


def one_line(error: InputError) -> str:
    """The line that tells the user of a script, with the place where the script called GSplit."""
    place, traceback = "", error.__traceback__
    while traceback is not None and not traceback.tb_frame.f_code.co_filename.startswith(PACKAGE + os.sep):
        place = f" ({os.path.basename(traceback.tb_frame.f_code.co_filename)}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    return f"error: {' '.join(str(error).split())}{place}"


def one_line_errors() -> None:
    """Print an InputError that nobody catches as one line; all else is left to Python.

    A program with an ``sys.excepthook`` of its own keeps it. The exit code stays Python's, 1.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _say


def _say(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, InputError):
        print(one_line(error), file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)
