"""Flags of a command: made of its fields, read from words, and shown as help.

A command is a configuration, or a function whose arguments may be configurations. The annotation of a field
(:mod:`gsplit.config.fields`) says what its flag takes, its default what it is without; the docstring under it, or the
entry of an argument under ``Args:``, is its help. Lists take commas or spaces, flags may be written with ``-`` or
``_``, and a switch has a ``--no-`` flag.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gsplit.config.fields import flag_of, kind_of, metadata_of, of_kind
from gsplit.errors import InputError

T = TypeVar("T")
Answers = Mapping[str, "str | Callable[[str], str]"]
"""Flags that there are elsewhere, under which users may look for something here; each with what to say, or what says
it of the value that was given, with commas."""

HELP = ("-h", "--help")
FLAG = re.compile(r"--?[A-Za-z]")
"""Beginning of a word that is a flag; -1 is none."""
ITEM = re.compile(r"(?:\([^()]*\)|[^,])+")
"""An item of a list; commas in parentheses are of the item."""
SECTION = re.compile(r"^(?:Args|Examples?|Raises|Returns):", re.MULTILINE)
TAKES = {int: "N", float: "X", str: "TEXT", Path: "PATH", bool: ""}
"""What stands for a value in help, by its kind."""
WIDEST = 100
"""Columns that help takes at most."""


class Positional:
    """Stands beside a field that is given by its place on the command line, and not by a flag."""


@dataclass(frozen=True)
class Aliases:
    """Other flags for the same field."""

    names: tuple[str, ...]


class Repeated:
    """Stands beside a text whose flag may be given several times: the texts are one, with commas between them."""


@dataclass(frozen=True)
class Takes:
    """What stands for the value in help, where the kind says too little."""

    what: str


@dataclass(frozen=True)
class Flag:
    """A flag, or a place on the command line."""

    field: str
    annotation: Any
    default: Any
    """``inspect.Parameter.empty`` where it must be given."""
    owner: Any
    """The class in whose body the field stands, or the function whose argument it is."""
    group: str = ""
    """Of a function, the argument whose configuration has the field."""

    @property
    def positional(self) -> bool:
        """True where it is given by its place."""
        return Positional in metadata_of(self.annotation)

    @property
    def required(self) -> bool:
        """True where it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def many(self) -> bool:
        """True where it takes a list."""
        return get_origin(kind_of(self.annotation)[0]) is tuple

    @property
    def aliases(self) -> tuple[str, ...]:
        """The other flags for it."""
        return tuple(
            name for each in metadata_of(self.annotation) if isinstance(each, Aliases) for name in each.names
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All that may be typed for it; of a switch the last one says no."""
        if self.positional:
            return ()
        no = [f"--no-{flag_of(self.field)[2:]}"] if kind_of(self.annotation)[0] is bool else []
        return (flag_of(self.field), *self.aliases, *no)

    @property
    def takes(self) -> str:
        """What stands for its value: ``PATH``; nothing for a switch."""
        kind, _ = kind_of(self.annotation)
        usual = self.field.upper() + (" ..." if self.many else "") if self.positional else _takes(kind)
        return next((each.what for each in metadata_of(self.annotation) if isinstance(each, Takes)), usual)

    @property
    def usage(self) -> str:
        """What is to be typed: ``--out PATH``, or ``STORE`` for a place."""
        return f"{', '.join(self.names)} {self.takes}".strip()

    @property
    def about(self) -> str:
        """What it is for, in one line."""
        return _docs(self.owner).get(self.field, "")

    def value(self, flag: str, words: Sequence[str]) -> Any:
        """The value that words say.

        Raises:
            InputError: by ``flag``, where they say none of its kind.
        """
        kind, optional = kind_of(self.annotation)
        if optional and list(words) == ["None"]:
            return None
        if not self.many:
            return of_kind(flag, _number_or_word(words[0], kind), kind)
        item = get_args(kind)[0]
        items = words if item is Path else [part for word in words for part in ITEM.findall(word)]
        try:
            return of_kind(flag, [_number_or_word(each, item) for each in items], kind)
        except InputError as error:
            hint = " (a list with spaces takes every word after it: use commas)" if len(words) > 1 else ""
            raise InputError(f"{error}{hint}") from None


def flags_of(command: Callable[..., Any], defaults: Mapping[str, Any] | None = None) -> list[Flag]:
    """The flags of a command, in the order of its fields.

    Args:
        command: a configuration, or a function.
        defaults: values by field, in place of the fields' own.
    """
    hints = get_type_hints(command, include_extras=True)
    own = {each.name: each for each in fields(command)} if is_dataclass(command) else {}
    made = {name: each.default_factory() for name, each in own.items() if each.default_factory is not MISSING}
    instead = {**made, **(defaults or {})}
    found = []
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            found += [replace(flag, group=name) for flag in flags_of(hints[name], vars(parameter.default))]
        else:
            default = instead.get(name, parameter.default)
            found.append(Flag(name, hints[name], default, _owner(command, name)))
    return found


def read(flags: Sequence[Flag], words: Sequence[str], prog: str, answers: Answers) -> dict[str, Any]:
    """The values that the words of a command line give, by field.

    Args:
        flags: those that there are.
        words: what was typed after ``prog``.
        prog: names the command in messages.
        answers: what to say of flags that there are elsewhere.

    Raises:
        InputError: for the first word that cannot be read, and for flags that are missing.
    """
    named = {name: flag for flag in flags for name in flag.names}
    given: dict[str, Any] = {}
    places, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if not FLAG.match(word):
            places.append(word)
            continue
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        values = [value] if equals else list(takewhile(lambda after: not FLAG.match(after), rest))
        flag = named.get(name)
        if flag is None:
            raise InputError(f"{name} is no flag of {prog}{_hint(name, values, named, answers)}")
        if kind_of(flag.annotation)[0] is bool:
            if equals:
                raise InputError(f"{name} takes no value, so not {value!r}; say {' or '.join(flag.names)}")
            given[flag.field] = name != flag.names[-1]
            continue
        values = values if flag.many else values[:1]
        if not values and not flag.many:
            raise InputError(f"{name} needs a value: {name} {flag.takes}")
        said = flag.value(name, values)
        if Repeated in metadata_of(flag.annotation) and None not in (said, before := given.get(flag.field)):
            said = f"{before},{said}"
        given[flag.field] = said
        rest = rest if equals else rest[len(values) :]
    for flag in flags:
        if flag.positional and places:
            values, places = (places, []) if flag.many else (places[:1], places[1:])
            given[flag.field] = flag.value(flag.usage, values)
    if places:
        there = " ".join(flag.usage for flag in flags if flag.positional)
        raise InputError(f"{places[0]!r} is a word too many; beside flags {prog} takes {there or 'none'}")
    if missing := [flag for flag in flags if flag.required and flag.field not in given]:
        raise InputError("missing: " + ", ".join(f"{flag.usage} ({flag.about.rstrip('.')})" for flag in missing))
    return given


def call(command: Callable[..., T], flags: Sequence[Flag], values: Mapping[str, Any]) -> T:
    """Call a command with the values of flags; what is not among them is as by default."""
    arguments: dict[str, Any] = {}
    for group, some in groupby(flags, key=lambda flag: flag.group):
        given = {flag.field: values[flag.field] for flag in some if flag.field in values}
        if group and given:
            arguments[group] = replace(inspect.signature(command).parameters[group].default, **given)
        elif given:
            arguments |= given
    return command(**arguments)


def help_text(command: Callable[..., Any], flags: Sequence[Flag], prog: str) -> str:
    """What ``--help`` prints."""
    width = min(WIDEST, shutil.get_terminal_size().columns)

    def filled(text: str, indent: str = "") -> str:
        words = " ".join(text.split())
        return textwrap.fill(words, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)

    places = [flag for flag in flags if flag.positional]
    needed = [flag.usage if flag.required else f"[{flag.usage}]" for flag in places]
    needed += [flag.usage for flag in flags if flag.required and not flag.positional]
    about = SECTION.split(inspect.getdoc(command) or "")[0]
    blocks = [" ".join(["usage:", prog, "[-h]", *needed, "[FLAGS]"])]
    blocks += [filled(paragraph) for paragraph in about.strip().split("\n\n")]
    groups = [("Arguments", places)]
    for owner, some in groupby((flag for flag in flags if not flag.positional), key=lambda flag: flag.owner):
        groups.append((_title(owner, command), list(some)))
    for title, group in groups:
        lines = [filled(f"{title}:")]
        for flag in group:
            default = shown(flag.default)
            note = " (required)" if flag.required else f" (default: {default})" if default else ""
            lines += [f"  {flag.usage}", filled(flag.about + note, " " * 8)]
        blocks += ["\n".join(lines)] if group else []
    if any(flag.takes and kind_of(flag.annotation)[1] for flag in flags):
        blocks.append(filled("None as a value stands for no value, where there is no default."))
    return "\n\n".join(blocks)


def _title(owner: Any, command: Any) -> str:
    """What stands above the flags of a class or a function."""
    first = (inspect.getdoc(owner) or "").partition("\n\n")[0]
    return "Flags" if owner is inspect.unwrap(command) else first.rstrip(".")


def shown(value: Any) -> str:
    """A default in words; nothing where there is none."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _hint(name: str, values: Sequence[str], known: Mapping[str, Flag], answers: Answers) -> str:
    """What may have been meant by a flag that there is not."""
    if answer := answers.get(name):
        return f": {answer if isinstance(answer, str) else answer(','.join(values))}"
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _number_or_word(word: str, kind: Any) -> float | str:
    """What a word says as a value of a kind; the word where it is no such number, which is refused or a text."""
    for number in (int, float):
        if number is kind or number in get_args(kind):
            try:
                return number(word)
            except ValueError:
                pass
    return word


def _takes(kind: Any) -> str:
    """What stands for a value in help."""
    if get_origin(kind) is Literal:
        return f"{{{','.join(get_args(kind))}}}"
    if get_origin(kind) is tuple:
        item = _takes(get_args(kind)[0])
        return f"{item} ..." if item == TAKES[Path] else f"{item},{item},..."
    return TAKES.get(kind, TAKES[float])  # also for a number or a word


def _owner(command: Any, name: str) -> Any:
    """The class in whose body a field stands; of a function itself."""
    if not isinstance(command, type):
        return inspect.unwrap(command)
    return next(base for base in command.__mro__ if name in inspect.get_annotations(base))


@functools.cache
def _docs(owner: Any) -> dict[str, str]:
    """What the docstrings under the fields of a class say, or the entries of a function's arguments."""
    if not isinstance(owner, type):
        entries = (inspect.getdoc(owner) or "").partition("Args:\n")[2].partition("\n\n")[0]
        pairs = re.findall(r"^ {4}(\w+): ((?:.*\n?)(?: {5,}.*\n?)*)", entries, re.MULTILINE)
    else:
        pairs = []
        for statement in ast.parse(inspect.getsource(sys.modules[owner.__module__])).body:
            if isinstance(statement, ast.ClassDef) and statement.name == owner.__name__:
                for field, after in zip(statement.body, statement.body[1:], strict=False):
                    match field, after:
                        case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                            pairs.append((name, str(text)))
    return {name: " ".join(text.split()) for name, text in pairs}
