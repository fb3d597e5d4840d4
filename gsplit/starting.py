"""The first steps of a process: standard files that are open, and signals while a command starts.

A process may be started with standard input, output or errors closed, as cron, systemd and ``>&-`` do. The next file
that is opened would then have their number, and what a child or a library prints would go into it. So the import of
the package opens /dev/null in their place (:func:`open_standard_files`).

The first second of a command goes by in imports, and a KeyboardInterrupt there may surface anywhere: in a traceback,
swallowed by an extension, or as another error. Nothing has begun by then, so nothing has to be tidied up, and Ctrl-C
and SIGTERM end the process on the spot, with one line and exit code 130 or 143. :func:`watch` is called by the first
package of ours that ``python -m`` or the ``gsplit`` script imports, and :func:`over` once the flags are parsed; from
there on they raise what gsplit.cli answers. After :func:`ended` only Python's own exit is left, and they are ignored.

This module imports as little as it can, some 2 ms. What comes before it, Python's own start, is not ours.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143
"""Exit codes after a fault of ours or a death, after a mistake of the user, after Ctrl-C and after SIGTERM."""
LEAVING = {signal.SIGINT: (b"interrupted\n", INTERRUPTED), signal.SIGTERM: (b"terminated\n", TERMINATED)}
"""Line and exit code of a command that is ended as it starts, by the signal."""
_watched: set[signal.Signals] = set()
"""The signals that this module handles, or did."""


def open_standard_files() -> None:
    """Open /dev/null for standard input, output and errors where they are closed, here and in children."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        with suppress(OSError):  # where not even that can be opened they stay closed
            try:
                os.fstat(number)
            except OSError:
                opened = os.open(os.devnull, os.O_RDWR)  # has this number: lower ones are open
                os.set_inheritable(opened, True)
            if getattr(sys, name) is None:
                file = open(number, mode, closefd=False)  # noqa: SIM115 - stays open
                setattr(sys, name, file)


def watch(package: str) -> None:
    """Open standard files, and do as :func:`watch_script` if this process is ``python -m package…`` or its script.

    A program that only imports the package keeps its signals.
    """
    open_standard_files()
    if _is_command_of(package):
        watch_script()


def watch_script() -> None:
    """Let Ctrl-C and SIGTERM end this process at once, each unless it is handled already."""
    for number, before in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is before:
            signal.signal(number, _leave)
            _watched.add(number)


class Importing:
    """``with Importing():`` no garbage is looked for, in which a tenth of PyTorch's import would go by.

    What is there in the end stays for as long as the process, and is not looked through any more.
    """

    def __enter__(self) -> None:
        self._looked = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.freeze()
        if self._looked:
            gc.enable()


def over(terminate: Callable[[int, FrameType | None], None]) -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, and SIGTERM call ``terminate``, where :func:`watch` changed that."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, terminate)):
        if signal.getsignal(number) is _leave:
            signal.signal(number, handler)


def ended() -> None:
    """Ignore the signals that :func:`watch` handled from now on: the exit code and all output are settled."""
    for number in _watched:
        signal.signal(number, signal.SIG_IGN)


def _is_command_of(package: str) -> bool:
    """Return whether this is ``python -m package…`` that is looking for its module, or the script of that name.

    sys.argv begins with -m until the module is found; trainers have that of the process that started them.
    """
    if sys.argv == sys.orig_argv[-len(sys.argv) :] and os.path.basename(sys.argv[0]) == package:
        return True
    if sys.argv[:1] != ["-m"]:
        return False
    module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")  # the word before the command's own arguments
    return module == package or module.startswith(f"{package}.")


def _leave(number: int, _: object) -> None:
    line, code = LEAVING[signal.Signals(number)]
    try:
        os.write(2, line)
    finally:
        os._exit(code)
