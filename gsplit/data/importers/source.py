"""The result of an importer: edges in chunks, rows in chunks, labels and vertex sets.

An importer only reads. Cleaning edges, building the adjacency and writing the store are the same for all of them
(:mod:`gsplit.data.build`), and neither edges nor features have to fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import Assembled
from gsplit.data.edge_history import EdgeHistory
from gsplit.data.graph import VERTEX_SETS, GraphArrays
from gsplit.data.ids.vertex_ids import KeepsIds
from gsplit.data.importers.tables.text_rules import TableRules
from gsplit.data.labels.vertex_sets import Times
from gsplit.data.links.edge_sets import Links
from gsplit.data.schema import Relation, Schema, VertexType
from gsplit.data.typed_graph import TypedGraph
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class EdgeChunk:
    """Some edges, in the order of the source."""

    source: NDArray[Any]
    """[n] int32 or int64 global ids."""
    destination: NDArray[Any]
    """[n] int32 or int64 global ids."""
    weight: NDArray[Any] | None = None
    """[n] numbers, or None."""
    added: bool = False
    """True for reverse edges and loops that an import added: edges of a source come before them."""


@dataclass(frozen=True, kw_only=True)
class EdgeChunks:
    """Directed edges that can be read more than once."""

    chunks: Callable[[], Iterator[EdgeChunk]]
    """Function that reads the edges from the beginning at each call, or raises InputError naming file and position of
    a bad edge."""
    weighted: bool = False
    counts: bool = False
    """True where weights are numbers of equal edges."""
    count: int | None = None
    """Number of edges, where that is known before reading (for the progress bar)."""
    things: tuple[str, str] | None = None
    """What sources and destinations are called, where that is no usual name: they may be things of two kinds."""
    place: Callable[[int], str] = "edge {}".format
    """Name of the i-th edge of the chunks in messages, counted from 0: its line in a text."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A matrix read from top to bottom, for features too large for memory."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunks: Callable[[], Iterator[NDArray[Any]]]
    """Function that reads the rows from the beginning, [n, D] at a time; together they have the shape's rows."""


@dataclass(frozen=True, kw_only=True)
class GraphSource:
    """A graph as an importer found it, in global ids."""

    name: str
    edges: EdgeChunks
    num_vertices: int | None
    """Number of vertices; None: one more than the largest id in the edges."""
    features: NDArray[Any] | Rows | Assembled | None = None
    """[N, D] numbers; an array may be memory-mapped."""
    columns: tuple[dict[str, Any], ...] = ()
    """Columns that an array of features was made of, as ``graph.json`` has them, where it was a store's."""
    labels: NDArray[Any] | None = None
    """[N] numbers (-1 or NaN: unlabelled) or [N, C] (multi-label); of a regression any, but NaN for unlabelled."""
    num_classes: int | None = None
    """Number of classes; None: as many as have names, or one more than the largest label."""
    least_classes: int = 0
    """Fewest classes: those of a store that grows count also where nobody has them any more."""
    classes: tuple[str, ...] | None = None
    """[C] names of the classes, in the order of their numbers: distinct texts; None where there are none."""
    labels_are_names: bool = False
    """True where the labels were read as names, or lists, of classes, so that their numbers mean nothing."""
    labels_are_lists: bool = False
    """True where each vertex has a list of classes, of which some may be in no list."""
    vertex_sets: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """Vertices by the name of the set, of ``VERTEX_SETS``; empty where the source has none."""
    links: Links | None = None
    """Pairs that belong together, in any order, each row of candidates with its pair; None where there are none."""
    link_facts: dict[str, Any] = field(default_factory=dict)
    """What ``graph.json`` of a store says of them beside their numbers."""
    row_edges: EdgeChunks | None = None
    """The edges in the order of rows of hard negatives, where this is another than that of the edges."""
    edge_times: Times | None = None
    """When each edge was, in the order of the edges, to split pairs by."""
    hard_pairs: NDArray[np.int64] | None = None
    """[n, 2] sources of training pairs, each with a destination that does not belong to it."""
    where: str = ""
    """Name of the source in messages: its path."""
    called: dict[str, str] = field(default_factory=dict)
    """Names in messages of features, labels, train, valid or test where they have a file of their own."""
    maybe_header: Path | None = None
    """A table whose rows tell the number of vertices, and whose first, 0, 1, ..., may be pandas' header."""
    times: Times | None = None
    """When each vertex was, to split them by."""
    ids: KeepsIds | None = None
    """Ids of the vertices, where they are not 0 .. N-1."""
    other_ids: str = ""
    """Addition to messages where ids are not those of vertices that count from 0."""
    places: dict[str, Callable[[int], str]] = field(default_factory=dict)
    """Name in messages of the i-th vertex of a vertex set in that file, counted from 0: its line in a text."""
    table_rules: TableRules = TableRules()  # noqa: RUF009 (frozen)
    """Rules by which its tables were read: they hold for those to come."""
    edge_history: EdgeHistory | None = EdgeHistory()  # noqa: RUF009 (frozen)
    """What became of repeated edges before; None where that is not known."""
    grown_from: tuple[str, ...] = ()
    """Checksums of the stores whose vertices are the first of these, with the same numbers, the oldest first."""
    as_is: bool = False
    """True for a finished adjacency of our own, whose duplicate edges stay unless the user chooses otherwise."""

    def call(self, part: str) -> str:
        """Return what messages call ``features``, ``labels``, or a vertex set."""
        return self.called.get(part, f"{self.where}: {part}")

    def entry(self, name: str, index: int) -> str:
        """Return what messages call the i-th vertex of a set: its file and the place in it, where it has one."""
        whole, place = self.called.get(name, self.where), self.places.get(name)
        return whole if place is None else f"{whole}, {place(index)}"

    def row(self, name: str, index: int) -> str:
        """Return what messages call the i-th row of an array of links, by the name of its file in a store."""
        return self.entry(name, index) if name in self.places else f"{self.call(name)}[{index}]"


NO_EDGES = EdgeChunks(chunks=lambda: iter(()), count=0)


@dataclass(frozen=True, kw_only=True)
class TypedSource(GraphSource):
    """A graph of several types as an importer found it, in the ids of each type; it has a name and a place alone."""

    edges: EdgeChunks = NO_EDGES
    num_vertices: int | None = None
    types: Mapping[str, GraphSource]
    """The vertices of each type, by its name: graphs with ``NO_EDGES`` whose number of vertices is known."""
    relations: Mapping[Relation, EdgeChunks]

    @property
    def schema(self) -> Schema:
        """The types and relations.

        Raises:
            InputError: where they do not fit each other.
        """
        counts = {name: each.num_vertices for name, each in self.types.items()}
        types = tuple(VertexType(name, count) for name, count in counts.items() if count is not None)
        assert len(types) == len(counts)
        try:
            return Schema(types, tuple(self.relations))
        except InputError as error:
            raise InputError(f"{self.where}: {error}") from None


EDGES_AT_ONCE = 1 << 22


def array_edges(
    source: NDArray[Any],
    destination: NDArray[Any],
    weight: NDArray[Any] | None = None,
    place: Callable[[int], str] = "edge {}".format,
) -> EdgeChunks:
    """The edges of two arrays [E] (memory-mapped ones are read piece by piece), with weights [E] or none."""

    def chunks() -> Iterator[EdgeChunk]:
        for begin in range(0, len(source), EDGES_AT_ONCE):
            piece = slice(begin, begin + EDGES_AT_ONCE)
            yield EdgeChunk(
                source=source[piece], destination=destination[piece], weight=None if weight is None else weight[piece]
            )

    return EdgeChunks(chunks=chunks, weighted=weight is not None, count=len(source), place=place)


def csc_edges(indptr: NDArray[Any], indices: NDArray[Any], weight: NDArray[Any] | None = None) -> EdgeChunks:
    """The edges of a CSC adjacency (in-neighbours of v: ``indices[indptr[v]:indptr[v + 1]]``), row after row.

    ``indptr`` [N + 1] must ascend from 0 to the length of ``indices``; that is the caller's to check.
    """

    def chunks() -> Iterator[EdgeChunk]:
        for begin in range(0, len(indices), EDGES_AT_ONCE):
            end = min(begin + EDGES_AT_ONCE, len(indices))
            first, last = np.searchsorted(indptr, [begin, end - 1], side="right") - 1
            # Only the part of each row that lies in this piece.
            bounds = np.clip(indptr[first : last + 2], begin, end)
            yield EdgeChunk(
                source=indices[begin:end],
                destination=np.repeat(np.arange(first, last + 1), np.diff(bounds)),
                weight=None if weight is None else weight[begin:end],
            )

    return EdgeChunks(chunks=chunks, weighted=weight is not None, count=len(indices))


def graph_source(name: str, graph: GraphArrays, where: str) -> GraphSource:
    """A graph that is in memory already, of one type or several, as a source."""
    if isinstance(graph, TypedGraph):
        return _typed_source(name, graph, where)
    source = GraphSource(
        name=name,
        edges=csc_edges(graph.indptr, graph.indices, graph.edge_weight),
        num_vertices=graph.num_vertices,
        features=graph.features,
        links=graph.links,
        where=where,
        as_is=True,
    )
    return _labelled(source, graph)


def _labelled(source: GraphSource, graph: GraphArrays) -> GraphSource:
    """A source of vertices with the labels and vertex sets that a graph has for them."""
    return replace(
        source,
        labels=graph.labels,
        num_classes=graph.num_classes,
        classes=graph.classes,
        vertex_sets={name: ids for name in VERTEX_SETS if len(ids := graph.vertex_set(name))},
    )


def _typed_source(name: str, graph: TypedGraph, where: str) -> TypedSource:
    """A graph of several types as a source."""
    types = {
        each.name: GraphSource(
            name=name,
            edges=NO_EDGES,
            num_vertices=each.num_vertices,
            features=rows,
            where=f"{where}: type {each.name}",
            as_is=True,
        )
        for each, rows in zip(graph.schema.types, graph.features_by_type, strict=True)
    }
    target = graph.schema.types[graph.target].name
    types[target] = _labelled(types[target], graph)
    relations = {
        relation: csc_edges(each.indptr, each.indices, each.edge_weight)
        for relation, each in zip(graph.schema.relations, graph.adjacencies, strict=True)
    }
    return TypedSource(name=name, where=where, types=types, relations=relations)


def reverse_edges(edges: EdgeChunks) -> EdgeChunks:
    """The same edges the other way round."""

    def chunks() -> Iterator[EdgeChunk]:
        for chunk in edges.chunks():
            yield replace(chunk, source=chunk.destination, destination=chunk.source)

    return replace(edges, chunks=chunks)
