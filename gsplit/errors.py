"""The one exception that stands for a mistake of the user, and how it is told."""

from __future__ import annotations

import os
import sys
from types import FrameType, TracebackType

PACKAGE = os.path.dirname(os.path.abspath(__file__))
"""Folder of this package; calls in it are not the user's."""
PYTHONS = os.path.dirname(os.path.abspath(os.__file__))
"""Folder of Python's own modules; a call of one such as ``dataclasses.replace`` is not the user's line either."""


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
        frame = traceback.tb_frame
        if _is_in(PACKAGE, frame):
            return place, True
        if not place or not _is_in(PYTHONS, frame):
            place = f" ({os.path.basename(frame.f_code.co_filename)}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    return place, False


def _is_in(folder: str, frame: FrameType) -> bool:
    """Whether code is of a module in this folder, be it written there or generated, as a dataclass's ``__init__``."""
    file = frame.f_code.co_filename
    if file.startswith("<"):
        file = frame.f_globals.get("__file__") or file
    return file.startswith(folder + os.sep)


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
