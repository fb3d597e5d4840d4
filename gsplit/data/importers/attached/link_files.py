"""Files of links: pairs of vertices by set, and what they are compared with, in the users' ids.

Pairs are a table in text or Parquet with a source and a destination a row, or integers in a ``.npy``, [2, M] like an
edge index or [M, 2] like those of a store. Candidates are a table or a ``.npy`` with a row for each pair of its set,
in the order of that file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.config.fields import Checked
from gsplit.data.ids.prefixes import prefixed
from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.arrays import read_npy
from gsplit.data.importers.edge_list import EndColumns, ends_of
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.tables.table import Table, open_table, read_exactly
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.links.edge_sets import EDGE_SETS, Links, weights_of
from gsplit.errors import InputError

BESIDE = {
    "train": ("hard_negatives", "train_weights"),
    "valid": ("valid_candidates", "valid_negatives"),
    "test": ("test_candidates", "test_negatives"),
}
"""What goes with the pairs of each set, by its field of :class:`gsplit.data.links.edge_sets.Links`."""
Place = Callable[[int], str]


@dataclass(frozen=True, kw_only=True)
class LinkFiles(Checked):
    """Files of pairs of vertices that belong together, to be learned and predicted: .npy, text or Parquet."""

    # The docstrings are the help of the command.

    train_edges: Path | None = None
    """A file of the training pairs, a source and a destination a row, and perhaps a weight; by default all edges of
    the graph are some."""
    valid_edges: Path | None = None
    """A file of the validation pairs, which are no edges of the graph (--leaks)."""
    test_edges: Path | None = None
    """A file of the test pairs, likewise."""
    valid_candidates: Path | None = None
    """A file of the destinations that each validation pair is compared with beside its own, a row a pair."""
    test_candidates: Path | None = None
    """A file of those of the test pairs."""
    valid_negatives: Path | None = None
    """A file of pairs that all validation pairs are compared with."""
    test_negatives: Path | None = None
    """A file of those of the test pairs."""
    hard_negatives: Path | None = None
    """A table of pairs that do not belong together: its destinations are negatives of all training pairs with that
    source. Or a .npy with a row of destinations for each training pair, -1 where there are fewer."""

    @property
    def given(self) -> dict[str, Path]:
        """Files by the name of their field."""
        paths = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: path for name, path in paths.items() if path is not None}


NO_LINKS = LinkFiles()


def with_links(source: GraphSource, files: LinkFiles, ends: EndColumns, ids: VertexIds | None) -> GraphSource:
    """The source with the links of files in place of its own; new pairs of a set replace what it was compared with.

    Args:
        source: the graph.
        files: of links.
        ends: what the columns of the edge list are called, which those of pairs may be, too.
        ids: what the vertices are called in the files; None: 0 .. N-1.

    Raises:
        InputError: for files that are missing, damaged, hold something else or ids of no vertex.
    """
    if not files.given:
        return source
    links = source.links or Links.empty()
    for name in EDGE_SETS:
        if f"{name}_edges" in files.given:
            nothing: dict[str, Any] = dict.fromkeys(BESIDE[name])
            links = replace(links, **nothing)
    reader, places, hard_pairs = _Reader(ends, ids), dict[str, Place](), None
    for name, path in files.given.items():
        if path.suffix == ".npy" and ids is not None:
            raise InputError(f"{path} has no ids to match its rows by, as --ids any does; give a table")
        of_rows = name.endswith("_candidates") or (name == "hard_negatives" and path.suffix == ".npy")
        array, place, weights = reader.rows(path) if of_rows else reader.pairs(path, weighed=name == "train_edges")
        if name == "hard_negatives" and not of_rows:
            hard_pairs = array
        else:
            new: dict[str, Any] = {name.removesuffix("_edges"): array}
            links = replace(links, **new if weights is None else {**new, "train_weights": weights})
        if place is not None:
            places[name] = place
    called = {name: str(path) for name, path in files.given.items()}
    if hard_pairs is not None:
        links = replace(links, hard_negatives=None)
    facts = source.link_facts
    if "train_edges" in files.given:
        facts = {key: value for key, value in facts.items() if key not in ("message", "supervision")}
    if {"valid_edges", "test_edges"} & {*files.given}:
        facts = {key: value for key, value in facts.items() if key not in ("split", "removed")}
    only_hard_pairs = {*files.given} == {"hard_negatives"} and hard_pairs is not None
    return replace(
        source,
        links=None if only_hard_pairs and source.links is None else links,
        link_facts=facts,
        hard_pairs=hard_pairs,
        places={**source.places, **places},
        called={**source.called, **called},
    )


def read_pairs(path: Path, ids: VertexIds | None) -> NDArray[np.int64]:
    """Pairs of vertices [M, 2] out of a file, by the ids of the vertices; None: 0 .. N-1, which are not checked.

    Raises:
        InputError: where it is missing, damaged, or holds something else.
    """
    return _Reader(EndColumns(), ids).pairs(path)[0]


class _Reader:
    """Reads files of pairs and of candidates, by the ids of the vertices."""

    def __init__(self, ends: EndColumns, ids: VertexIds | None) -> None:
        self._ends, self._ids = ends, ids

    def pairs(
        self, path: Path, *, weighed: bool = False
    ) -> tuple[NDArray[np.int64], Place | None, NDArray[np.float32] | None]:
        """Pairs [m, 2], what messages call a row of them where that is a line, and weights, where asked for."""
        if path.suffix == ".npy":
            array = _integers(path)
            if 2 not in array.shape or array.shape == (2, 2):
                hint = ", which may be read both ways; give a table" if array.shape == (2, 2) else ""
                raise InputError(f"{path} must be pairs of shape (M, 2) or (2, M), not {array.shape}{hint}")
            return (array.T if len(array) == 2 else array).astype(np.int64), None, None
        table = self._table(path)
        ends = EndColumns(*self._ends[:2]) if self._has(table, *self._ends[:2]) else EndColumns()
        if weighed and self._ends.weight is not None and self._has(table, self._ends.weight):
            ends = ends._replace(weight=self._ends.weight)
        columns = ends_of(table, ends, named=self._ids is not None)
        pairs, weights = self._vertices(table, (columns.sources, columns.destinations)), None
        if weighed and columns.weight is not None:
            read = [values for (values,) in read_exactly(table, [columns.weight], [np.float64])]
            weights = weights_of(np.concatenate([np.empty(0), *read]), str(path), table.place)
        return pairs, table.place, weights

    def rows(self, path: Path) -> tuple[NDArray[np.int64], Place | None, None]:
        """Vertices [m, K], a row a pair, and what messages call a row."""
        if path.suffix == ".npy":
            return _integers(path).astype(np.int64), None, None
        table = self._table(path)
        return self._vertices(table, [[column] for column in range(table.num_columns)]), table.place, None

    def _table(self, path: Path) -> Table:
        return open_table(path, header=None if self._ids is None else TextRules.current().header)

    def _has(self, table: Table, *columns: str | None) -> bool:
        names = [name.strip().lower() for column in columns for name in (column or "").split(",")]
        return all(name in table.names or name.isdecimal() for name in names)

    def _vertices(self, table: Table, ends: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """Vertices [rows, columns] by ids, of which each has some columns of the table."""
        pieces = [np.empty((0, len(ends)), np.int64)]
        if self._ids is None:
            whole = read_exactly(table, [column for (column,) in ends], [int] * len(ends))
            pieces.extend(np.stack(values, axis=1) for values in whole)
            return np.concatenate(pieces)
        width, begin = len(self._ids.names), 0
        if any(len(columns) != width for columns in ends):
            raise InputError(f"{table.path}: an id has the columns {', '.join(self._ids.names)}; give them for each")
        for texts in table.ids([column for columns in ends for column in columns]):
            found = []
            for at, columns in enumerate(ends):
                id_ = texts[at * width : (at + 1) * width]
                id_[0] = prefixed(id_[0], self._prefix(table, columns[0], is_source=len(ends) == 2 and at == 0))
                found.append(self._ids.find(id_))
            pieces.append(np.stack(found, axis=1))
            if (unknown := (pieces[-1] < 0).any(axis=1)).any():
                raise InputError(
                    f"{table.path}, {table.place(begin + int(np.argmax(unknown)))}: an id is no vertex's; remove the "
                    "line, or --vertices makes vertices of ids that are in no edge"
                )
            begin += len(pieces[-1])
        return np.concatenate(pieces)

    def _prefix(self, table: Table, column: int, *, is_source: bool) -> str:
        assert self._ids is not None
        prefixes = self._ids.prefixes
        return prefixes.of_column(table.names[column] if table.names else "") or prefixes.texts[0 if is_source else 1]


def _integers(path: Path) -> NDArray[Any]:
    array = read_npy(path)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise InputError(f"{path} must be integers in 2 dimensions, not {array.dtype} of shape {array.shape}")
    return array
