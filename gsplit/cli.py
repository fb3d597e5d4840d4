"""What all commands share: one-line errors, exit codes, flags, and names of commands."""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from gsplit import starting
from gsplit.config.flags import HELP, Answers, call, flags_of, help_text, read
from gsplit.errors import InputError, ProcessDied, refused_by_host
from gsplit.host import end_tidily, ending_tidily, is_ending, raise_again
from gsplit.starting import BAD_INPUT, FAILED, INTERRUPTED, TERMINATED
from gsplit.terminal import flush, reader_gone, say, say_error

T = TypeVar("T")

OURS = ("gsplit", "experiments", "__main__")
"""Packages whose log is the user's to read; of libraries only warnings are."""
LONGEST_LINE = 2000
"""Number of characters of an error line at most; a longer one loses its middle."""


def log_to_stderr() -> None:
    """Have what is logged in this process be lines on standard error."""
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.INFO, "info")


def main(command: Callable[[list[str]], None]) -> None:
    """Run ``command(arguments)`` and exit: 0, 1 after a fault of ours or a death, 2 with one line for bad input.

    After Ctrl-C 130, after SIGTERM 143.
    """
    log_to_stderr()
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = raise_again
    try:
        with ending_tidily():
            try:
                command(sys.argv[1:])
            except SystemExit as end:
                if not end.code:
                    flush()  # help, that is
                raise
            flush()
    except KeyboardInterrupt:
        say_error("interrupted")
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == TERMINATED:
            say_error("terminated")
        raise
    except (InputError, OSError, MemoryError, RuntimeError, ImportError) as error:
        if is_ending():  # what a library made of the signal, as an import of compiled code that it came in
            say_error("terminated")
            sys.exit(TERMINATED)
        if isinstance(error, InputError):
            sys.exit(BAD_INPUT if error.said else _say_error(str(error)))
        if isinstance(error, ProcessDied):
            if not error.said:
                say_error(error.told())
            sys.exit(FAILED)
        if isinstance(error, BrokenPipeError) and reader_gone():  # as `head` goes, of a command that prints itself
            sys.stdout = None
            sys.exit(0)
        if (line := refused_by_host(error)) is None:
            raise
        sys.exit(_say_error(line))
    finally:
        starting.ended()


def parse(
    command: Callable[..., T],
    arguments: Sequence[str],
    *,
    prog: str,
    defaults: Mapping[str, Any] | None = None,
    answers: Answers | None = None,
    needs: Sequence[str] = (),
) -> T:
    """Call a command with what flags say, or print its help and exit; then the command has started.

    Args:
        command: a configuration, or a function.
        arguments: what follows ``prog`` on the command line.
        prog: what was called.
        defaults: values by field, in place of the fields' own.
        answers: flags that there are elsewhere, and what to say of them.
        needs: modules that take seconds to import. That is begun once the flags are right, so that help and
            complaints come at once, and is over before the command has started.

    Raises:
        InputError: for flags or values that are wrong.
    """
    flags = flags_of(command, defaults)
    if any(word in HELP for word in arguments):
        say(help_text(command, flags, prog))
        sys.exit(0)
    try:
        parsed = call(command, flags, {**(defaults or {}), **read(flags, arguments, prog, answers or {})})
    except InputError as error:
        raise InputError(f"{error} (see {prog} --help)") from None
    with starting.Importing():
        for module in needs:
            importlib.import_module(module)
    starting.over(end_tidily)
    return parsed


def subcommand(
    commands: dict[str, Callable[..., object]], arguments: Sequence[str], *, prog: str, about: str
) -> None:
    """Parse ``NAME ARGUMENTS`` and call the function of that name.

    Raises:
        InputError: for another name, for none, and for flags or values that do not parse.
    """
    does = {name: (function.__doc__ or "").strip().splitlines()[0] for name, function in commands.items()}
    name = choose(does, arguments, prog=prog, about=about)
    if name is not None:
        call = parse(_deferred(commands[name]), arguments[1:], prog=f"{prog} {name}")
        call()


def choose(commands: Mapping[str, str], arguments: Sequence[str], *, prog: str, about: str) -> str | None:
    """The command that ``NAME ARGUMENTS`` begin with, or None where they ask for help, which is printed.

    Args:
        commands: the names, each with what the command does.
        arguments: what follows ``prog`` on the command line.
        prog: what was called.
        about: the help's text above the table of commands.

    Raises:
        InputError: for another name, and for none.
    """
    names = ", ".join(commands)
    if not arguments or arguments[0] in HELP:
        say(f"usage: {prog} {{{names}}} ...\n\n{about}\n")
        for name, does in commands.items():
            say(f"  {name:<{max(8, *map(len, commands))}} {does}")
        if not arguments:
            raise InputError(f"no command given; choose one of {names}")
        return None
    if arguments[0] not in commands:
        raise InputError(f"unknown command {arguments[0]!r}; choose one of {names}")
    return arguments[0]


def _deferred(function: Callable[..., object]) -> Callable[..., Callable[[], object]]:
    """A function with the same signature that only binds its arguments: parsing is over before work begins."""

    @functools.wraps(function)
    def bind(*arguments: object, **named: object) -> Callable[[], object]:
        return functools.partial(function, *arguments, **named)

    return bind


def _say_error(message: str) -> int:
    """Print an error in one line that a terminal can show, whatever it quotes of a damaged file; its exit code."""
    line = "".join(mark if mark.isprintable() else "?" for mark in " ".join(message.split()))
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    say_error(f"error: {line}")
    return BAD_INPUT
