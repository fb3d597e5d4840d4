"""The times of edges: a column of an edge list."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gsplit.data.importers.checked import NotNumbersError, printable_line
from gsplit.data.importers.column_kinds import column_of, column_of_times, read_columns
from gsplit.data.importers.column_names import named_column
from gsplit.data.importers.tables import is_numeric, open_table
from gsplit.data.importers.text_rules import TextRules
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
    column = named_column(table, name, "--edge-time")
    made = column_of(table, column, name, kind or ("number" if is_numeric(table, column) else "time"))
    try:
        values = np.concatenate([np.empty(0), *(rows[:, 0] for rows in read_columns(table, [column], [made]))])
    except NotNumbersError as error:
        raise NotNumbersError(
            f"{error}; --edge-time {printable_line(name)}:time(%d.%m.%Y) says another form"
        ) from None
    return Times(values=values, are_dates=made.kind == "time", called=f"{path}: {name}")
