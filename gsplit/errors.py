"""Mistakes of the user, deaths of our processes, how both are printed, and what the host did not give."""

from __future__ import annotations

import errno
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

    Examples:
        >>> try:
        ...     gsplit.TrainConfig(epochs=-1)
        ... except gsplit.InputError as error:
        ...     print(error)
        --epochs must be at least 0, not -1
    """

    said: bool = False
    """Whether another process of this host prints the line."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in a notebook in place of a traceback."""
        return [f"error: {' '.join(str(self).split())}"]


class ProcessDied(RuntimeError):
    """A process of ours failed or was killed; the message holds its traceback, or the signal that ended it.

    Commands and scripts print the message without a traceback of their own, which would say where they waited.
    """

    said: bool = False
    """Whether another process of this host prints it."""
    trace: str = ""
    """The traceback of what failed, where the message does not hold it."""

    def told(self, place: str = "") -> str:
        """The lines to print; ``place`` is where a script called GSplit."""
        line, *its_own = str(self).splitlines()
        return "\n".join([*self.trace.splitlines(), f"error: {line}{place}", *its_own])


FEWER = "use fewer --gpus, --samplers, --slots or --threads"
FORBIDDEN = "the system does not let this process do that, as a container or a sandbox may be set up"
TOO_LITTLE = {
    errno.EMFILE: f"allow a process more open files (ulimit -n), or {FEWER}",
    errno.ENFILE: "the host has as many files open as it may (sysctl fs.file-max)",
    errno.ENOMEM: f"free memory, allow more of it (ulimit -v, the memory of the container), or {FEWER}",
    errno.EAGAIN: f"allow more processes and threads (ulimit -u, the limit of the container), or {FEWER}",
    errno.EPERM: FORBIDDEN,
    errno.EACCES: FORBIDDEN,
    errno.ENOSYS: FORBIDDEN,
    errno.EROFS: "choose a place on another disk",
    errno.ENOSPC: "make room, or set TMPDIR to a folder on another disk",
    errno.EDQUOT: "make room, or set TMPDIR to a folder on another disk",
}
"""What to do where the system did not give what a call asked for, by the number of the error."""
IN_WORDS = {
    "can't start new thread": errno.EAGAIN,
    "can't allocate memory": errno.ENOMEM,
    "failed to map segment": errno.ENOMEM,
    "No usable temporary directory": errno.ENOSPC,
    **{os.strerror(number): number for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)},
}
"""The same where a library says it in words alone."""


def refused_by_host(error: BaseException) -> str | None:
    """One line for an exception that says that the host did not give a process what it needs, with what to do.

    None for any other exception: those are faults of ours, and keep their tracebacks.
    """
    if not isinstance(error, (OSError, MemoryError, RuntimeError, ImportError)):
        return None
    number = error.errno if isinstance(error, OSError) else errno.ENOMEM if isinstance(error, MemoryError) else None
    lines = str(error).splitlines() or [os.strerror(errno.ENOMEM)]
    line = lines[0]
    if number in TOO_LITTLE and isinstance(error, OSError):
        line = f"{error.strerror}" if error.filename is None else f"{error.filename}: {error.strerror}"
    elif number not in TOO_LITTLE:
        number = next((number for words, number in IN_WORDS.items() if words in str(error)), None)
        line = next((line for line in lines if any(words in line for words in IN_WORDS)), line)
    return None if number is None else f"{line}; {TOO_LITTLE[number]}"


def one_line(error: InputError) -> str:
    """The line that tells the user of a script, with the place where the script called GSplit."""
    return f"error: {' '.join(str(error).split())}{_place(error.__traceback__)[0]}"


def _place(traceback: TracebackType | None) -> tuple[str, bool]:
    """Return where a script called GSplit, or what else went wrong there; and whether it was in GSplit."""
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
    """Return whether code is of a module in this folder, written or generated, as a dataclass's ``__init__``."""
    file = frame.f_code.co_filename
    if file.startswith("<"):
        file = frame.f_globals.get("__file__") or file
    return file.startswith(folder + os.sep)


def one_line_errors() -> None:
    """Print an InputError that nobody catches, and Ctrl-C in a call of ours, as one line.

    One line is also what the host refuses there (:func:`refused_by_host`), and that a process of ours was killed; of
    one that failed its own traceback follows. All else is left to Python.

    A program with an ``sys.excepthook`` of its own keeps it. The exit code stays Python's: 1, after Ctrl-C 130.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _say


def _say(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if getattr(error, "said", False):  # by another process of this host
        return
    place, ours = _place(traceback)
    if isinstance(error, InputError):
        print(one_line(error), file=sys.stderr)
    elif isinstance(error, ProcessDied):
        print(error.told(place), file=sys.stderr)
    elif ours and (line := refused_by_host(error)) is not None:
        print(f"error: {line}{place}", file=sys.stderr)
    elif ours and isinstance(error, KeyboardInterrupt):
        print(f"interrupted{place}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)
