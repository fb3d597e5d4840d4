"""Features, labels and vertex sets in files of their own: for sources that hold only edges, or to replace theirs.

Each is a ``.npy``, or a table in text or Parquet with one row a vertex, in the order of the vertices or with ids
(:mod:`gsplit.data.importers.vertex_tables`). One table may hold all three, in columns that are named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from gsplit import cli
from gsplit.config.fields import Accepted, Checked
from gsplit.data.columns.assembled import Assembled, Missing
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.column_files import words_of_columns
from gsplit.data.importers.column_kinds import SKIP, column_of_times, parse_columns
from gsplit.data.importers.feature_tables import Joining, array_block, features_of
from gsplit.data.importers.gaps import USUAL, WORDS, Gaps, check_words
from gsplit.data.importers.label_tables import Labels, labels_of, times_of
from gsplit.data.importers.matching import Unknown, table_with
from gsplit.data.importers.set_files import set_of_file, sets_of_file
from gsplit.data.importers.source import GraphSource
from gsplit.data.labels.time_sets import Times
from gsplit.errors import InputError


def _check_separator(separator: str | None) -> None:
    if separator is not None and not separator.strip():
        raise InputError("--label-separator takes what stands between the classes of a vertex, such as ';'")


@dataclass(frozen=True, kw_only=True)
class VertexFiles(Checked):
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
    its name, or its number from 1 on where there is no header. none: no column holds ids. By default one called id,
    node, vertex or the like; without one rows are in the order of the vertices."""
    columns: Annotated[cli.WordList, Accepted(parse_columns)] = ()
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
    gaps: Annotated[cli.WordList, Accepted(check_words)] = WORDS
    """Words that stand for no value in features, labels and times, in any case, beside an empty field."""
    standardize: bool = False
    """Give each number and time among the features the mean 0 and the standard deviation 1 over the training
    vertices."""
    label_column: str | None = None
    """The column of --labels, or else of a table of --features, that holds the labels; several as a,b."""
    label_separator: Annotated[str | None, Accepted(_check_separator)] = None
    """Separator of the classes of a vertex that may have several of them in one column, such as ';'."""
    unlabelled: Annotated[cli.WordList, Accepted(check_words)] = ()
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
        if self.columns and not self.features:
            raise InputError("--columns is for tables of --features; there is none")
        if (self.unknown == "drop" and all(path.suffix == ".npy" for path in self.given)) or (
            self.unknown == "add" and not any(self.tables)
        ):
            raise InputError(
                f"--unknown {self.unknown} is for rows of tables of features, labels and vertex sets; there is none"
            )
        for flag, value in (("label-separator", self.label_separator), ("unlabelled", self.unlabelled)):
            if value and not (self.labels or self.label_column):
                raise InputError(f"--{flag} is for labels; give --labels FILE or --label-column NAME")

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
    def columns_beside_features(self) -> set[str]:
        """Names of columns, in lower case, that are labels, sets or times, in whatever table."""
        times = set() if self.times is None else {self.times[0].lower()}
        return names_in(self.label_column) | names_in(self.split_column) | times

    @property
    def times(self) -> tuple[str, str | None] | None:
        """The column of ``split_by``, and its kind where it or ``columns`` says one that times may have."""
        return None if self.split_by is None else column_of_times(self.split_by, parse_columns(self.columns))

    @property
    def settled(self) -> VertexFiles:
        """The files where the ids that they add are vertices already."""
        return replace(self, vertices=None, unknown="refuse" if self.unknown == "add" else self.unknown)

    def only(self, name: str) -> VertexFiles:
        """The labels or the split file alone, with the configuration for it."""
        path = getattr(self, name)
        of_labels = name == "labels"
        return VertexFiles(
            **{name: path},
            id_column=self.id_column,
            unknown="refuse" if path.suffix == ".npy" else self.unknown,
            label_column=self.label_column if of_labels else None,
            label_separator=self.label_separator if of_labels else None,
            gaps=self.gaps,
            unlabelled=self.unlabelled if of_labels else (),
            split_column=None if of_labels else self.split_column,
        )

    @property
    def given(self) -> Iterator[Path]:
        """All files."""
        files = (*self.features, self.labels, self.split_file, *(getattr(self, name) for name in VERTEX_SETS))
        return (path for path in files if path)


def names_in(names: str | None) -> set[str]:
    """The names of columns, in lower case, in the value of a flag that takes several."""
    return set() if names is None else {name.strip().lower() for name in names.split(",")}


def places_of(files: VertexFiles, *, named: bool) -> tuple[Path | None, Path | None, Path | None]:
    """The files that hold the labels, the words of vertex sets and the times by which vertices are parted.

    Args:
        named: whether ids are of any kind.

    Raises:
        InputError: for a column that none of them has.
    """
    tables = (files.labels, *files.features)
    return (
        table_with(files.label_column, "--label-column", files.labels, tables, named=named) or files.labels,
        table_with(files.split_column, "--split-column", files.split_file, tables, named=named) or files.split_file,
        table_with(files.times and files.times[0], "--split-by", files.split_file, tables, named=named),
    )


def attach(source: GraphSource, files: VertexFiles, ids: VertexIds | None = None) -> GraphSource:
    """The source with what the files hold, which wins over what it has; vertex sets replace all of its sets.

    Args:
        ids: what the vertices are called in the files; None: 0 .. N-1.

    Raises:
        InputError: for files that are missing, damaged, or hold something else.
    """
    if files.id_column is not None and ids is None and not any(files.tables):
        raise InputError(
            f"--id-column {files.id_column} is for a table of --features, --labels or --split-file; there is none"
        )
    array = next((path for path in files.given if path.suffix == ".npy"), None)
    if ids is not None and array is not None:
        raise InputError(f"{array} has no ids to match its rows by, as --ids any does; give a table with a header")
    return _Attached(source, files, ids).source


class _Attached:
    """A source while files are put to it, one after the other: what one tells the next may need."""

    def __init__(self, source: GraphSource, files: VertexFiles, ids: VertexIds | None) -> None:
        self.source, self._files, self._ids = source, files, ids
        self._labels_at, self._split_at, self._times_at = places_of(files, named=ids is not None)
        if files.gaps != WORDS:
            self._put(gaps=tuple(files.gaps))
        self._put_features()
        if self._labels_at:
            self._put_labels(self._labels_at)
        if files.split_by is None and self._split_at:
            self._put_sets(self._split_at)
        elif files.times is not None and self._times_at:
            self._put_times(self._times_at, *files.times)
        else:
            self._put_lists()

    @property
    def _num_vertices(self) -> int | None:
        """Number of vertices that the source, its features or its labels tell."""
        source = self.source
        if source.num_vertices is not None:
            return source.num_vertices
        rows = [array.shape[0] for array in (source.features, source.labels) if array is not None and array.shape]
        return rows[0] if rows else None

    def _common(self) -> dict[str, Any]:
        return {
            "id_column": self._files.id_column,
            "num_vertices": self._num_vertices,
            "ids": self._ids,
            "unknown": self._files.unknown,
        }

    def _put(self, *, called: dict[str, str] | None = None, **changes: Any) -> None:
        self.source = replace(self.source, **changes, called={**self.source.called, **(called or {})})

    def _put_features(self) -> None:
        files, skip = self._files, self._skipped()
        how = Joining(
            id_column=files.id_column,
            kinds=parse_columns(files.columns),
            skip=skip,
            missing=files.missing,
            unknown=files.unknown,
            standardize=files.standardize,
            gaps=files.all_gaps,
        )
        if files.features:
            found = features_of(files.features, how, self._num_vertices, self._ids)
            self._put(features=found, columns=(), called={"features": ", ".join(map(str, files.features))})
            return
        own = self.source.features
        if not how.finishes or (self.source.columns and not how.standardize):  # a store has no gaps
            return
        if own is None or isinstance(own, Assembled) or len(own.shape) != 2:
            raise InputError(
                f"--{'standardize' if how.standardize else 'missing ' + how.missing} is for features, and "
                f"{self.source.where} has none; give --features FILE or drop it"
            )
        block = array_block(own, self.source.call("features"))
        n = own.shape[0]
        made = Assembled(
            num_vertices=n, blocks=(block,), missing=how.missing, standardize=how.standardize, dtype=own.dtype
        )
        self._put(features=made, columns=())

    def _skipped(self) -> dict[Path, set[str]]:
        """Columns of the tables of features that hold something else, by the file, whatever way leads to it."""
        skip: dict[Path, set[str]] = {}
        files, asked = self._files, parse_columns(self._files.columns)
        for name in names_in(files.label_column) & {name for name, kind in asked.items() if kind != SKIP}:
            if self._labels_at in files.features:
                raise InputError(
                    f"--columns {printable_line(name)}:{asked[name]} makes a feature of the labels; drop it"
                )
        for path, names in (
            (self._labels_at, files.label_column),
            (self._split_at, files.split_column),
            (self._times_at, files.times and files.times[0]),
        ):
            if path and names:
                skip.setdefault(path.resolve(), set()).update(names_in(names) - asked.keys())
        return skip

    def _put_labels(self, path: Path) -> None:
        columns = self._files.label_column
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        gaps = self._files.all_gaps.and_also(self._files.unlabelled)
        found: Labels = labels_of(path, names, self._files.label_separator, **self._common(), gaps=gaps)
        named = found.classes is not None or found.are_lists
        self._put(
            labels=found.values,
            classes=found.classes,
            labels_are_names=named,
            labels_are_lists=found.are_lists,
            num_classes=None,
            called={"labels": str(path)},
        )

    def _put_sets(self, path: Path) -> None:
        n = self._num_vertices
        sets, places, rows = sets_of_file(path, self._files.split_column, **self._common())
        self._put(
            vertex_sets=sets,
            places=places,
            num_vertices=rows if n is None else self.source.num_vertices,
            called=dict.fromkeys(sets, str(path)),
        )

    def _put_times(self, path: Path, column: str, word: str | None) -> None:
        values, are_dates = times_of(path, column, word, **self._common(), gaps=self._files.all_gaps)
        self._put(times=Times(values=values, are_dates=are_dates, called=f"{path}: {column}"), vertex_sets={})

    def _put_lists(self) -> None:
        paths = {name: path for name in VERTEX_SETS if (path := getattr(self._files, name))}
        if not paths:
            return
        found = {
            name: set_of_file(path, self._num_vertices, self._ids, self._files.unknown)
            for name, path in paths.items()
        }
        self._put(
            vertex_sets={name: vertices for name, (vertices, _) in found.items()},
            places={name: place for name, (_, place) in found.items() if place is not None},
            called={name: str(path) for name, path in paths.items()},
        )
