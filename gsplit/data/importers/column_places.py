"""Which of several tables has a column that a flag names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gsplit.data.importers.matching import named_column
from gsplit.data.importers.tables import open_table
from gsplit.errors import InputError


def table_with(
    column: str | None, flag: str, own: Path | None, others: Sequence[Path | None], *, named: bool
) -> Path | None:
    """The table that has a column that was named, or the first of several names; None where none was.

    Args:
        column: the value of the flag.
        flag: what messages call it.
        own: the table that is for it, where there is one: if it has not the column, none has.
        others: tables that may have it beside other things; those that are not there, and arrays, have none.
        named: whether ids are of any kind, so that tables have headers.

    Raises:
        InputError: where none of several tables has it, or there is none.
    """
    if column is None:
        return None
    if own and own.suffix == ".npy":
        raise InputError(f"{flag} {column} is for tables, and {own} is an array; drop it")
    if own:
        return own
    first = column.split(",")[0].strip()
    tables = [path for path in others if path and path.suffix != ".npy"]
    opened = [open_table(path, header=True if named else None) for path in tables]
    for table in opened:
        if first.lower() in table.names:
            return table.path
    if len(opened) == 1:
        named_column(opened[0], first, flag)
        return tables[0]
    raise InputError(
        f"{flag} {column}: no table of --labels or --features has it"
        if opened
        else f"{flag} {column} is for a table of --labels, --features or --split-file; there is none"
    )
