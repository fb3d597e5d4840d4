"""The times of edges: a column of an edge list."""

from __future__ import annotations

from pathlib import Path

from gsplit.data.importers.tables.column_kinds import column_of_times, times_in
from gsplit.data.importers.tables.column_names import named_column
from gsplit.data.importers.tables.table import open_table
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.labels.time_sets import Times


def edge_times(path: Path, word: str, *, named: bool) -> Times:
    """The times of the edges of a table, in its order; 8 bytes an edge in memory.

    Args:
        path: the edge list.
        word: the name of the column, and perhaps its kind, as of ``--split-by``.
        named: whether ids are of any kind.

    Raises:
        InputError: where there is no such column, naming the first line that holds something else.
    """
    name, kind = column_of_times(word, {}, "--edge-time")
    table = open_table(path, header=TextRules.current().header if named else None)
    values, are_dates = times_in(table, named_column(table, name, "--edge-time"), name, kind, "--edge-time")
    return Times(values=values, are_dates=are_dates, called=f"{path}: {name}")
