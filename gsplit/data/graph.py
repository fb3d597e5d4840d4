"""The graph with all that belongs to it, as memory-mapped arrays; what stores and layouts have in common.

Shapes: N vertices, E edges, D features, C classes, or outputs of a regression.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data.labels.class_names import checked_names
from gsplit.data.links.edge_sets import Links, check_links
from gsplit.data.schema import Relation, Schema, VertexType
from gsplit.errors import InputError

VERTEX_SETS = ("train", "valid", "test")
INDEX_DTYPES = ("int32", "int64")
FEATURE_DTYPES = ("float32", "float16", "float64")
BOUNDED_BY = {"float16": "float16", "float32": "float32", "float64": "float32, in which models take float64 features"}
"""What features of each type must fit, for messages."""

Task = Literal["classes", "labels", "regression"]
"""Task: to learn one class of several, any number of labels, or numbers for each vertex."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The labels of N vertices, and which of them are to be learned, to choose by and to test."""

    labels: NDArray[Any]
    """[N] int64, -1 where unlabelled; or [N, C] float32, of 0 and 1 for multi-label, of any numbers for a regression;
    NaN where unlabelled."""
    train_idx: NDArray[np.int64]
    valid_idx: NDArray[np.int64]
    test_idx: NDArray[np.int64]
    num_classes: int
    """C, what a model has as outputs."""
    regression: bool = False
    """True where labels are numbers to be predicted, of which a vertex may lack some."""
    classes: tuple[str, ...] | None = None
    """[C] names of the classes; None where they have numbers alone."""

    @property
    def multi_label(self) -> bool:
        """True where a vertex may have several classes."""
        return self.task == "labels"

    @property
    def task(self) -> Task:
        """The task."""
        return "regression" if self.regression else "labels" if self.labels.ndim == 2 else "classes"

    def vertex_set(self, name: str) -> NDArray[np.int64]:
        """The vertices of ``train``, ``valid`` or ``test``."""
        return {"train": self.train_idx, "valid": self.valid_idx, "test": self.test_idx}[name]


@dataclass(frozen=True, kw_only=True)
class Adjacency:
    """The edges of a relation, by destination: E from N_s vertices to N_d."""

    indptr: NDArray[np.int64]
    """[N_d + 1] int64: the in-neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``."""
    indices: NDArray[Any]
    """[E] int32 or int64: ids in the type of the sources."""
    edge_weight: NDArray[np.float32] | None
    """[E] float32 weights of the edges, or None."""


@dataclass(frozen=True, kw_only=True)
class GraphArrays(Labelled):
    """The arrays of a graph, in the order of their folder (global ids in a store, layout ids in a layout).

    Examples:
        >>> graph = gsplit.data.open_store("graph").graph
        >>> graph.indices[graph.indptr[7] : graph.indptr[8]].tolist()  # of a cycle: the in-neighbours of vertex 7
        [6]
    """

    typed: ClassVar[bool] = False
    """True where there are several types, each with ids and files of its own."""

    indptr: NDArray[np.int64]
    """[N + 1] int64: the in-neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``."""
    indices: NDArray[Any]
    """[E] int32 or int64: the in-neighbours of all vertices, vertex after vertex."""
    features: NDArray[Any] | None
    """[N, D] float32, float16 or float64; None for a topology only."""
    edge_weight: NDArray[np.float32] | None
    """[E] float32 weights of the edges, or None."""
    links: Links | None = None
    """Pairs of vertices that belong together, by set, in global ids; None where there are none."""

    @cached_property
    def schema(self) -> Schema:
        """The types of vertices and the relations between them: one each here."""
        return Schema((VertexType("vertex", self.num_vertices),), (Relation("vertex", "edge", "vertex"),))

    @cached_property
    def target(self) -> int:
        """The number of the type that has labels and vertex sets."""
        return 0

    @cached_property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """The edges by number of the relation."""
        return (Adjacency(indptr=self.indptr, indices=self.indices, edge_weight=self.edge_weight),)

    @cached_property
    def features_by_type(self) -> tuple[NDArray[Any] | None, ...]:
        """The features by number of the type."""
        return (self.features,)

    @property
    def num_vertices(self) -> int:
        """N."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """E: directed edges."""
        return len(self.indices)

    @property
    def num_features(self) -> int:
        """D: columns of the features, 0 where there are none."""
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def in_words(self) -> str:
        """How large it is."""
        return f"{self.num_vertices:,} vertices, {self.num_edges:,} directed edges, {self.num_features:,} features"

    @property
    def is_for_links(self) -> bool:
        """True where pairs of vertices are there to be learned, and no training vertices."""
        return self.links is not None and not len(self.train_idx)

    def with_feature_dtype(self, dtype: str) -> GraphArrays:
        """The same graph with features in ``float32``, ``float16`` or ``float64``."""
        return self if self.features is None else replace(self, features=cast(self.features, dtype))


def row_ranges(indptr: NDArray[np.int64], at_once: int) -> Iterator[tuple[int, int]]:
    """Bounds (begin, end) of ranges of rows: at most ``at_once`` rows and edges, or one row with more edges."""
    begin, n = 0, len(indptr) - 1
    while begin < n:
        end = int(np.searchsorted(indptr, indptr[begin] + at_once, side="right")) - 1
        end = min(max(end, begin + 1), begin + at_once, n)
        yield begin, end
        begin = end


def slots(begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``begins[i], begins[i] + 1, ...`` of ``counts[i]`` numbers each, one run after another."""
    firsts = np.cumsum(counts) - counts
    return np.repeat(begins - firsts, counts) + np.arange(int(counts.sum()))


def cast(features: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Features in another type; what does not fit becomes infinite, which writing a store refuses.

    Of float64 that is what float32 does not reach, as rows are loaded in the type in which a model computes.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows = features.astype(dtype)
        if rows.dtype == np.float64:
            large = np.abs(rows) > np.finfo(np.float32).max
            rows[large] = np.copysign(np.inf, rows[large])
    return rows


def check_graph(graph: GraphArrays, where: str) -> None:
    """Check what no shape can tell: id ranges, monotone indptr, names of classes, labels of the vertex sets, links.

    Reads indptr, indices, labels, vertex sets and links once; not the features.

    Raises:
        InputError: naming ``where``, the array and the first bad entry.
    """
    target = graph.schema.types[graph.target]
    if not target.num_vertices:
        what = f"type {target.name!r} has labels, but" if graph.typed else "graph has"
        raise InputError(f"{where}: the {what} no vertices")
    for number, edges in enumerate(graph.adjacencies):
        sources = graph.schema.types[graph.schema.ends(number)[0]]
        check_adjacency(edges.indptr, edges.indices, sources.num_vertices, relation_in(graph, number, where))
    if graph.classes is not None:
        checked_names(graph.classes, graph.num_classes, where)
    check_vertex_sets(graph, target.num_vertices, type_in(graph, graph.target, where))
    if graph.links is not None:
        check_links(graph.links, graph.num_vertices, graph.num_edges, where)


def type_in(graph: GraphArrays, number: int, where: str) -> str:
    """Return what messages call a type of a graph, or the graph where it has but one."""
    return f"{where}: type {graph.schema.types[number].name}" if graph.typed else where


def relation_in(graph: GraphArrays, number: int, where: str) -> str:
    """Return what messages call a relation of a graph, or the graph where it has but one."""
    return f"{where}: relation {graph.schema.relations[number]}" if graph.typed else where


def check_adjacency(indptr: NDArray[np.int64], indices: NDArray[Any], num_sources: int, where: str) -> None:
    """Raise InputError unless ``indptr`` ascends from 0 to the number of ``indices``, ids of so many vertices."""
    if indptr[0] != 0 or indptr[-1] != len(indices):
        raise InputError(
            f"{where}: indptr must run from 0 to the {len(indices)} edges, not from {indptr[0]} to {indptr[-1]}"
        )
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise InputError(f"{where}: indptr falls from {indptr[at]} to {indptr[at + 1]} at vertex {at}")
    check_ids(indices, num_sources, "indices", lambda _: where)


def check_vertex_sets(
    graph: Labelled,
    n: int,
    where: str,
    entry: Callable[[str, int], str] | None = None,
    shown: Callable[[int], str] = str,
) -> None:
    """Check the vertex sets and the labels of their vertices: the part of :func:`check_graph` that needs no edges.

    Args:
        entry: what messages call the i-th vertex of a set in place of that: the line of its file.

    Raises:
        InputError: naming ``where`` or the entry, the set and its first bad vertex.
    """
    if graph.num_classes < 0:
        raise InputError(f"{where}: the number of classes is {graph.num_classes}")
    for name in VERTEX_SETS:
        ids = graph.vertex_set(name)
        at = partial(entry or (lambda *_: where), name)
        check_ids(ids, n, f"{name}_idx", at)
        _, once = np.unique(ids, return_index=True)
        if len(once) != len(ids):
            again = int(np.setdiff1d(np.arange(len(ids)), once)[0])
            raise InputError(f"{at(again)}: {name}_idx lists a vertex twice: {shown(int(ids[again]))}")
        if (mistake := (_wrong_number if graph.regression else _wrong_label)(graph, ids, shown)) is not None:
            index, text = mistake
            raise InputError(f"{at(index)}: the {name} set has {text}")
    for first, second in combinations(VERTEX_SETS, 2):
        both = np.intersect1d(graph.vertex_set(first), graph.vertex_set(second), assume_unique=True)
        if len(both):
            logger.warning("%s: %d vertices are in both the %s and the %s set", where, len(both), first, second)


def check_ids(ids: NDArray[Any], n: int, what: str, at: Callable[[int], str]) -> None:
    """Raise InputError for the first of the ids [n] that is no vertex; ``at`` is what messages call the i-th."""
    if len(ids) and (ids.min() < 0 or ids.max() >= n):
        index = int(np.argmax((ids < 0) | (ids >= n)))
        raise InputError(f"{at(index)}: {what}[{index}] is {ids[index]}, outside the vertices 0 .. {n - 1}")


def _wrong_label(graph: Labelled, ids: NDArray[np.int64], shown: Callable[[int], str]) -> tuple[int, str] | None:
    """The first of the vertices [n] of a set whose label is no class, or missing, and what a message says of it."""
    own = graph.labels[ids]
    if own.ndim == 1:
        bad, lacking = (own < -1) | (own >= graph.num_classes), own == -1
    else:
        bad, lacking = ~((own == 0) | (own == 1) | np.isnan(own)).all(axis=1), np.isnan(own).any(axis=1)
    if bad.any():
        index = int(np.argmax(bad))
        if own.ndim == 1:
            rule, hint = f"a label outside 0 .. {graph.num_classes - 1}", f": {own[index]}"
        else:
            rule = "labels other than 0 and 1"
            hint = "" if np.isinf(own[index]).any() else "; --task regression takes any numbers"
        return index, f"{rule} at vertex {shown(int(ids[index]))}{hint}"
    if not lacking.any():
        return None
    index, others = int(np.argmax(lacking)), int(np.count_nonzero(lacking)) - 1
    several = f" (nor have {others:,} others of its {len(ids):,})" if others else ""
    return index, (
        f"vertex {shown(int(ids[index]))}, which has no label{several}; label it, or take it out of the set"
    )


def _wrong_number(graph: Labelled, ids: NDArray[np.int64], shown: Callable[[int], str]) -> tuple[int, str] | None:
    """The same of the numbers of a regression, of which a vertex may lack some, but not all may all."""
    own = graph.labels[ids]
    infinite = np.isinf(own).any(axis=1)
    if infinite.any():
        index = int(np.argmax(infinite))
        return index, f"an infinite label at vertex {shown(int(ids[index]))}"
    if len(ids) and np.isnan(own).all():
        return 0, f"no label at all: those of its {len(ids)} vertices are NaN"
    return None
