"""Growth of a store: N vertices in all, of which the first N0 were there before.

Tables go through the same reader as in an import (:func:`gsplit.data.importers.vertex_files.attach`), one at a time.
With a column of ids a row belongs to that vertex, new or old; without one the rows are those of the new vertices.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from gsplit.data.append.named_rows import refuse_unnamed_ids
from gsplit.data.graph import GraphArrays
from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.matching import NO_IDS
from gsplit.data.importers.source import GraphSource, array_edges
from gsplit.data.importers.vertex_files import VertexFiles, attach
from gsplit.errors import InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Growth of a store."""

    graph: GraphArrays
    """The store before."""
    where: str
    """Name in messages."""
    ids: VertexIds
    """Ids of all N vertices."""
    named: bool
    """True where ids are the user's own, so that every table has them."""

    @property
    def old(self) -> int:
        """N0."""
        return self.graph.num_vertices

    @property
    def all(self) -> int:
        """N."""
        return self.ids.num_vertices

    @property
    def new(self) -> int:
        """N - N0."""
        return self.all - self.old

    def check_rows(self, rows: int, path: Path) -> None:
        """Raise InputError where a table without ids has another number of rows than there are new vertices."""
        if rows != self.new:
            lacking = f", and {self.ids.shown(self.old + rows)} has none" if rows < self.new else ""
            raise InputError(
                f"{path} has {rows} rows and no column of ids, so it must have one for each of the {self.new} new "
                f"vertices{lacking}; a column called id names the vertex of each row"
            )


def bare(where: str, num_vertices: int | None = None) -> GraphSource:
    """A source without edges, for files to be attached to."""
    nothing = np.empty(0, np.int64)
    return GraphSource(name=where, edges=array_edges(nothing, nothing), num_vertices=num_vertices, where=where)


def attach_in_order(where: str, files: VertexFiles, name: Literal["labels", "split_file"]) -> GraphSource:
    """The source of a table without ids.

    Args:
        where: what messages call the store.
        files: with the table, and flags that other tables may need.
        name: of the field that holds it.
    """
    only = files.only(name)
    path = getattr(files, name)
    if only.columns_beside_features and files.id_column is None and path not in files.features:
        refuse_unnamed_ids(path, files.columns_beside_features)
    none = NO_IDS if files.id_column == NO_IDS and any(only.tables) else None
    return attach(bare(where), replace(only, id_column=none, unknown="refuse"))


def say_updated(path: Path | None, count: int, what: str, how: str = "replaced") -> None:
    """Say how many rows change something of vertices that were there before."""
    if count:
        logger.info("%s: %s %s %s", path, f"{count:,}", what, how)
