"""Features, labels and vertex sets in files of their own: for sources that hold only edges, or to replace theirs.

Each is a ``.npy``, or a table in text or Parquet with one row a vertex, in the order of the vertices or with ids
(:mod:`gsplit.data.importers.vertex_tables`). One table may hold all three, in columns that are named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gsplit import cli
from gsplit.config.fields import Accepted
from gsplit.data.adjacency import check_num_vertices
from gsplit.data.columns.assembled import Assembled, KeptFeatures, Missing
from gsplit.data.columns.kept_tables import KeptTable, kept_tables, tables_for
from gsplit.data.graph import VERTEX_SETS, GraphArrays
from gsplit.data.ids.vertex_ids import VertexIds, WholeIds
from gsplit.data.importers.column_files import words_of_columns
from gsplit.data.importers.column_kinds import SKIP, column_of_times, parse_columns
from gsplit.data.importers.column_names import flag_value, kinds_by_column, named_column, names_in
from gsplit.data.importers.databases import Queries
from gsplit.data.importers.feature_tables import Joining, array_block, features_of
from gsplit.data.importers.gaps import USUAL, WORDS, Gaps, check_words
from gsplit.data.importers.label_tables import labels_of, times_of
from gsplit.data.importers.matching import Unknown, table_with
from gsplit.data.importers.row_rules import RowRules
from gsplit.data.importers.set_files import SPLIT_WORDS, set_of_file, sets_of_file
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.tables import open_table
from gsplit.data.importers.text_rules import TextRules
from gsplit.data.importers.vertex_tables import placed
from gsplit.data.labels.replaced_labels import longer_labels, replaced_labels
from gsplit.data.labels.replaced_sets import replaced_sets
from gsplit.errors import InputError


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

    def columns_beside_features(self, path: Path) -> set[str]:
        """Names, in whatever table, and numbers of columns of one, in lower case, that are labels, sets or times."""
        flags = (
            (self.labels, self.label_column),
            (self.split_file, self.split_column),
            (None, self.times and self.times[0]),
        )
        return {
            name
            for table, names in flags
            for name in names_in(names)
            if not name.isdecimal() or (table is not None and table.resolve() == path.resolve())
        }

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


def places_of(files: VertexFiles, *, named: bool) -> tuple[Path | None, Path | None, Path | None]:
    """The files that hold the labels, the words of vertex sets and the times by which vertices are parted.

    Args:
        named: whether ids are of any kind.

    Raises:
        InputError: for a column that none of them has.
    """
    tables = (files.labels, *files.features)
    header = TextRules.current().header_with(files.id_column) if named else None
    return (
        table_with(files.label_column, "--label-column", files.labels, tables, header) or files.labels,
        table_with(files.split_column, "--split-column", files.split_file, tables, header) or files.split_file,
        table_with(files.times and files.times[0], "--split-by", files.split_file, tables, header),
    )


def attach(
    source: GraphSource, files: VertexFiles, ids: VertexIds | None = None, kept: GraphArrays | None = None
) -> GraphSource:
    """The source with what the files hold, which wins over what it has; vertex sets replace all of its sets.

    Args:
        ids: what the vertices are called in the files; None: 0 .. N-1.
        kept: a store that grows: what its first vertices have stays, but where a row replaces it.

    Raises:
        InputError: for files that are missing, damaged, or hold something else.
    """
    if files.id_column is not None and (ids is None or kept is not None) and not any(files.tables):
        raise InputError(
            f"--id-column {files.id_column} is for a table of --features, --labels or --split-file; there is none"
        )
    array = next((path for path in files.given if path.suffix == ".npy"), None)
    if ids is not None and array is not None:
        raise InputError(f"{array} has no ids to match its rows by, as --ids any does; give a table with a header")
    return _Attached(source, files, ids, kept).source


class _Attached:
    """A source while files are put to it, one after the other: what one tells the next may need."""

    def __init__(
        self, source: GraphSource, files: VertexFiles, ids: VertexIds | None, kept: GraphArrays | None
    ) -> None:
        self.source, self._files, self._ids, self._kept = source, files, ids, kept
        self._labels_at, self._split_at, self._times_at = places_of(files, named=ids is not None)
        if kept is not None:
            self._begin_to_grow(kept)
        if files.gaps != WORDS:
            self._put(gaps=tuple(files.gaps))
        self._put_features()
        self._put_labels()
        if files.split_by is None and self._split_at:
            self._put_sets(self._split_at)
        elif files.times is not None and self._times_at:
            self._put_times(self._times_at, *files.times)
        else:
            self._put_lists()

    def _begin_to_grow(self, kept: GraphArrays) -> None:
        """Count the vertices, where they are called by whole numbers; refuse tables that may hold ids unnoticed."""
        files, rules = self._files, self._rules
        for path, column in (
            (self._labels_at, files.label_column),
            (self._split_at, files.split_column),
            (self._times_at, files.times and files.times[0]),
        ):
            if path and column and path not in files.features:
                rules.refuse_unnamed_ids(path, files.columns_beside_features(path), SPLIT_WORDS)
        if self._ids is not None:
            return
        bounds = [rules.bound(path) for path in files.features]
        if self._labels_at and kept.features is None and rules.are_of_new(self._labels_at):
            bounds.append(rules.bound(self._labels_at))
        n = max([self.source.num_vertices or 0, *bounds])
        check_num_vertices(n, self.source.where)
        self._put(num_vertices=n)
        self._ids = WholeIds(n)

    @property
    def _num_vertices(self) -> int | None:
        """Number of vertices that the source, its features or its labels tell."""
        source = self.source
        if source.num_vertices is not None:
            return source.num_vertices
        rows = [array.shape[0] for array in (source.features, source.labels) if array is not None and array.shape]
        return rows[0] if rows else None

    @property
    def _rules(self) -> RowRules:
        return RowRules(
            id_column=self._files.id_column,
            num_vertices=self._num_vertices,
            ids=self._ids,
            unknown=self._files.unknown,
            old=None if self._kept is None else self._kept.num_vertices,
            where=self.source.where,
        )

    def _put(self, *, called: dict[str, str] | None = None, **changes: Any) -> None:
        self.source = replace(self.source, **changes, called={**self.source.called, **(called or {})})

    def _put_features(self) -> None:
        files = self._files
        how = Joining(
            kinds=parse_columns(files.columns),
            skip=self._skipped(),
            missing=files.missing,
            standardize=files.standardize,
            gaps=files.all_gaps,
        )
        kept, tables = None, tuple[KeptTable, ...]()
        if self._kept is not None:
            if (kept := self._kept_features(self._kept)) is None:
                return
            tables = tables_for(
                files.features, kept_tables(kept, self._kept.vertex_set("train"), files.missing), self.source.where
            )
        if files.features:
            found = features_of(files.features, how, self._rules, kept, tables)
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

    def _kept_features(self, kept: GraphArrays) -> KeptFeatures | None:
        """Features of a store that grows by rows of files; None where it does not.

        Raises:
            InputError: where new vertices would be without, or old ones.
        """
        paths, where, new = self._files.features, self.source.where, self._rules.new
        if kept.features is None:
            if not paths:
                return None
            raise InputError(
                f"{where} has no features, and {paths[0]} would leave its vertices without; drop --features, or give "
                "it those of all vertices first, without --add"
            )
        if not paths and new:
            assert self._ids is not None
            raise InputError(
                f"vertex {self._ids.shown(kept.num_vertices)} is new and has no features, which {where} has; give a "
                f"row for each of the {new} new vertices by --features FILE"
            )
        return KeptFeatures(rows=kept.features, columns=self.source.columns, called=where) if paths else None

    @property
    def _header(self) -> bool | None:
        """Whether tables have headers, as of :func:`gsplit.data.importers.tables.open_table`."""
        return None if self._ids is None else TextRules.current().header_with(self._files.id_column)

    def _skipped(self) -> dict[Path, set[str]]:
        """Columns of the tables of features that hold something else, by the file, whatever way leads to it."""
        if self._kept is not None:
            return {path.resolve(): self._files.columns_beside_features(path) for path in self._files.features}
        skip: dict[Path, set[str]] = {}
        files, kinds = self._files, parse_columns(self._files.columns)
        features = {each.resolve() for each in files.features}
        for path, flag, names in (
            (self._labels_at, "--label-column", files.label_column),
            (self._split_at, "--split-column", files.split_column),
            (self._times_at, "--split-by", files.times and files.times[0]),
        ):
            if path is None or names is None or path.resolve() not in features:
                continue
            table = open_table(path, header=self._header)
            asked = kinds_by_column(table, kinds)
            for name in names_in(names):
                column = named_column(table, name, flag)
                if flag == "--label-column" and asked.get(column, SKIP) != SKIP:
                    raise InputError(
                        f"--columns {flag_value(table, column)}:{asked[column]} makes a feature of the labels; drop "
                        "it"
                    )
                if column not in asked:
                    skip.setdefault(path.resolve(), set()).add(name)
        return skip

    def _put_labels(self) -> None:
        path, columns, kept = self._labels_at, self._files.label_column, self._kept
        if kept is not None and not kept.num_classes:
            self._put(labels=None, num_classes=None)
            kept = None
        if path is None:
            if kept is not None:
                self._put(labels=longer_labels(kept.labels, self._rules.count))
            return
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        gaps = self._files.all_gaps.and_also(self._files.unlabelled)
        known = () if kept is None else kept.classes or ()
        found = labels_of(path, names, self._files.label_separator, self._rules, gaps, known)
        self._put(
            labels=placed(found.values, found.vertices, self._num_vertices)
            if kept is None
            else replaced_labels(kept, found, self._rules.count, str(path), self.source.where),
            classes=(known or None) if found.classes is None else found.classes,
            labels_are_names=found.classes is not None or found.are_lists,
            labels_are_lists=found.are_lists,
            num_classes=None,
            least_classes=0 if kept is None else kept.num_classes,
            called={"labels": str(path)},
        )

    def _put_sets(self, path: Path) -> None:
        n = self._num_vertices
        found = sets_of_file(path, self._files.split_column, self._rules)
        if self._kept is not None:
            self._replace_sets(found.sets, found.vertices, path)
            return
        self._put(
            vertex_sets=found.sets,
            places=found.places,
            num_vertices=found.rows if n is None else self.source.num_vertices,
            called=dict.fromkeys(found.sets, str(path)),
        )

    def _put_times(self, path: Path, column: str, word: str | None) -> None:
        times = times_of(path, column, word, self._rules, self._files.all_gaps)
        self._put(times=times, vertex_sets={} if self._kept is None else self.source.vertex_sets)

    def _put_lists(self) -> None:
        paths = {name: path for name in VERTEX_SETS if (path := getattr(self._files, name))}
        if not paths:
            return
        found = {name: set_of_file(path, self._rules) for name, path in paths.items()}
        sets = {name: vertices for name, (vertices, _) in found.items()}
        if self._kept is not None:
            n = self._rules.count
            for name, vertices in sets.items():
                if (outside := (vertices < 0) | (vertices >= n)).any():
                    vertex = vertices[np.argmax(outside)]
                    raise InputError(f"{paths[name]}: {vertex} is outside the vertices 0 .. {n - 1}")
            self._replace_sets(sets, np.concatenate(list(sets.values())), next(iter(paths.values())))
        else:
            places = {name: place for name, (_, place) in found.items() if place is not None}
            self._put(vertex_sets=sets, places=places)
        self._put(called={name: str(path) for name, path in paths.items()})

    def _replace_sets(self, sets: dict[str, NDArray[np.int64]], named: NDArray[np.int64] | None, path: Path) -> None:
        """Put vertex sets of files in the place of those of a store that grows."""
        assert self._kept is not None
        assert named is not None
        kept, old = self.source.vertex_sets, self._kept.num_vertices
        self._put(vertex_sets=replaced_sets(kept, sets, named, old, str(path)))
