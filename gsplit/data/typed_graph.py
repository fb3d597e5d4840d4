"""A graph of several types of vertices and relations between them, as memory-mapped arrays.

Each type has ids 0 .. N_t - 1 of its own, each relation an adjacency of its own; there is no id of a vertex without
its type. Labels and vertex sets are those of one type, the target. Files have the number of the type or relation in
their names (docs/formats.md, "Several types").

Shapes: N_t vertices of type t with D_t features, E_r edges of relation r from type s to type d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS, Adjacency, GraphArrays
from gsplit.data.schema import Schema
from gsplit.errors import InputError

OF_ONE_TYPE = ("indptr", "indices", "edge_weight", "features")
"""Arrays that a graph of several types has by type, or by relation."""


@dataclass(frozen=True, kw_only=True)
class TypedGraph(GraphArrays):
    """A graph of several types. Labels and vertex sets are of the type ``target``, in its ids.

    What only a graph of one type has, such as ``indptr``, raises :class:`~gsplit.errors.InputError`.

    Examples:
        >>> writes = {("author", "writes", "paper"): [[0, 1, 1], [0, 0, 1]]}
        >>> graph = gsplit.from_arrays({"paper": np.eye(2), "author": 2}, writes, labels={"paper": [0, 1]}).graph
        >>> [each.name for each in graph.schema.types], graph.adjacencies[0].indices
        (['paper', 'author'], array([0, 1, 1], dtype=int32))
    """

    typed: ClassVar[bool] = True

    schema: Schema
    target: int
    adjacencies: tuple[Adjacency, ...]
    features_by_type: tuple[NDArray[Any] | None, ...]

    indptr: NDArray[np.int64] = field(init=False, repr=False)
    indices: NDArray[Any] = field(init=False, repr=False)
    edge_weight: NDArray[np.float32] | None = field(init=False, repr=False)
    features: NDArray[Any] | None = field(init=False, repr=False)

    def __getattr__(self, name: str) -> Any:
        """Refuse what only a graph of one type has."""
        if name in OF_ONE_TYPE:
            raise InputError(f"a graph of several types has no {name}: each type, or relation, has its own")
        raise AttributeError(name)

    @property
    def in_words(self) -> str:
        """How large it is."""
        vertices = ", ".join(f"{each.num_vertices:,} {each.name}" for each in self.schema.types)
        edges = sum(len(each.indices) for each in self.adjacencies)
        return f"{vertices}; {edges:,} directed edges of {len(self.adjacencies)} relations"

    def joint(self) -> GraphArrays:
        """The graph of all vertices, type after type, and the edges of all relations: what is partitioned.

        It lies in memory. Its labels are all -1; vertex sets are those of the target.
        """
        begins, indptr = self._joint_rows()
        n = int(begins[-1])
        sources = [begins[self.schema.ends(number)[0]] for number in range(len(self.adjacencies))]
        shifted = [each.indices + begin for each, begin in zip(self.adjacencies, sources, strict=True)]
        return GraphArrays(
            indptr=indptr,
            indices=self.joint_edges(shifted, np.int32 if n < 2**31 else np.int64),
            features=None,
            edge_weight=None,
            labels=np.full(n, -1, np.int64),
            num_classes=0,
            **{f"{name}_idx": self.vertex_set(name) + begins[self.target] for name in VERTEX_SETS},
        )

    def joint_edges(self, values: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        """What each edge has, [E_r] by relation, in the order of the edges of the joint graph."""
        begins, indptr = self._joint_rows()
        found, filled = np.empty(indptr[-1], dtype), indptr[:-1].copy()
        for number, (each, own) in enumerate(zip(self.adjacencies, values, strict=True)):
            to = self.schema.ends(number)[1]
            rows, degrees = slice(begins[to], begins[to + 1]), np.diff(each.indptr)
            found[np.arange(len(own)) + np.repeat(filled[rows] - each.indptr[:-1], degrees)] = own
            filled[rows] += degrees
        return found

    def _joint_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the types begin among all vertices [T + 1], and the rows of the joint graph [N + 1]."""
        begins = np.cumsum([0, *(each.num_vertices for each in self.schema.types)])
        degrees = np.zeros(begins[-1], np.int64)
        for number, each in enumerate(self.adjacencies):
            to = self.schema.ends(number)[1]
            degrees[begins[to] : begins[to + 1]] += np.diff(each.indptr)
        return begins, np.concatenate([[0], np.cumsum(degrees)])
