"""Words of a command line become values of fields, and each mistake in them one line with the flag and the value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from support.messages import line_with

from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.config.flags import Aliases, Positional, Repeated
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Rows(Checked):
    """Rows of a table."""

    first: int | None = 1
    """The first row."""
    columns: tuple[str, ...] = ()
    """Columns."""


@dataclass(frozen=True, kw_only=True)
class Config(Rows):
    """A field of each kind. It is a second sentence.

    And another paragraph.

    Examples:
        >>> never_shown()
    """

    places: Annotated[tuple[Path, ...], Positional]
    """Where to look."""
    out: Path
    """The file."""
    rate: Annotated[float, Aliases(("--lr",))] = 0.5
    """A rate of 10%."""
    sizes: tuple[int, ...] = (1, 2)
    """Sizes."""
    cells: tuple[float | str, ...] = ()
    """Numbers or words."""
    big_ones: bool = False
    """Big ones, too."""
    way: Literal["this", "that"] = "this"
    """The way."""
    shares: Annotated[str | None, Repeated] = None
    """Shares."""


def copy(source: Annotated[str, Positional], to: Literal["a", "b"] = "a", rows: Rows = Rows(columns=("x",))) -> tuple:
    """Copy rows.

    Args:
        source: where they are, in words that go on
            in another line.
        to: where they go.
    """
    return source, to, rows


NEEDED = ["here", "--out", "file"]


def parse(*words, **others):
    return cli.parse(Config, words, prog="command", **others)


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("--rate -1e3", "rate", -1000.0),
        ("--lr=-.5", "rate", -0.5),
        ("--sizes -1,-1", "sizes", (-1, -1)),
        ("--sizes 3 -4,5", "sizes", (3, -4, 5)),
        ("--sizes", "sizes", ()),
        ("--columns=a(1,2),b", "columns", ("a(1,2)", "b")),
        ("--cells 0.5,2024-01-01", "cells", (0.5, "2024-01-01")),
        ("--big_ones", "big_ones", True),
        ("--big-ones --no-big-ones", "big_ones", False),
        ("--first None", "first", None),
        ("--first 3 --first 4", "first", 4),
        ("--way that", "way", "that"),
        ("--shares a=1 --way that --shares b=2,3", "shares", "a=1,b=2,3"),
        ("--shares a=1 --shares None", "shares", None),
        ("--big-ones there", "places", (Path("here"), Path("there"))),
    ],
)
def test_words_are_values(words, field, value):
    assert getattr(parse(*NEEDED, *words.split()), field) == value


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("here --out file --big-one", "--big-one, command; did you mean --big-ones? (see command --help)"),
        ("here --out file -x", "-x, command"),
        ("here --out file --way", "--way {this,that}"),
        ("here --out --rate 1", "--out PATH"),
        ("here --out file --way other", "--way, this, that, 'other'"),
        ("here --out file --first 2.0", "--first, '2.0'"),
        ("here --out file --sizes 3 there", "--sizes, 'there', commas"),
        ("here --out file --big-ones=no", "--big-ones, 'no', --no-big-ones"),
        ("--out file", "missing: PLACES ... (Where to look)"),
        ("", "missing: PLACES ... (Where to look), --out PATH (The file)"),
    ],
)
def test_mistakes_are_named(words, line):
    with pytest.raises(InputError, match=line_with(line)):
        parse(*words.split())


def test_defaults_from_elsewhere_stand_unless_flags_are_given():
    config = parse("--rate", "2", defaults={"places": (Path("there"),), "out": Path("kept"), "rate": 3.0})
    assert (config.places, config.out, config.rate) == ((Path("there"),), Path("kept"), 2.0)


def test_a_function_gets_its_groups():
    assert cli.parse(copy, ["s", "--to", "b"], prog="copy") == ("s", "b", Rows(columns=("x",)))
    assert cli.parse(copy, ["s", "--first", "2"], prog="copy") == ("s", "a", Rows(first=2, columns=("x",)))
    with pytest.raises(InputError, match=line_with("'t', copy takes SOURCE")):
        cli.parse(copy, ["s", "t"], prog="copy")


def printed(capsys, command) -> str:
    with pytest.raises(SystemExit) as end:
        cli.parse(command, ["--what", "--help"], prog="command")
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_is_of_the_fields(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert printed(capsys, Config) == HELP
    assert "  SOURCE\n        where they are, in words that go on in another line. (required)\n" in printed(
        capsys, copy
    )
    assert "\nRows of a table:\n  --first N\n" in printed(capsys, copy)


HELP = """usage: command [-h] PLACES ... --out PATH [FLAGS]

A field of each kind. It is a second sentence.

And another paragraph.

Arguments:
  PLACES ...
        Where to look. (required)

Rows of a table:
  --first N
        The first row. (default: 1)
  --columns TEXT,TEXT,...
        Columns.

Flags:
  --out PATH
        The file. (required)
  --rate, --lr X
        A rate of 10%. (default: 0.5)
  --sizes N,N,...
        Sizes. (default: 1,2)
  --cells X,X,...
        Numbers or words.
  --big-ones, --no-big-ones
        Big ones, too. (default: off)
  --way {this,that}
        The way. (default: this)
  --shares TEXT
        Shares.

None as a value stands for no value, where there is no default.
"""
