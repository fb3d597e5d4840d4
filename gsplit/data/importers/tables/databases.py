"""Tables out of databases: the results of queries of a DuckDB or SQLite file, or of PostgreSQL by DuckDB.

A result is kept in a Parquet file, and is a table like any other from there on. Databases are opened to be read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from gsplit.config.fields import Checked, flag_of
from gsplit.data.importers.tables.parquet_tables import pyarrow_for_tables
from gsplit.data.importers.tables.table_files import TableFile, one_line, write_table
from gsplit.errors import InputError

KINDS = ("duckdb", "sqlite", "postgresql", "postgres")
SUFFIXES = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")
ROWS_AT_ONCE = 1 << 17
PASSWORD = re.compile(r"(://[^:/@\s]*:)\S*(?=@)|(password\s*=\s*)(?:'[^']*'|[^&\s]*)", re.IGNORECASE)
"""A password in the address of a database, and what stands before it."""
POINTER = re.compile(r"\s+LINE \d+: .*", re.DOTALL)
"""End of DuckDB's messages: a line of the query and a mark below it."""
NOT_ONE = " is not one SELECT, which it has to be"

Result = tuple[Any, Iterator[Any]]
"""Schema and batches of pyarrow."""
Run = Callable[[str, str], Result]
"""Function from a query and its name in messages to its result."""


@dataclass(frozen=True, kw_only=True)
class Queries(Checked):
    """Queries of a database, whose results are tables; the database is the source, or what is added to it."""

    # The docstrings are the help of the command.

    edges_query: str | None = None
    """Where the source, or --add, is a database: the query whose result is the edge list, such as "SELECT buyer AS
    src, item AS dst FROM sales"."""
    features_query: str | None = None
    """The query whose result is a table of --features."""
    labels_query: str | None = None
    """The query whose result is the table of --labels."""
    split_query: str | None = None
    """The query whose result is the table of --split-file."""

    @property
    def queries(self) -> dict[str, str]:
        """The queries that were given, by their flags."""
        names = (field.name for field in fields(Queries))
        return {flag_of(name): query for name in names if (query := getattr(self, name)) is not None}


def shown_source(source: str) -> str:
    """Return a source, or a text that quotes it, as messages may show it: without a password."""
    return PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", source)


def database_kind(path: Path) -> str | None:
    """Return the kind of database that a file is by its first bytes; None where it is none."""
    with path.open("rb") as file:
        first = file.read(16)
    return "sqlite" if first == b"SQLite format 3\0" else "duckdb" if first[8:12] == b"DUCK" else None


def query_tables(kind: str, place: str, queries: dict[str, str], folder: Path) -> dict[str, TableFile]:
    """Run queries and keep their results in files.

    Args:
        kind: of ``KINDS``.
        place: the path or the address of the database.
        queries: for each flag, such as ``--edges-query``, its query.
        folder: for the files; the caller removes it.

    Returns:
        The file of each flag.

    Raises:
        InputError: where the database cannot be opened, or a query is none or fails, in the database's own words.
    """
    shown = shown_source(place)
    pyarrow_for_tables(Path(shown))
    is_file = kind in ("duckdb", "sqlite")
    if is_file and not Path(place).is_file():
        raise InputError(f"{shown}: no such file")
    name = Path(place if is_file else urlsplit(place).path).name.split(".")[0] or kind
    found = {}
    with _sqlite(place) if kind == "sqlite" else _duckdb(place, folder, is_file=is_file) as run:
        for flag, query in queries.items():
            called = f"{shown} ({flag})"
            found[flag] = write_table(*run(query, called), folder / f"{name}.{flag.strip('-')}.parquet", called)
    return found


@contextmanager
def _duckdb(place: str, folder: Path, *, is_file: bool) -> Iterator[Run]:
    """Open a DuckDB file, or a PostgreSQL database by DuckDB's extension."""
    try:
        import duckdb
    except ImportError:
        raise InputError(f"reading {shown_source(place)} needs DuckDB: pip install 'gsplit[database]'") from None
    failures = (duckdb.Error, OSError)
    # By default it would write beside the file, and take the variables of this program for tables.
    settings: dict[str, Any] = {"temp_directory": str(folder / "duckdb"), "python_enable_replacements": False}
    with _in_one_line(shown_source(place), failures):
        connection = duckdb.connect(place if is_file else ":memory:", read_only=is_file, config=settings)

    def run(query: str, called: str) -> Result:
        with _in_one_line(called, failures):
            kinds = [each.type for each in connection.extract_statements(query)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise InputError(f"{called}{NOT_ONE}")
            reader = connection.sql(query).to_arrow_reader(ROWS_AT_ONCE)
        return reader.schema, _in_one_line_each(reader, called, failures)

    with closing(connection):
        if not is_file:
            address = place.replace("'", "''")
            with _in_one_line(f"{shown_source(place)}: DuckDB's extension postgres cannot be loaded", failures):
                connection.execute("INSTALL postgres; LOAD postgres")
            with _in_one_line(shown_source(place), failures):
                connection.execute(f"ATTACH '{address}' AS given (TYPE postgres, READ_ONLY); USE given")
        yield run


@contextmanager
def _sqlite(place: str) -> Iterator[Run]:
    """Open a SQLite file."""
    import pyarrow as pa

    failures = (sqlite3.Error, sqlite3.Warning, pa.ArrowException)
    with _in_one_line(place, failures):
        connection = sqlite3.connect(f"file:{quote(place)}?mode=ro", uri=True, isolation_level=None)
        connection.execute("BEGIN")  # a query runs twice, over the same rows
    # The one thing that writes where the database may not be written: it makes a file.
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
    )

    def columns_of(cursor: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield list(zip(*rows, strict=True))

    def run(query: str, called: str) -> Result:
        with _in_one_line(called, failures):
            try:
                cursor = connection.execute(query)
            except sqlite3.DatabaseError as error:
                raise (InputError(f"{called}{NOT_ONE}") if str(error) == "not authorized" else error) from None
            if cursor.description is None:
                raise InputError(f"{called}{NOT_ONE}")
            names = [column[0] for column in cursor.description]
            kinds: list[set[type]] = [set() for _ in names]
            for columns in columns_of(cursor):
                for kind, column in zip(kinds, columns, strict=True):
                    kind.update(map(type, column))
        types = [_sqlite_type(kind, f"{called}: column {name!r}") for name, kind in zip(names, kinds, strict=True)]
        schema = pa.schema(list(zip(names, types, strict=True)))

        def batches() -> Iterator[Any]:
            for columns in columns_of(connection.execute(query)):
                yield pa.record_batch(list(map(_sqlite_array, columns, schema, repeat(called))), schema=schema)

        return schema, _in_one_line_each(batches(), called, failures)

    with closing(connection):
        yield run


def _sqlite_type(kinds: set[type], what: str) -> Any:
    """The type of a column whose values are of these kinds, as SQLite has one for each value: text holds them all."""
    import pyarrow as pa

    kinds = kinds - {type(None)}
    if bytes in kinds:
        raise InputError(f"{what} holds BLOBs; leave it out, or convert it by CAST(... AS TEXT) or hex(...)")
    if not kinds:
        return pa.null()
    return pa.string() if str in kinds else pa.float64() if float in kinds else pa.int64()


def _sqlite_array(values: tuple[Any, ...], field: Any, called: str) -> Any:
    """A column of pyarrow.

    Raises:
        InputError: for whole numbers that doubles do not hold, in a column that has others, too.
    """
    import pyarrow as pa

    made = {pa.string(): str, pa.float64(): float}.get(field.type)
    found = values if made is None else [None if each is None else made(each) for each in values]
    rounded = [one for one, other in zip(values, found, strict=True) if made is float and one != other]
    if rounded:
        raise InputError(
            f"{called}: column {field.name!r} holds {rounded[0]} beside numbers that are not whole, as one of which "
            "it would be rounded; CAST(... AS TEXT) keeps it"
        )
    return pa.array(found, field.type)


@contextmanager
def _in_one_line(called: str, failures: tuple[type[Exception], ...]) -> Iterator[None]:
    try:
        yield
    except failures as error:
        raise InputError(f"{called}: {shown_source(POINTER.sub('', one_line(error)))}") from None


def _in_one_line_each(batches: Iterator[Any], called: str, failures: tuple[type[Exception], ...]) -> Iterator[Any]:
    with _in_one_line(called, failures):
        yield from batches
