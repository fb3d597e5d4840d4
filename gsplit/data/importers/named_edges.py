"""Edge lists whose vertices have ids of any kind: names, hashes, numbers of 64 bits, in one column or several."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.config.fields import Accepted, Checked, flag_of
from gsplit.data.ids.kept_ids import SEPARATOR
from gsplit.data.ids.named_ids import NamedIds, Order
from gsplit.data.ids.prefixes import Prefixes, check_apart, prefixed
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.edge_list import EdgeColumns, EndColumns, ends_of
from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource
from gsplit.data.importers.tables.column_kinds import column_of_times
from gsplit.data.importers.tables.column_names import refuse_numbers_as_header, shown_column
from gsplit.data.importers.tables.table import Table, open_table, read_exactly
from gsplit.data.importers.tables.text_rules import TextRules, is_by_number
from gsplit.data.spill import EdgeSpill
from gsplit.errors import InputError

logger = logging.getLogger(__name__)


def _check_columns(names: str | None) -> None:
    if names is not None and not all(name.strip() for name in names.split(",")):
        raise InputError(f"{names!r} leaves a column without a name; several columns stand as a,b")


@dataclass(frozen=True, kw_only=True)
class IdOptions(Checked):
    """Rules by which the tables of a graph name its vertices."""

    # The docstrings are the help of the command.

    ids: Literal["whole", "any"] = "whole"
    """Kind of ids: whole numbers that count from 0, or any texts and numbers, compared as they are written. With any
    the tables have headers, rows are matched by ids, and the store keeps them: predictions speak them."""
    id_order: Order = "appearance"
    """Order of the vertices with --ids any: as their ids first appear in the edges, or in the order of the ids."""
    source_column: Annotated[str | None, Accepted(_check_columns)] = None
    """The column of an edge list with the sources, by its name or its number, from 1 on; by default the one called
    src, source, from or the like. With --ids any also several, as bank,account: together they are an id."""
    destination_column: Annotated[str | None, Accepted(_check_columns)] = None
    """The column, or columns, with the destinations."""
    source_prefix: str | None = None
    """With --ids any, text before the ids of sources: user: makes user:1 of 1, another vertex than film:1. A table
    with a column called as that of the sources is matched with it."""
    destination_prefix: str | None = None
    """Text before the ids of destinations, likewise."""
    bipartite: bool = False
    """With --ids any, tell sources and destinations apart, where both are numbered from 1 on: the names of their
    columns, with a colon, are the prefixes."""
    edge_time: str | None = None
    """The column of an edge list, of numbers or dates, by which --edge-split with two bounds parts its pairs. Its
    kind may follow, as of --split-by: sent:time(ms)."""
    weight_column: str | None = None
    """The column of an edge list with the weights, by its name or its number, from 1 on; by default the one called
    weight, edge_weight or w, or the third where there is no header."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {"--source-prefix": self.source_prefix, "--destination-prefix": self.destination_prefix}
        for name, text in given.items():
            if text is not None and (not text.strip() or not text.isprintable()):
                raise InputError(f"{name} takes the text before an id, such as user:, not {text!r}")
        flag = next((flag for flag, text in given.items() if text), "--bipartite" if self.bipartite else None)
        if flag and self.source_column and "," in self.source_column:
            raise InputError(f"{flag} is for ids of one column, and --source-column {self.source_column} has more")

    @property
    def prefix_flag(self) -> str | None:
        """The first flag that gives a prefix; None where there is none."""
        flags = ("source_prefix", "destination_prefix", "bipartite")
        return next((flag_of(name) for name in flags if getattr(self, name)), None)

    def prefixes(self, table: Table, columns: EdgeColumns) -> Prefixes:
        """The prefixes of the sources and destinations of an edge list.

        Raises:
            InputError: where a column has no name, or ids with one prefix may be those with the other.
        """
        texts, names = [], []
        for called, at, given in (
            (self.source_column, columns.sources[0], self.source_prefix),
            (self.destination_column, columns.destinations[0], self.destination_prefix),
        ):
            name = table.names[at] if table.names else ""
            written = called.strip() if called and called.strip().lower() == name else name
            if self.bipartite and given is None and not name:
                raise InputError(
                    f"{table.path} has no names of columns that --bipartite could take as prefixes; give "
                    "--source-prefix and --destination-prefix"
                )
            names.append(name)
            texts.append(given or (f"{printable_line(written)}:" if self.bipartite else ""))
        check_apart(texts)
        return Prefixes(columns=(names[0], names[1]), texts=(texts[0], texts[1]))

    @property
    def ends(self) -> EndColumns:
        """The columns of sources, destinations and weights, where they are named."""
        time = None if self.edge_time is None else column_of_times(self.edge_time, {}, "--edge-time")[0]
        return EndColumns(self.source_column, self.destination_column, self.weight_column, time)


def load_named_edges(
    path: Path, options: IdOptions, id_column: str | None, folder: Path, known: NamedIds | None = None
) -> tuple[GraphSource, NamedIds]:
    """Read a table of edges once, map its ids, and keep the edges as vertices in a folder.

    Args:
        options: which columns are what.
        id_column: what the tables of vertices call the columns of an id, as ``--id-column``.
        folder: for the ids and the edges; the caller removes it.
        known: ids that are vertices already; those of the table are added to them.

    Raises:
        InputError: where the file is missing or damaged, has no such columns, or an id is empty.
    """
    table = open_table(path, header=TextRules.current().header)
    refuse_numbers_as_header(table, options.source_column, "--source-column")
    refuse_numbers_as_header(table, options.destination_column, "--destination-column")
    columns = ends_of(table, options.ends, named=True)
    width = len(columns.sources)
    names = [name.strip() for name in id_column.split(",")] if id_column not in (None, "none") else []
    if names and len(names) != width:
        raise InputError(f"--id-column {id_column} has {len(names)} columns, but an id of {path} has {width}")
    if is_by_number(id_column):
        names = []
    shared = [table.names[column] if table.names else f"id_{column + 1}" for column in columns.sources]
    names = names or (["id"] if width == 1 else shared)
    if len(set(names)) < width:
        raise InputError(f"{path}: the columns of an id must have different names, not {', '.join(names)}")
    if known is not None and width != len(known.names):
        raise InputError(
            f"{path}: --source-column has {width} columns, but an id of the store has {len(known.names)}: "
            f"{', '.join(known.names)}"
        )
    given = options.prefixes(table, columns)
    ids = NamedIds(folder, names, given) if known is None else known
    prefixes = _of_ends(given, ids.prefixes, str(path)) if any(ids.prefixes.texts) else ids.prefixes.texts
    if any(prefixes):
        ends = zip((columns.sources[0], columns.destinations[0]), prefixes, strict=True)
        shown = [f"{shown_column(table, column)} {prefix or '(none)'}" for column, prefix in ends]
        logger.info("%s: ids have prefixes, those in the column %s, those in %s", path, *shown)
    weighted = columns.weight is not None
    spill = EdgeSpill(folder)
    begin = 0
    with closing(spill):
        for sources, destinations, weight in _chunks(table, columns.sources, columns.destinations, columns.weight):
            sources[0], destinations[0] = map(prefixed, (sources[0], destinations[0]), prefixes)
            # An edge's source appears before its destination, and both before the next edge's.
            both = [_interleaved(a, b) for a, b in zip(sources, destinations, strict=True)]
            for column in both:
                check_texts(column, table, begin, alone=width == 1, each=2)
            pairs = ids.add(both).reshape(-1, 2)
            spill.add(pairs, weight, ids.num_vertices)
            begin += len(pairs)
    if spaced := ids.num_spaced():
        logger.warning(
            "%s: %s ids differ from others in spaces around them alone, and are vertices of their own; --strip "
            "removes such spaces",
            path,
            f"{spaced:,}",
        )

    def chunks() -> Iterator[EdgeChunk]:
        for pairs, weight in spill.pieces():
            pairs = ids.rank(pairs)
            yield EdgeChunk(source=pairs[:, 0], destination=pairs[:, 1], weight=weight)

    source = GraphSource(
        name=path.name.split(".")[0],
        edges=EdgeChunks(
            chunks=chunks,
            weighted=weighted,
            count=begin,
            place=table.place,
            things=None if any(prefixes) else columns.things(table),
        ),
        num_vertices=ids.num_vertices,
        where=str(path),
        ids=ids,
    )
    return source, ids


def _of_ends(given: Prefixes, known: Prefixes, where: str) -> tuple[str, str]:
    """The prefixes of sources and destinations of edges that are added to a store whose ids have some.

    Columns are known by the names that they had there, and else by being those of sources and of destinations.

    Args:
        given: for this edge list; none where the flags say nothing.
        known: those of the store.
        where: what messages call the edge list.

    Raises:
        InputError: for other prefixes, or the same for both ends.
    """
    ends = zip(given.columns, given.texts, known.texts, strict=True)
    first, second = (text or known.of_column(name) or other for name, text, other in ends)
    if {first, second} != set(known.texts):
        raise InputError(
            f"{where}: ids of the store have the prefixes {' and '.join(filter(None, known.texts))}, and these "
            f"edges would have {first} and {second}; drop the flags of prefixes, or name the columns as before"
        )
    return first, second


def _chunks(
    table: Table, sources: list[int], destinations: list[int], weight: int | None
) -> Iterator[tuple[list[Any], list[Any], NDArray[np.float64] | None]]:
    """Texts of the sources, of the destinations, and weights or None, some rows at a time."""
    ids = table.ids([*sources, *destinations])
    rows: Iterator[tuple[list[Any], list[Any]]] = ((columns, [None]) for columns in ids)
    if weight is not None:
        rows = zip(ids, read_exactly(table, [weight]), strict=True)
    for columns, (of_rows,) in rows:
        yield columns[: len(sources)], columns[len(sources) :], of_rows


def _interleaved(first: Any, second: Any) -> Any:
    """Two columns of pyarrow [n] as one [2 n], by turns."""
    import pyarrow as pa

    both = pa.concat_arrays([first, second])
    return both.take(pa.array(np.arange(len(both)).reshape(2, -1).T.ravel()))


def check_texts(column: Any, table: Table, begin: int, *, alone: bool, each: int = 1) -> None:
    """Check one column of ids.

    Args:
        column: texts of pyarrow.
        table: the ids' own, for messages.
        begin: the row of the first.
        alone: whether an id has no other column.
        each: number of ids of a row: of an edge its source and its destination, by turns.

    Raises:
        InputError: naming the line, where one is empty, or no text that could be read back.
    """
    import pyarrow.compute as pc

    lengths = pc.binary_length(column).to_numpy()
    if len(lengths) and lengths.min() == 0:
        row = begin + int(np.argmin(lengths)) // each
        raise InputError(f"{table.path}, {table.place(row)}: an id is empty; remove the line or give it one")
    # NumPy's texts lose a NUL at the end.
    marks = {"\0": "a NUL character"} | ({} if alone else {SEPARATOR: "the control character U+001F"})
    for mark, called in marks.items():
        if (found := pc.match_substring(column, mark)).true_count:
            row = begin + int(np.argmax(found.to_numpy(zero_copy_only=False))) // each
            raise InputError(f"{table.path}, {table.place(row)}: an id holds {called}; remove it")
