"""Features in files of their own: tables and ``.npy`` arrays, side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import Assembled, FeatureBlock, FeatureColumn, Kind, Missing
from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.arrays import read_npy
from gsplit.data.importers.checked import NotNumbersError, printable_line
from gsplit.data.importers.column_kinds import HINT, OTHERS, SKIP, column_of, read_columns, usual_kind
from gsplit.data.importers.gaps import USUAL, Gaps
from gsplit.data.importers.matching import Unknown
from gsplit.data.importers.source import Rows
from gsplit.data.importers.vertex_tables import VertexTable
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Joining:
    """Rules by which the rows and columns of feature tables become features."""

    id_column: str | None
    kinds: Mapping[str, str]
    """The kind of each column by its name in lower case, ``*`` for all others; by default all are numbers."""
    skip: Mapping[Path, Collection[str]]
    """Names of columns, by the file (its resolved path), that are labels, sets or times."""
    missing: Missing
    unknown: Unknown
    standardize: bool
    gaps: Gaps = USUAL

    @property
    def finishes(self) -> bool:
        """True where anything is done to the values of an array."""
        return self.missing != "refuse" or self.standardize


def features_of(
    paths: Sequence[Path], how: Joining, num_vertices: int | None, ids: VertexIds | None
) -> NDArray[Any] | Assembled:
    """The features of some files, in their order.

    Args:
        num_vertices: None where it is not known: then the first file has a row for each.
        ids: what the vertices are called; None: 0 .. N-1.

    Raises:
        InputError: for files that are missing, damaged, or hold something else.
    """
    if len(paths) == 1 and paths[0].suffix == ".npy" and not how.finishes:
        _check_named(how.kinds, paths, set())
        return read_array(paths[0])
    blocks: list[FeatureBlock] = []
    names: set[str] = set()
    are_half = True
    n = num_vertices
    for path in paths:
        if path.suffix == ".npy":
            array = read_array(path)
            block, rows = array_block(array, str(path)), len(array)
            are_half &= array.dtype == np.float16
        else:
            table = _open(path, how, n, ids)
            block, rows, are_half = _of_table(table, how), table.num_rows, False
            names |= {table.name(column) for column in range(table.table.num_columns)}
            table.refuse_named_ids(how.kinds)
        if not rows and n is None and ids is None:
            raise InputError(f"{path} has no rows; there must be one for each vertex, or give --num-vertices")
        n = rows if n is None else n
        if block.vertices is None and rows != n:
            raise InputError(
                f"{path} has {rows} rows; there must be one for each of the {n} vertices, or a column of ids "
                "(--id-column)"
            )
        blocks.append(block)
    _check_named(how.kinds, paths, names)
    assert n is not None
    return Assembled(
        num_vertices=n,
        blocks=tuple(blocks),
        missing=how.missing,
        standardize=how.standardize,
        dtype=np.dtype(np.float16 if are_half else np.float32),
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
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(f"{path} must be numbers of shape (N, D), not {array.dtype} of shape {array.shape}")
    return array


def _open(path: Path, how: Joining, n: int | None, ids: VertexIds | None) -> VertexTable:
    named = {name for name, kind in how.kinds.items() if kind != SKIP}
    return VertexTable(
        path,
        "feature",
        id_column=how.id_column,
        num_vertices=n,
        ids=ids,
        require_all=how.missing == "refuse",
        unknown=how.unknown,
        gaps=how.gaps,
        skip={*how.skip.get(path.resolve(), ()), *(how.kinds.keys() - named)},
        only=named if how.kinds.get(OTHERS) == SKIP else None,
    )


def _of_table(table: VertexTable, how: Joining) -> FeatureBlock:
    kinds = [
        how.kinds.get(table.name(column).lower()) or how.kinds.get(OTHERS) or usual_kind(table.table, column)
        for column in table.values
    ]
    guessed = [
        column
        for column, kind in zip(table.values, kinds, strict=True)
        if kind == "number" and table.name(column).lower() not in how.kinds
    ]
    try:
        table.refuse_ids(guessed, "feature")
        made = tuple(
            column_of(table.table, column, table.name(column), cast("Kind", kind))
            for column, kind in zip(table.values, kinds, strict=True)
        )
    except NotNumbersError as error:
        raise _with_hint(error) from None

    def chunks() -> Iterator[NDArray[np.floating[Any]]]:
        try:
            yield from read_columns(table.table, table.values, made)
        except NotNumbersError as error:
            raise _with_hint(error) from None

    return FeatureBlock(
        path=str(table.table.path), columns=made, chunks=chunks, vertices=table.vertices, place=table.table.place
    )


def _with_hint(error: NotNumbersError) -> InputError:
    return InputError(f"{error}; {HINT}")


def _check_named(kinds: Mapping[str, str], paths: Sequence[Path], names: Collection[str]) -> None:
    for name in kinds:
        if name != OTHERS and name not in {there.lower() for there in names}:
            shown = (
                ", ".join(printable_line(there) or "(nameless)" for there in sorted(names)) or "no columns with names"
            )
            raise InputError(
                f"--columns names {name}, which is in none of {', '.join(map(str, paths))}; there are {shown}"
            )
