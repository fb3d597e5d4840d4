"""The user's script in the trainers: a spawned process imports it again, under another name.

So the script must be a file, models of the user's must be defined where a trainer finds them, and the import must not
reach the call that starts trainers. The first two are looked at before a process is started. The last shows only in a
trainer, which then ends without a word and leaves it to its parent to say so.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from types import ModuleType

from gsplit.errors import InputError, one_line_errors
from gsplit.hosts import place_of

NAME = "gsplit-trainer"
"""The name of trainer processes; the rank follows."""
NO_GUARD = 95
"""Exit code of a trainer that was about to start trainers of its own."""
TRAINING = "gsplit.train"
"""What trainers that somebody else has started call, too."""
GUARD = (
    "a trainer imported the script that starts trainers and would start them again; put the calls of gsplit.train, "
    "gsplit.predict and what makes graphs for them under: if __name__ == '__main__':"
)
"""The message about that."""

_at_work = False
"""Whether this is a trainer that has imported the script."""


def check_script(call: str) -> None:
    """Check that trainers can import the script, before anything else is done by a function that starts them.

    From then on a mistake of the user's that nobody catches ends the script with one line.

    Args:
        call: the name of the function, for messages.

    Raises:
        InputError: for a script that trainers could not import, and in a trainer that runs.
    """
    check_no_trainer(call)
    path = _path(sys.modules["__main__"])
    if path is not None and not os.path.isfile(path):
        what = "a script that is read from standard input" if path.endswith("<stdin>") else f"the script {path}"
        raise InputError(
            f"{call}: trainers import the script that starts them, and {what} is no file that they could read; save "
            "it as a file and run that"
        )


def check_no_trainer(call: str) -> None:
    """Check that this is no trainer, in what a script does before trainers start, and would do in each of them.

    From then on a mistake of the user's that nobody catches ends the script with one line. Trainers that somebody
    else has started may call ``gsplit.train`` alone.

    Args:
        call: the name of the function, for messages.

    Raises:
        InputError: in a trainer that runs.
    """
    if multiprocessing.current_process().name.startswith(NAME):
        if not _at_work:
            os._exit(NO_GUARD)  # a traceback of each trainer would hide what the parent says
        raise InputError(f"{call} was called in a trainer, which cannot start others")
    one_line_errors()
    if call != TRAINING and (place := place_of()) is not None:
        raise InputError(
            f"{call} is done by one process, and {place.by} has started {place.world} of this script; do it in a "
            "script of its own, before"
        )


def script_was_imported() -> None:
    """Note, in a trainer, that the script has been imported: what is called from now on is the trainer's work."""
    global _at_work
    _at_work = True


def finds_main() -> bool:
    """Return whether a trainer finds what ``__main__`` defines; not of a prompt, a notebook, ``-c``, a package."""
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", None)
    if name is not None:
        return name.rpartition(".")[2] != "__main__"
    return _path(main) is not None


def _path(main: ModuleType) -> str | None:
    """The file that multiprocessing would have a trainer import, as in multiprocessing.spawn.get_preparation_data."""
    path: str | None = getattr(main, "__file__", None)
    return None if path is None or main.__spec__ is not None else os.path.abspath(path)
