"""A source with what files beside it hold: features, labels and vertex sets, in place of its own or for new vertices.

N vertices.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gsplit.data.adjacency import check_num_vertices
from gsplit.data.columns.assembled import Assembled, KeptFeatures
from gsplit.data.columns.kept_tables import KeptTable, kept_tables, tables_for
from gsplit.data.graph import VERTEX_SETS, GraphArrays
from gsplit.data.ids.vertex_ids import VertexIds, WholeIds
from gsplit.data.importers.attached.feature_tables import Joining, array_block, features_of
from gsplit.data.importers.attached.label_tables import labels_of, longer_labels, replaced_labels, times_of
from gsplit.data.importers.attached.matching import NO_IDS
from gsplit.data.importers.attached.row_rules import RowRules
from gsplit.data.importers.attached.set_files import SPLIT_WORDS, VertexSets, sets_of_file, sets_of_lists
from gsplit.data.importers.attached.vertex_files import VertexFiles, columns_beside_features, taken_columns
from gsplit.data.importers.attached.vertex_tables import placed
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.tables.column_kinds import SKIP, parse_columns
from gsplit.data.importers.tables.column_names import flag_value, kinds_by_column, named_column, names_in
from gsplit.data.importers.tables.table import open_table
from gsplit.data.importers.tables.text_rules import TableRules, TextRules
from gsplit.data.importers.tables.text_tables import TextTable
from gsplit.data.labels.vertex_sets import replaced_sets
from gsplit.errors import InputError


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


def _begins_counting(path: Path) -> bool:
    table = open_table(path)
    return isinstance(table, TextTable) and table.begins_counting


class _Attached:
    """A source while files are put to it, one after the other: what one tells the next may need."""

    def __init__(
        self, source: GraphSource, files: VertexFiles, ids: VertexIds | None, kept: GraphArrays | None
    ) -> None:
        self.source, self._files, self._ids, self._kept = source, files, ids, kept
        self._taken = taken_columns(files, named=ids is not None)
        self._labels_at, split_at, times_at = (each.path for each in self._taken)
        if kept is not None:
            self._begin_to_grow(kept)
        given, texts, held = TableRules(unlabelled=files.unlabelled), TextRules.current(), source.table_rules
        if kept is None:
            given = replace(given, gaps=files.gaps, quote=texts.quote, strip=texts.strip)
            if self._labels_at or files.features:  # a store's rules hold for what is added, not for other tables
                held = TableRules(unlabelled=() if self._labels_at else held.unlabelled)
        self._put(table_rules=replace(held, **given.described()))
        tells_count = kept is not None or source.num_vertices is None
        self._put_features()
        self._put_labels()
        if tells_count and ids is None and files.id_column in (None, NO_IDS):
            paths = (path for path in (*files.features, self._labels_at) if path and path.suffix != ".npy")
            self._put(maybe_header=next(filter(_begins_counting, paths), None))
        lists = {name: path for name in VERTEX_SETS if (path := getattr(files, name))}
        if files.times is not None and times_at:
            times = times_of(times_at, *files.times, self._rules, files.all_gaps)
            self._put(times=times, vertex_sets={} if kept is None else self.source.vertex_sets)
        elif split_at:
            found = sets_of_file(split_at, files.split_column, self._rules)
            self._put_sets(found, dict.fromkeys(found.sets, str(split_at)))
        elif lists:
            self._put_sets(sets_of_lists(lists, self._rules), {name: str(path) for name, path in lists.items()})

    def _begin_to_grow(self, kept: GraphArrays) -> None:
        """Count the vertices, where they are called by whole numbers; refuse tables that may hold ids unnoticed."""
        files, rules = self._files, self._rules
        for each in self._taken:
            if each.path and each.names and each.path not in files.features:
                used = columns_beside_features(each.path, self._taken)
                rules.refuse_unnamed_ids(each.path, used, SPLIT_WORDS)
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
        """Whether tables have headers, as of :func:`gsplit.data.importers.tables.table.open_table`."""
        return None if self._ids is None else TextRules.current().header_with(self._files.id_column)

    def _skipped(self) -> dict[Path, set[str]]:
        """Columns of the tables of features that hold something else, by the file, whatever way leads to it."""
        files, kinds = self._files, parse_columns(self._files.columns)
        if self._kept is not None:
            return {path.resolve(): columns_beside_features(path, self._taken) for path in files.features}
        skip: dict[Path, set[str]] = {}
        for path, (flag, names, _) in (
            (path, each) for each in self._taken for path in files.features if each.are_in(path)
        ):
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
            places={} if found.place is None else {"labels": found.placed_by_vertex},
            called={"labels": str(path)},
        )

    def _put_sets(self, found: VertexSets, called: dict[str, str]) -> None:
        """Put vertex sets of files in the place of those of the source; of a store that grows, of the vertices named.

        Args:
            called: the file of each set.
        """
        if self._kept is not None:
            assert found.vertices is not None
            path, was = next(iter(called.values())), self.source.vertex_sets
            self._put(vertex_sets=replaced_sets(was, found.sets, found.vertices, self._kept.num_vertices, path))
        else:
            rows = found.rows if self._num_vertices is None else None
            n = self.source.num_vertices if rows is None else rows
            self._put(vertex_sets=found.sets, places={**self.source.places, **found.places}, num_vertices=n)
        self._put(called=called)
