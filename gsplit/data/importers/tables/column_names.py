"""What columns of a table are called: by their names in any case, or by their numbers, from 1 on.

A number is needed where there is no header, and where two columns have one name. A column whose name is a number is
called by that name.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from gsplit.data.importers.checked import is_number, printable_line
from gsplit.data.importers.tables.table import Table
from gsplit.data.importers.tables.text_rules import is_by_number
from gsplit.data.importers.tables.text_tables import TextTable
from gsplit.errors import InputError


def shown_column(table: Table, column: int) -> str:
    """Return what messages call a column: its name as it is written, or its number where there is no header."""
    return printable_line(table.written_names[column]) or "(nameless)" if table.names else str(column + 1)


def shown_names(table: Table) -> str:
    """Return the names of a table's columns, as messages list them."""
    return ", ".join(shown_column(table, column) for column in range(table.num_columns))


def flag_value(table: Table, column: int) -> str:
    """Return what a flag calls a column: its name, or its number where that is no name or another's, too."""
    name = table.written_names[column] if table.names else ""
    is_number = not name or table.names.count(name.lower()) > 1
    return str(column + 1) if is_number else shlex.quote(printable_line(name))


def calls(table: Table, column: int) -> set[str]:
    """Return all that a flag may call a column, in lower case."""
    number = str(column + 1)
    return {*([] if number in table.names else [number]), *table.names[column : column + 1]}


def called(table: Table, words: Collection[str]) -> set[int]:
    """Return the columns that are called by any of some words in lower case."""
    return {column for column in range(table.num_columns) if calls(table, column) & set(words)}


def names_in(names: str | None) -> set[str]:
    """Return the names and numbers of columns, in lower case, in the value of a flag that takes several."""
    return set() if names is None else {name.strip().lower() for name in names.split(",")}


def named_column(table: Table, name: str, flag: str) -> int:
    """Find a column by its name or its number.

    Args:
        flag: what messages call the name, such as ``--id-column``.

    Raises:
        InputError: where there is none, or several.
    """
    name = name.strip()
    found = sorted(called(table, {name.lower()}))
    if len(found) == 1:
        return found[0]
    if found:
        numbers = " and ".join(str(column + 1) for column in found)
        raise InputError(
            f"{table.path} has several columns called {printable_line(name)}, the {flag}: columns {numbers}; give "
            "the number of one"
        )
    if not table.names:
        raise InputError(
            f"{table.path} has no header, so {flag} takes the number of a column, 1 .. {table.num_columns}, not "
            f"{printable_line(name)}"
        )
    raise InputError(
        f"{table.path} has no column called {printable_line(name)}, the {flag}; it has {shown_names(table)}"
    )


def refuse_numbers_as_header(table: Table, names: str | None, flag: str) -> None:
    """Refuse a first line of a text that would be taken as the header, and holds numbers, as rows do.

    Args:
        names: the value of a flag that names columns; nothing is refused unless they are numbers.

    Raises:
        InputError: saying how to tell which it is.
    """
    if is_by_number(names) and isinstance(table, TextTable) and any(map(is_number, table.names)):
        raise InputError(
            f"{table.path}: the first line holds numbers, and {flag} {names} is one; if that line is a row, give "
            "--no-header, and if it holds the names of the columns, name them"
        )


def named_columns(table: Table, names: str, flag: str) -> list[int]:
    """Find columns by their names or numbers, with commas between them; arguments as of :func:`named_column`."""
    return [named_column(table, name, flag) for name in names.split(",")]


def kinds_by_column(table: Table, kinds: Mapping[str, str]) -> dict[int, str]:
    """Return the kinds of the columns of a table that ``--columns`` names, which may name others, too.

    Args:
        kinds: by name or number, in lower case.

    Raises:
        InputError: for a name that several columns have, and a column that is named twice with two kinds.
    """
    found: dict[int, str] = {}
    for word, kind in kinds.items():
        if not called(table, {word}):
            continue
        column = named_column(table, word, "--columns")
        if found.setdefault(column, kind) != kind:
            raise InputError(f"--columns calls column {shown_column(table, column)} both {found[column]} and {kind}")
    return found
