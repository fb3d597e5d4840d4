"""A graph of several types of vertices and relations between them, as memory-mapped arrays.

Each type has ids 0 .. N_t - 1 of its own, each relation an adjacency of its own; there is no id of a vertex without
its type. Labels and vertex sets are those of one type, the target. Files have the number of the type or relation in
their names (docs/formats.md, "Several types").

Shapes: N_t vertices of type t with D_t features, E_r edges of relation r from type s to type d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.description import open_array
from gsplit.data.graph import (
    FEATURE_DTYPES,
    INDEX_DTYPES,
    VERTEX_SETS,
    Adjacency,
    GraphArrays,
    check_adjacency,
    check_graph,
    check_vertex_sets,
    open_arrays,
    open_labelled,
)
from gsplit.data.labels.class_names import checked_names
from gsplit.data.schema import Relation, Schema, VertexType
from gsplit.errors import InputError

TYPED = 3
"""Version of the description of a graph of several types."""
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


def described(graph: TypedGraph) -> dict[str, Any]:
    """Return what a description says of a typed graph beside its arrays."""
    relations = zip(graph.schema.relations, graph.adjacencies, strict=True)
    return {
        "types": [
            {"name": each.name, "vertices": each.num_vertices, "features": None if rows is None else rows.shape[1]}
            for each, rows in zip(graph.schema.types, graph.features_by_type, strict=True)
        ],
        "relations": [
            {
                "source": each.source,
                "name": each.name,
                "destination": each.destination,
                "edges": len(edges.indices),
                "weighted": edges.edge_weight is not None,
            }
            for each, edges in relations
        ],
        "target": graph.schema.types[graph.target].name,
        "num_classes": graph.num_classes,
        "multi_label": graph.multi_label,
        "regression": graph.regression,
        **({} if graph.classes is None else {"classes": list(graph.classes)}),
    }


def open_graph(folder: Path, description: dict[str, Any], *, typed: bool) -> GraphArrays:
    """Map the arrays of a folder, of one type or of several; their contents :func:`check_any_graph` checks.

    Raises:
        InputError: where an array is missing or not as described, or there are several types and the caller takes
            but one.
    """
    if description["version"] != TYPED:
        return open_arrays(folder, description)
    graph = _open_typed(folder, description)
    if not typed:
        names = ", ".join(graph.schema.type_names[:4])
        raise InputError(
            f"{folder} has several types of vertices, or relations ({names}), which this does not take yet"
        )
    return graph


def check_any_graph(graph: GraphArrays, where: str) -> None:
    """Check what no shape can tell of a graph of one type or of several.

    Raises:
        InputError: naming ``where``, the array and the first bad entry.
    """
    if isinstance(graph, TypedGraph):
        check_typed_graph(graph, where)
    else:
        check_graph(graph, where)


def _open_typed(folder: Path, description: dict[str, Any]) -> TypedGraph:
    try:
        types, relations = description["types"], description["relations"]
        counts = [description["num_classes"]]
        counts += [each["vertices"] for each in types] + [each["edges"] for each in relations]
        counts += [0 if each["features"] is None else each["features"] for each in types]
        if any(type(count) is not int or count < 0 for count in counts):
            raise TypeError
        schema = Schema(
            tuple(VertexType(str(each["name"]), each["vertices"]) for each in types),
            tuple(Relation(*(str(each[key]) for key in ("source", "name", "destination"))) for each in relations),
        )
        target = schema.type_number(str(description["target"]))
        widths = [each["features"] for each in types]
        edges = [(each["edges"], each["weighted"] is True) for each in relations]
    except (KeyError, TypeError):
        raise InputError(f"{folder}: the description is damaged where it lists types and relations") from None
    except InputError as error:
        raise InputError(f"{folder}: the description is damaged: {error}") from None

    def adjacency(number: int) -> Adjacency:
        count, weighted = edges[number]
        n = schema.types[schema.ends(number)[1]].num_vertices
        return Adjacency(
            indptr=open_array(folder, f"indptr.{number}", description, ("int64",), (n + 1,)),
            indices=open_array(folder, f"indices.{number}", description, INDEX_DTYPES, (count,)),
            edge_weight=open_array(folder, f"edge_weight.{number}", description, ("float32",), (count,))
            if weighted
            else None,
        )

    return TypedGraph(
        schema=schema,
        target=target,
        adjacencies=tuple(adjacency(number) for number in range(len(relations))),
        features_by_type=tuple(
            None
            if width is None
            else open_array(folder, f"features.{number}", description, FEATURE_DTYPES, (each.num_vertices, width))
            for number, (each, width) in enumerate(zip(schema.types, widths, strict=True))
        ),
        **vars(open_labelled(folder, description, schema.types[target].num_vertices, f".{target}")),
    )


def check_typed_graph(graph: TypedGraph, where: str) -> None:
    """Check what no shape can tell: id ranges, monotone indptr, names of classes, labels of the vertex sets.

    Raises:
        InputError: naming ``where``, the relation or set and the first bad entry.
    """
    for number, (relation, each) in enumerate(zip(graph.schema.relations, graph.adjacencies, strict=True)):
        source = graph.schema.types[graph.schema.ends(number)[0]]
        check_adjacency(each.indptr, each.indices, source.num_vertices, f"{where}: relation {relation}")
    target = graph.schema.types[graph.target]
    if not target.num_vertices:
        raise InputError(f"{where}: the type {target.name!r} has labels, but no vertices")
    if graph.classes is not None:
        checked_names(graph.classes, graph.num_classes, where)
    check_vertex_sets(graph, target.num_vertices, f"{where}: type {target.name}")
