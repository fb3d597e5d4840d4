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
    return f"error: {' '.join(str(error).split())}{_place(error.__traceback__)[0]}"


def _place(traceback: TracebackType | None) -> tuple[str, bool]:
    """Where a script called GSplit, or what else went wrong there; and whether it was in GSplit."""
    place = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file.startswith(PACKAGE + os.sep):
            return place, True
        place = f" ({os.path.basename(file)}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    return place, False


def one_line_errors() -> None:
    """Print an InputError that nobody catches, and Ctrl-C in a call of ours, as one line; all else is left to Python.

    A program with an ``sys.excepthook`` of its own keeps it. The exit code stays Python's: 1, after Ctrl-C 130.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _say


def _say(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, InputError):
        print(one_line(error), file=sys.stderr)
    elif isinstance(error, KeyboardInterrupt) and (at := _place(traceback))[1]:
        print(f"interrupted{at[0]}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)
