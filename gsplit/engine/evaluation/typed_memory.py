"""Memory of exact vectors of several types: rows of the types that a level has, and chunks of one type at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.exact import MAX_EDGES, MAX_ROW_BYTES
from gsplit.engine.evaluation.most_together import most_together
from gsplit.engine.own_ranges import bounds_by_parts
from gsplit.nn import TypedLayeredModel

ROWS_AT_ONCE = 1 << 16
"""Destinations whose edges are read together."""
EDGE_BYTES = 16
"""Bytes of an edge in a segment, the int64 ids of edges among them, beside those of a source."""


class TypedLevels:
    """The levels that exact vectors of a type are computed from, in turn.

    Args:
        layout: to compute on.
        model: of several types.
        level: of the vectors; None: the last.
        type_: number of their type; None: the target type.
    """

    def __init__(
        self, layout: Layout, model: TypedLayeredModel, level: int | None = None, type_: int | None = None
    ) -> None:
        self._layout, self._model, self._reach = layout, model, model.reach
        self._type = model.reach.target if type_ is None else type_
        self._last = model.num_layers if level is None else level
        self.widths: Sequence[int] = model.level_widths[: self._last + 1]
        """Width of the vectors of each level; of level 0 that of the widest type."""
        self._sizes = [each.num_vertices for each in layout.graph.schema.types]

    def most(self) -> list[int]:
        """Rows of each level below the last at most: of all vertices of its types."""
        return [sum(self._sizes[t] for t in types) for types in self._reach.types[: self._last]]

    def needed(self, ids: NDArray[np.int64]) -> list[int]:
        """Rows of each level below the last that vectors of some layout ids of the type depend on."""
        needed = [np.zeros(size, np.bool_) for size in self._sizes]
        needed[self._type][ids] = True
        rows = []
        for layer in range(self._last, 0, -1):
            met = [each.copy() for each in needed]
            for relation in self._reach.relations[layer]:
                source, to = self._reach.ends[relation]
                self._mark(relation, needed[to], met[source])
            needed = met
            rows.append(sum(int(needed[t].sum()) for t in self._reach.types[layer - 1]))
        return rows[::-1]

    def _mark(self, relation: int, destinations: NDArray[np.bool_], met: NDArray[np.bool_]) -> None:
        """Mark the sources of the in-edges of some destinations."""
        edges = self._layout.graph.adjacencies[relation]
        for begin in range(0, len(destinations), ROWS_AT_ONCE):
            rows = destinations[begin : begin + ROWS_AT_ONCE]
            indptr = edges.indptr[begin : begin + len(rows) + 1]
            if rows.any():
                met[edges.indices[indptr[0] : indptr[-1]][np.repeat(rows, np.diff(indptr))]] = True

    def chunk_bytes(self, precision: Precision, trainers: int, max_edges: int = MAX_EDGES) -> int:
        """Bytes of a chunk of the layer and the type that take most, on the trainer with most edges, at most.

        Args:
            precision: in which the model is called.
            trainers: P.
            max_edges: of a chunk.
        """
        layers = range(1, self._last + 1)
        each = (
            self._chunk(layer, t, precision, trainers, max_edges)
            for layer in layers
            for t in self._reach.types[layer]
        )
        return max(each, default=0)

    def _chunk(self, layer: int, type_: int, precision: Precision, trainers: int, max_edges: int) -> int:
        """Bytes of a chunk of a layer whose destinations are of a type."""
        bounds = bounds_by_parts(self._layout.offsets_by_type[type_], trainers)
        into = [r for r in self._reach.relations[layer] if self._reach.ends[r][1] == type_]
        adjacencies = self._layout.graph.adjacencies
        indptr = sum((adjacencies[r].indptr for r in into), np.zeros(self._sizes[type_] + 1, np.int64))
        item = precision.rows.itemsize
        row_bytes = max(max(self._model.level_widths[layer - 1 :][:2]) * item, 1)
        edges = min(max_edges, max(1, MAX_ROW_BYTES // row_bytes), int(np.diff(bounds + indptr[bounds]).max()))
        destinations = most_together(indptr, bounds, edges)
        # Rows of sources, the widest types first; a destination is a source, too, and costs an edge.
        numbers, left = 0, edges
        for width, t in sorted(((self._numbers(layer, t), t) for t in self._reach.types[layer - 1]), reverse=True):
            rows = min(left, self._sizes[t])
            numbers, left = numbers + rows * width, left - rows
        conv: Any = self._model.convs[layer - 1]
        width = max(self._width_of_sums(layer), int(conv.out_features))
        sums = 4 * destinations * width * max(precision.dtype.itemsize, item)
        indptrs = 4 * len(adjacencies) * (destinations + 1)
        return (EDGE_BYTES + 8) * edges + indptrs + numbers * item + sums

    def _numbers(self, layer: int, type_: int) -> int:
        """Numbers of a source of a type that are there at a time, those that are made of its row among them."""
        model = self._model
        conv: Any = model.convs[layer - 1]
        of_all_relations: Mapping[int, list[int]] = getattr(conv, "projected", {})
        out: int = getattr(conv, "projected_features", conv.out_features)
        made = (1 + len(of_all_relations.get(type_, ()))) * out
        if layer > 1:
            return model.level_widths[layer - 1] + made
        features = self._layout.graph.features_by_type[type_]
        width = model.level_widths[0] if features is None else int(features.shape[1])
        return width + 2 * self._width_of_sums(1) * (model.projection is not None) + made

    def _width_of_sums(self, layer: int) -> int:
        """Width of the rows that a layer's convolution is given, at most."""
        projection: Any = self._model.projection
        if layer > 1 or projection is None:
            return self._model.level_widths[layer - 1]
        return max(int(linear.out_features) for linear in projection.values())
