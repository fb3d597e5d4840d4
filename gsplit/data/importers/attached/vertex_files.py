"""Features, labels and vertex sets in files of their own: for sources that hold only edges, or to replace theirs.

Each is a ``.npy``, or a table in text or Parquet with one row a vertex, in the order of the vertices or with ids
(:mod:`gsplit.data.importers.attached.vertex_tables`). One table may hold all three, in columns that are named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from gsplit.config.fields import Accepted
from gsplit.data.columns.assembled import Missing
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.attached.matching import Unknown, table_with
from gsplit.data.importers.tables.column_kinds import column_of_times, parse_columns
from gsplit.data.importers.tables.column_names import names_in
from gsplit.data.importers.tables.databases import Queries
from gsplit.data.importers.tables.gaps import USUAL, WORDS, Gaps, check_words
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.errors import InputError
from gsplit.toml import tomllib

SUFFIX = ".toml"


def words_of_columns(columns: Any) -> Any:
    """Words NAME:KIND of what ``--columns`` was given.

    Args:
        columns: such words and paths of TOML files, one path, or a dictionary of kinds by name; what is nothing of
            this is returned as it is, for whoever checks it.

    Raises:
        InputError: for a file that cannot be read, or that holds anything but kinds of columns.
    """
    if isinstance(columns, Mapping):
        return _words(columns, "columns")
    if _is_file(columns):
        columns = (columns,)
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        return columns
    words: list[Any] = []
    for word in columns:
        words += _read(Path(word)) if _is_file(word) else [word]
    return words


def _is_file(word: Any) -> bool:
    return isinstance(word, os.PathLike) or (isinstance(word, str) and word.lower().endswith(SUFFIX))


def _read(path: Path) -> list[str]:
    try:
        kinds = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InputError(f"--columns {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--columns {path} is not a readable TOML file: {error}") from None
    return _words(kinds, str(path))


def _words(kinds: Mapping[Any, Any], where: str) -> list[str]:
    """Words NAME:KIND of kinds by name; ``where`` is for messages."""
    words = []
    for name, kind in kinds.items():
        if isinstance(kind, Mapping):
            raise InputError(f"--columns {where}: {name} is a table; write a name with a dot in quotes")
        if not isinstance(name, str) or not isinstance(kind, str):
            raise InputError(f"--columns {where}: the kind of {name!r} is a text such as number, not {kind!r}")
        words.append(f"{name}:{kind}")
    try:
        parse_columns(words)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return words


def _check_separator(separator: str | None) -> None:
    if separator is not None and not separator.strip():
        raise InputError("--label-separator takes what stands between the classes of a vertex, such as ';'")


@dataclass(frozen=True, kw_only=True)
class VertexFiles(Queries):
    """Files of features, labels and vertex sets: .npy, or .csv, .tsv, .txt, .parquet with a row for each vertex."""

    # The docstrings are the help of the command.

    features: tuple[Path, ...] = ()
    """One or several files of features, a row for each vertex; their columns stand side by side."""
    labels: Path | None = None
    """A file of labels: one class a vertex, by number or name (-1, NaN or nothing: unlabelled), or a column of 0 and
    1 a class."""
    train: Path | None = None
    """A file of the ids of the training vertices; a .npy may be a mask."""
    valid: Path | None = None
    """A file of the ids of the validation vertices."""
    test: Path | None = None
    """A file of the ids of the test vertices."""
    split_file: Path | None = None
    """One file in place of these three, which says train, valid, test or none for each vertex."""
    id_column: str | None = None
    """The column of vertex ids in the tables of features, labels and --split-file, by which their rows are matched:
    its name, or its number from 1 on, as of all flags that name columns. none: no column holds ids. By default one
    called id, node, vertex or the like; without one rows are in the order of the vertices."""
    columns: Annotated[tuple[str, ...], Accepted(parse_columns)] = ()
    """Kinds of columns of features, as age:number country:category, or a file FILE.toml with a line such as
    "first, last" = "category" for each; * stands for all others. number (by default),
    category (a feature of 0 and 1 for each), code (a number for each category, from 1 on), bool, time (days since
    1970-01-01; of numbers or other forms of dates as time(ms) or time(%d.%m.%Y)), or skip."""
    missing: Missing = "refuse"
    """Treatment of features that are not there, also of vertices without a row: refuse them, or fill in zero, or
    the mean of the training vertices (of all where there are none; for a category, the share of each)."""
    unknown: Unknown = "refuse"
    """Treatment of rows whose ids are no vertex's: refuse them, drop them, or add them as vertices without edges
    (rows of features, labels and --split-file)."""
    vertices: Path | None = None
    """A file of ids, one a line, which are vertices even if no edge has them."""
    gaps: Annotated[tuple[str, ...], Accepted(check_words)] = WORDS
    """Words that stand for no value in features, labels and times, in any case, beside an empty field."""
    standardize: bool = False
    """Give each number and time among the features the mean 0 and the standard deviation 1 over the training
    vertices."""
    label_column: str | None = None
    """The column of --labels, or else of a table of --features, that holds the labels; several as a,b."""
    label_separator: Annotated[str | None, Accepted(_check_separator)] = None
    """Separator of the classes of a vertex that may have several of them in one column, such as ';'."""
    unlabelled: Annotated[tuple[str, ...], Accepted(check_words)] = ()
    """Words beside --gaps that stand for no label."""
    split_column: str | None = None
    """The column of --split-file, or else of a table of --labels or --features, that says train, valid, test or
    none."""
    split_by: str | None = None
    """The column of --split-file, or else of a table of --labels or --features, of numbers or dates by which --split
    parts the labelled vertices: those below the first bound train, those from the second on test. Its kind may
    follow, number or time, as in --columns, which may also say it: sent:time(ms)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", words_of_columns(self.columns))
        super().__post_init__()
        lists = [name for name in VERTEX_SETS if getattr(self, name)]
        if self.split_file and lists:
            raise InputError(f"--split-file gives all vertex sets; drop --{lists[0]}")
        if self.split_column and (lists or self.split_by):
            other = lists[0] if lists else "split-by"
            raise InputError(f"--split-column {self.split_column} gives all vertex sets; drop --{other}")
        if self.split_by and lists:
            raise InputError(f"--split-by {self.split_by} makes all vertex sets; drop --{lists[0]}")
        if self.columns and not (self.features or self.features_query):
            raise InputError("--columns is for tables of --features; there is none")
        if not self.queries and (
            (self.unknown == "drop" and all(path.suffix == ".npy" for path in self.given))
            or (self.unknown == "add" and not any(self.tables))
        ):
            raise InputError(
                f"--unknown {self.unknown} is for rows of tables of features, labels and vertex sets; there is none"
            )
        for flag, value in (("label-separator", self.label_separator), ("unlabelled", self.unlabelled)):
            if value and not (self.labels or self.labels_query or self.label_column):
                raise InputError(f"--{flag} is for labels; give --labels FILE or --label-column NAME")
        self._check_twice()

    def _check_twice(self) -> None:
        """Refuse files whose columns would be features twice, or features and something else."""
        seen: set[Path] = set()
        for path in self.features:
            if path.resolve() in seen:
                raise InputError(f"--features names {path} twice, and its columns would be there twice; drop one")
            seen.add(path.resolve())
        for name, column in (("labels", self.label_column), ("split-file", self.split_column or self.split_by)):
            file = self.labels if name == "labels" else self.split_file
            if file and column is None and file.resolve() in seen:
                flag = "--label-column" if name == "labels" else "--split-column"
                raise InputError(
                    f"--{name} {file} is a file of --features, too, and its columns would be both; name those "
                    f"that are no features by {flag}, or give another file"
                )

    @property
    def all_gaps(self) -> Gaps:
        """The gaps of features and times: the words of ``gaps``, and by default those of spreadsheets, too."""
        return USUAL if self.gaps == WORDS else Gaps.of(self.gaps)

    @property
    def tables(self) -> Iterator[Path]:
        """The files with a row for each vertex that are no arrays."""
        files = (*self.features, self.labels, self.split_file)
        return (path for path in files if path and path.suffix != ".npy")

    @property
    def times(self) -> tuple[str, str | None] | None:
        """The column of ``split_by``, and its kind where it or ``columns`` says one that times may have."""
        return None if self.split_by is None else column_of_times(self.split_by, parse_columns(self.columns))

    @property
    def settled(self) -> VertexFiles:
        """The files where the ids that they add are vertices already."""
        return replace(self, vertices=None, unknown="refuse" if self.unknown == "add" else self.unknown)

    @property
    def given(self) -> Iterator[Path]:
        """All files."""
        files = (*self.features, self.labels, self.split_file, *(getattr(self, name) for name in VERTEX_SETS))
        return (path for path in files if path)


class TakenColumns(NamedTuple):
    """Columns that hold labels, sets or times, and the file that they are in."""

    flag: str
    names: str | None
    """As the flag has them; None: the file has nothing else."""
    path: Path | None
    """None where nothing holds them."""

    def are_in(self, path: Path) -> bool:
        """Return whether they are columns of a table that were named."""
        return self.names is not None and self.path is not None and self.path.resolve() == path.resolve()


def taken_columns(files: VertexFiles, *, named: bool) -> tuple[TakenColumns, TakenColumns, TakenColumns]:
    """Where the labels, the words of vertex sets and the times are by which vertices are parted.

    Args:
        named: whether ids are of any kind.

    Raises:
        InputError: for a column that none of the files has.
    """
    tables = (files.labels, *files.features)
    header = TextRules.current().header_with(files.id_column) if named else None

    def found(flag: str, names: str | None, own: Path | None, instead: Path | None) -> TakenColumns:
        return TakenColumns(flag, names, table_with(names, flag, own, tables, header) or instead)

    return (
        found("--label-column", files.label_column, files.labels, files.labels),
        found("--split-column", files.split_column, files.split_file, files.split_file),
        found("--split-by", files.times and files.times[0], files.split_file, None),
    )


def columns_beside_features(path: Path, taken: Iterable[TakenColumns]) -> set[str]:
    """Names, in whatever table, and numbers of columns of one, in lower case, that are labels, sets or times.

    Args:
        path: the table whose columns are meant.
        taken: as :func:`taken_columns` gives them.
    """
    return {name for each in taken for name in names_in(each.names) if not name.isdecimal() or each.are_in(path)}
