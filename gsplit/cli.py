"""What all commands share: one-line errors, exit codes, flags with commas.

Parsing is tyro's. Flags may be written with ``-`` or ``_``; lists take commas or spaces.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import io
import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, TypeVar

import tyro

from gsplit import starting
from gsplit.errors import InputError, refused_by_host
from gsplit.host import end_tidily, ending_tidily, is_ending, raise_again
from gsplit.starting import INTERRUPTED, TERMINATED
from gsplit.terminal import flush, reader_gone, say, say_error

T = TypeVar("T")

BAD_INPUT = 2
"""Exit code after a mistake of the user."""
OURS = ("gsplit", "experiments", "__main__")
"""Packages whose log is the user's to read; of libraries only warnings are."""
REQUIRED = re.compile(r"(--\S+ \S+|\S+) (.*?)\.? \(required\)")
"""A flag or a place that was not given, as tyro lists it: its name, and what it is."""
FLAG = re.compile(r"--[\w-]+")
"""A flag in a sentence."""
LONGEST_LINE = 2000
"""Number of characters of an error line at most; a longer one loses its middle."""


def _ints_from_words(words: list[str]) -> tuple[int, ...]:
    numbers = [number for word in words for number in word.split(",") if number]
    for number in numbers:
        if not number.removeprefix("-").isdigit():
            raise ValueError(f"{number!r} is no number (a list with spaces takes every word after it: use commas)")
    return tuple(map(int, numbers))


def _words_from_words(words: list[str]) -> tuple[str, ...]:
    return tuple(part for word in words for part in re.findall(r"(?:\([^()]*\)|[^,])+", word))


def _values_from_words(words: list[str]) -> tuple[float | str, ...]:
    return tuple(_number_or_word(part) for part in _words_from_words(words))


def _number_or_word(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


def _list_spec(
    kind: type | tuple[type, ...], metavar: str, from_words: Callable[[list[str]], tuple[Any, ...]]
) -> Any:
    """Return how tyro reads and shows a list that takes commas as well as spaces."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=from_words,
        is_instance=lambda x: isinstance(x, tuple) and all(isinstance(i, kind) for i in x),
        str_from_instance=lambda x: [",".join(map(str, x))],
    )


IntList = Annotated[tuple[int, ...], _list_spec(int, "N,N,...", _ints_from_words)]
"""A flag that takes ``20,20,20`` as well as ``20 20 20``."""
WordList = Annotated[tuple[str, ...], _list_spec(str, "WORD,WORD,...", _words_from_words)]
"""A flag that takes ``a:x,b:y`` as well as ``a:x b:y``; commas in parentheses are of the word."""
ValueList = Annotated[tuple[float | str, ...], _list_spec((int, float, str), "X,X,...", _values_from_words)]
"""A flag that takes numbers or words, such as dates, with commas or spaces."""


def check_fan_out(fan_out: Sequence[int], flag: str = "--fan-out") -> None:
    """Check what a flag says as a fan-out: a number for each hop, from 1 on, or -1 for all neighbours.

    Raises:
        InputError: for anything else.
    """
    if not fan_out:
        raise InputError(f"{flag} needs a number for each hop, such as 20,20,20")
    for number in fan_out:
        if not isinstance(number, int):  # from Python it may be anything
            raise InputError(f"{flag} takes whole numbers, not {number!r}")
        if number < -1 or number == 0:
            raise InputError(f"{flag} takes numbers from 1 on, or -1 for all neighbours, not {number}")


def main(command: Callable[[list[str]], None]) -> None:
    """Run ``command(arguments)`` and exit: 0, 2 with one line for bad input, 130 after Ctrl-C, 143 after SIGTERM."""
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.INFO, "info")
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
            sys.exit(_say_error(str(error)))
        if isinstance(error, BrokenPipeError) and reader_gone():  # as `head` goes, of a command that prints itself
            sys.stdout = None
            sys.exit(0)
        if (line := refused_by_host(error)) is None:
            raise
        sys.exit(_say_error(line))
    finally:
        starting.ended()


def parse(
    spec: Callable[..., T],
    arguments: Sequence[str],
    *,
    prog: str,
    default: T | None = None,
    answers: Mapping[str, str | Callable[[str], str]] | None = None,
    needs: Sequence[str] = (),
) -> T:
    """Parse flags as ``tyro.cli`` does, but complain in one line; then the command has started.

    Args:
        spec, arguments, prog, default: as tyro takes them.
        answers: flags that there are elsewhere, under which users may look for something here; each with what to
            say, or what says it of the value that was given, with commas.
        needs: modules that take seconds to import. That is begun once the flags are right, so that help and
            complaints come at once, and is over before the command has started.

    Raises:
        InputError: for flags or values that do not parse.
    """
    for i, word in enumerate(arguments):
        flag, _, value = word.partition("=")
        flag = flag.replace("_", "-")
        if answers is not None and flag in answers:
            answer = answers[flag]
            values = [value] if value else takewhile(lambda after: not after.startswith("--"), arguments[i + 1 :])
            raise InputError(
                f"{flag} is no flag of {prog}: {answer if isinstance(answer, str) else answer(','.join(values))}"
            )
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            given = {} if default is None else {"default": default}
            parsed: T = tyro.cli(spec, args=arguments, prog=prog, **given)  # type: ignore[call-overload]
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise InputError(f"{_first_paragraph(complaint.getvalue())} (see {prog} --help)") from None
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
    if not arguments or arguments[0] in ("-h", "--help"):
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


def _first_paragraph(box: str) -> str:
    """The first paragraph of a message, and its first suggestion, without frame and title.

    tyro draws frames with the title in the upper edge, or, where the terminal cannot show them, the title as a
    paragraph of its own and rules of hyphens.
    """
    paragraphs: list[list[str]] = [[]]
    for line in box.splitlines():
        text = line.strip().strip("│").strip()
        if not text or text[0] in "╭╰":
            continue
        if set(text) in ({"─"}, {"-"}):
            paragraphs.append([])
        else:
            paragraphs[-1].append(text)
    if "╭" not in box:
        paragraphs = paragraphs[1:] or paragraphs
    words = " ".join(paragraphs[0]) or "the arguments do not parse"
    words = re.sub(r"^Error parsing \w+: ", "", words)
    if missing := re.match(r"Missing from .*?: (?=.*\(required\)$)", words):
        words = "missing: " + ", ".join(
            f"{name} ({what})" for name, what in REQUIRED.findall(words.removeprefix(missing.group()))
        )
    for paragraph in paragraphs[1:]:
        if paragraph and paragraph[0].startswith("Perhaps you meant") and len(paragraph) > 1:
            words += f"; did you mean {_nearest(words, paragraph[1])}?"
    return words


def _nearest(complaint: str, line: str) -> str:
    """The name in a line of flags that is most like what was typed: one flag may have several."""
    names = [word.rstrip(",") for word in line.split() if word.startswith("-")]
    typed = FLAG.search(complaint)
    if typed is None or not names:
        return line.split()[0].rstrip(",")
    return max(names, key=lambda name: difflib.SequenceMatcher(None, typed[0], name).ratio())
