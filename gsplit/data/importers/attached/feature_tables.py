"""Features in files of their own: tables and ``.npy`` arrays, side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import Assembled, FeatureBlock, FeatureColumn, KeptFeatures, Missing
from gsplit.data.columns.kept_tables import KeptTable
from gsplit.data.importers.arrays import read_npy
from gsplit.data.importers.attached.matching import IDS, NO_IDS
from gsplit.data.importers.attached.row_rules import RowRules
from gsplit.data.importers.attached.vertex_tables import VertexTable
from gsplit.data.importers.checked import NotNumbersError, as_features, printable_line
from gsplit.data.importers.source import Rows
from gsplit.data.importers.tables.column_kinds import HINT, OTHERS, SKIP, columns_made, read_columns, usual_kind
from gsplit.data.importers.tables.column_names import called, calls, kinds_by_column, names_in, shown_column
from gsplit.data.importers.tables.gaps import USUAL, Gaps
from gsplit.data.importers.tables.table import open_table
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Joining:
    """Rules by which the rows and columns of feature tables become features."""

    kinds: Mapping[str, str]
    """The kind of each column by its name in lower case or its number, ``*`` for all others; by default all are
    numbers."""
    skip: Mapping[Path, Collection[str]]
    """Names or numbers of columns, by the file (its resolved path), that are labels, sets or times."""
    missing: Missing
    standardize: bool
    gaps: Gaps = USUAL

    @property
    def finishes(self) -> bool:
        """True where anything is done to the values of an array."""
        return self.missing != "refuse" or self.standardize


def features_of(
    paths: Sequence[Path],
    how: Joining,
    rules: RowRules,
    kept: KeptFeatures | None = None,
    tables: Sequence[KeptTable | None] = (),
) -> NDArray[Any] | Assembled:
    """The features of some files, in their order.

    Args:
        rules: by which rows belong to vertices; where their number is not known, the first file has a row for each.
        kept: the features of a store that grows.
        tables: the columns of each file, where they are those of such a store.

    Raises:
        InputError: for files that are missing, damaged, or hold something else.
    """
    if kept is None and len(paths) == 1 and paths[0].suffix == ".npy" and not how.finishes:
        _check_named(how.kinds, paths, {OTHERS}, set())
        return read_array(paths[0])
    blocks: list[FeatureBlock] = []
    names: set[str] = set()
    words: set[str] = {OTHERS}
    are_half = True
    for path, table in zip(paths, tables or [None] * len(paths), strict=True):
        if path.suffix == ".npy":
            array = read_array(path)
            block, rows = array_block(array, str(path)), len(array)
            block = replace(block, vertices=rules.in_order(path, rows))
            if table is not None:
                table.check_count(path, array.shape[1], rules.where, in_array=True)
            are_half &= array.dtype == np.float16
        else:
            opened = _open(path, how, rules) if table is None else _open_kept(path, how, rules, table)
            block, rows, are_half = _of_table(opened, how, table), opened.num_rows, False
            there = range(opened.table.num_columns)
            names |= {shown_column(opened.table, column) for column in there}
            words = words.union(*(calls(opened.table, column) for column in there))
            opened.refuse_named_ids(how.kinds)
        if not rows and rules.num_vertices is None and rules.ids is None:
            raise InputError(f"{path} has no rows; there must be one for each vertex, or give --num-vertices")
        if rules.num_vertices is None:
            rules = replace(rules, num_vertices=rows)
        if block.vertices is None and rows != rules.num_vertices:
            raise InputError(
                f"{path} has {rows} rows; there must be one for each of the {rules.num_vertices} vertices, or a "
                "column of ids (--id-column)"
            )
        if table is not None:
            block = replace(block, columns=table.columns_in(path), statistics=table.statistics)
        blocks.append(block)
    _check_named(how.kinds, paths, words, names)
    assert rules.num_vertices is not None
    return Assembled(
        num_vertices=rules.num_vertices,
        blocks=tuple(blocks),
        missing=how.missing,
        standardize=how.standardize or any(table.is_scaled for table in tables if table is not None),
        kept=kept,
        dtype=np.dtype(np.float16 if are_half else np.float32) if kept is None else kept.rows.dtype,
    )


def array_block(features: NDArray[Any] | Rows, called: str) -> FeatureBlock:
    """The features [N, D] of an array, or of rows in the order of the vertices, as a block."""
    column = FeatureColumn(table=called, kind="array", columns=int(features.shape[1]))

    def chunks() -> Iterator[NDArray[Any]]:
        return features.chunks() if isinstance(features, Rows) else iter((features,))

    return FeatureBlock(path=called, columns=(column,), chunks=chunks)


def read_array(path: Path) -> NDArray[Any]:
    """Features [N, D] of a ``.npy``, also of [N].

    Raises:
        InputError: for an array of something else.
    """
    array = read_npy(path)
    return as_features(array, len(array) if array.ndim else 0, str(path))


def _open(path: Path, how: Joining, rules: RowRules) -> VertexTable:
    named = {name for name, kind in how.kinds.items() if kind != SKIP}
    return VertexTable(
        path,
        "feature",
        rules,
        require_all=how.missing == "refuse",
        gaps=how.gaps,
        skip={*how.skip.get(path.resolve(), ()), *(how.kinds.keys() - named)},
        only=named if how.kinds.get(OTHERS) == SKIP else None,
    )


def _open_kept(path: Path, how: Joining, rules: RowRules, kept: KeptTable) -> VertexTable:
    """Open a table whose columns are those of a store that grows, by their names where it has them."""
    there = open_table(path, header=TextRules.current().header_with(rules.id_column) if rules.have_names else None)
    names = kept.named_in(there.names)
    skip = how.skip.get(path.resolve(), ())
    if names is not None:
        asked = {there.names[column] for column in called(there, names_in(rules.id_column))}
        usual = () if rules.have_names or rules.id_column else IDS
        if taken := [name for name in names if name in asked or name in usual]:
            raise InputError(
                f"{path}: column {printable_line(taken[0])} is a feature of {rules.where}, and not the ids; name the "
                f"column of ids by --id-column, or --id-column {NO_IDS} if no column holds them"
            )
        rules.refuse_unnamed_ids(path, {*skip, *names})
    table = VertexTable(
        path,
        "feature",
        rules,
        require_all=how.missing == "refuse",
        gaps=how.gaps,
        skip=skip,
        take=names,
        flag=f"column that features of {rules.where} were made of",
    )
    if names is None:
        kept.check_count(path, len(table.values), rules.where, in_array=False)
        table.refuse_ids(table.values, "feature")
    return table


def _of_table(table: VertexTable, how: Joining, kept: KeptTable | None) -> FeatureBlock:
    made = _made_of(table, how) if kept is None else kept.columns
    if any(column.kind == "array" for column in made):  # which may have been as many columns
        made = tuple(FeatureColumn(table="", name=table.name(column)) for column in table.values)

    def chunks() -> Iterator[NDArray[np.floating[Any]]]:
        try:
            yield from read_columns(table.table, table.values, made)
        except NotNumbersError as error:
            raise _with_hint(error) if kept is None else error from None

    return FeatureBlock(
        path=str(table.table.path), columns=made, chunks=chunks, vertices=table.vertices, place=table.table.place
    )


def _made_of(table: VertexTable, how: Joining) -> tuple[FeatureColumn, ...]:
    """What becomes of the columns of a table."""
    asked = kinds_by_column(table.table, how.kinds)
    kinds = [asked.get(column) or how.kinds.get(OTHERS) or usual_kind(table.table, column) for column in table.values]
    guessed = [
        column for column, kind in zip(table.values, kinds, strict=True) if kind == "number" and column not in asked
    ]
    try:
        table.refuse_ids(guessed, "feature")
        return columns_made(table.table, table.values, [*map(table.name, table.values)], kinds)
    except NotNumbersError as error:
        raise _with_hint(error) from None


def _with_hint(error: NotNumbersError) -> InputError:
    return InputError(f"{error}; {HINT}")


def _check_named(kinds: Mapping[str, str], paths: Sequence[Path], words: Collection[str], names: set[str]) -> None:
    """Check that each column that ``--columns`` names is there.

    Args:
        words: all that columns may be called.
        names: what messages call them.
    """
    for name in kinds:
        if name not in words:
            shown = ", ".join(sorted(names)) or "no columns with names"
            raise InputError(
                f"--columns names {printable_line(name)}, which is in none of {', '.join(map(str, paths))}; there "
                f"are {shown}"
            )
