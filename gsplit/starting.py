"""Ctrl-C while a command starts: one line and exit code 130, whatever is being imported.

The first second of a command goes by in imports, and a KeyboardInterrupt there may surface anywhere: in a traceback,
swallowed by an extension, or as another error. Nothing has begun by then, so nothing has to be tidied up and the
process may end on the spot. :func:`watch` is called by the first package of ours that ``python -m`` imports,
:func:`watch_script` by the ``gsplit`` script, and :func:`over` once the flags are parsed; from there on Ctrl-C
raises KeyboardInterrupt, which gsplit.cli answers. After :func:`ended` only Python's own exit is left, and Ctrl-C is
too late.

This module imports as little as it can, some 2 ms. What comes before it, Python's own start, is not ours.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_watched = False
"""Whether this module handles Ctrl-C, or did."""


def watch(package: str) -> None:
    """Do as :func:`watch_script` if this process is ``python -m package…``.

    A program that only imports the package keeps its signals.
    """
    if _is_command_of(package):
        watch_script()


def watch_script() -> None:
    """Let Ctrl-C end this process at once, unless somebody handles Ctrl-C already."""
    global _watched
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        _watched = True


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


def over() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, if :func:`watch` changed that."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ended() -> None:
    """Ignore Ctrl-C from now on, if :func:`watch` handled it: the exit code and all output are settled."""
    if _watched:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_command_of(package: str) -> bool:
    """Whether this is ``python -m package…`` that is looking for its module.

    sys.argv begins with -m until the module is found.
    """
    if sys.argv[:1] != ["-m"]:
        return False
    module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")  # the word before the command's own arguments
    return module == package or module.startswith(f"{package}.")


def _leave(*_: object) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(INTERRUPTED)
