"""From edges in any number to the adjacency of a store, in bounded memory.

The edges are read once and spilled to disk as they are; meanwhile the in-degrees are counted. Then they are sorted
into buckets, ranges of destinations with a bounded number of edges, on disk too; reverse edges follow all edges of
the source. Each bucket in turn is read and becomes rows of the adjacency (csrc/graph.cpp). In memory are some
arrays of N numbers, one piece of the edge list and one bucket.
"""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.bars import progress_bar
from gsplit.data.columns.rounding import Rounding, log_rounded
from gsplit.data.edge_history import ADDED
from gsplit.data.folders import FolderWriter
from gsplit.data.graph import Adjacency
from gsplit.data.importers.source import EDGES_AT_ONCE, EdgeChunk, GraphSource
from gsplit.data.links.held_out import Withheld
from gsplit.data.repeats import first_repeated, refusal, shown_edge
from gsplit.data.schema import VertexType
from gsplit.data.spill import INT32_VERTICES, Buckets, EdgeSpill
from gsplit.errors import InputError
from gsplit.limits import host_memory

BUCKET_EDGES = 1 << 23
"""Most edges of a bucket, unless a single vertex has more in-edges than that."""
VERTEX_BYTES = 40
"""Bytes that a vertex takes at the peak: degrees, offsets, marks."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """Steps that clean the edges of a source."""

    undirected: bool = False
    self_loops: Literal["keep", "drop", "add"] = "keep"
    duplicates: str = "first"
    """A rule of :mod:`gsplit.data.repeats`, resolved."""
    withheld: Withheld | None = None
    """Which edges are no message edges."""

    @property
    def weights(self) -> type:
        """Type of weights on disk: float32, but for rules that add them up."""
        return np.float64 if self.duplicates in ("sum", "mean", "count") else np.float32


@dataclass(kw_only=True)
class Tally:
    """Numbers of edges that the cleaning removed or added."""

    repeated: int = 0
    """Edges of the source that repeat another one."""
    self_loops: int = 0
    """Self-loops that were dropped."""
    reverses: int = 0
    """Reverse edges, now or before added: of the k-th edge u -> v, where the source has no k-th edge v -> u."""
    loops: int = 0
    """Self-loops that were added, now or before."""


def write_adjacency(
    writer: FolderWriter,
    source: GraphSource,
    num_vertices: int | None,
    cleaning: Cleaning,
    ends: tuple[VertexType, VertexType] | None = None,
) -> tuple[Adjacency, Tally]:
    """Write indptr, indices and, where there are such, edge_weight and added_degrees; return the edges and the tally.

    Neighbours stand in the order of the source, each at its first appearance, then those that an import before has
    added, those by reverse edges and the loop. Reverse edges of before are made anew with those of now.

    Args:
        num_vertices: N, of the destinations; None: the edges tell.
        cleaning: of the edges; between two types there are neither loops nor reverses.
        ends: types of sources and destinations, where vertices have types.

    Raises:
        InputError: for ids below 0 or from ``num_vertices`` on, weights that are not finite, no edges to tell the
            number of vertices from, or more vertices than fit in memory.
    """
    with tempfile.TemporaryDirectory(prefix="spill-", dir=writer.path) as name:
        folder = Path(name)
        weights = cleaning.weights if source.edges.weighted else None
        spill = EdgeSpill(folder)
        try:
            reader = _Reader(source, num_vertices, cleaning, ends)
            degrees = reader.read_into(spill)
            num_sources = len(degrees) if ends is None else ends[0].num_vertices
            buckets = _sort(spill, folder, degrees, num_sources, weights, cleaning)
        finally:
            spill.close()
        try:
            indptr = _write_rows(writer, source, buckets, degrees, num_sources, cleaning, reader.tally)
        finally:
            buckets.files.close()
    writer.save("indptr", indptr)
    weight = writer.mapped("edge_weight") if source.edges.weighted else None
    return Adjacency(indptr=indptr, indices=writer.mapped("indices"), edge_weight=weight), reader.tally


def check_num_vertices(vertices: int, where: str, other_ids: str = "") -> None:
    """Raise InputError where arrays of so many vertices, as one stray id can ask for, do not fit in memory."""
    if vertices * VERTEX_BYTES > host_memory().available_bytes:
        raise InputError(
            f"{where}: {vertices:,} vertices, by the largest id or --num-vertices, do not fit in memory; "
            f"number the vertices from 0 on without gaps{other_ids}"
        )


class _Reader:
    """Checks edges on their way into the spill, and counts them."""

    def __init__(
        self,
        source: GraphSource,
        num_vertices: int | None,
        cleaning: Cleaning,
        types: tuple[VertexType, VertexType] | None,
    ) -> None:
        self.tally = Tally()
        self._source = source
        self._n = num_vertices
        self._types = types
        self._cleaning = cleaning
        self._degrees = np.zeros(0, np.int64)
        self._largest = -1
        self._edges = 0
        self._rounding = Rounding(np.zeros(1, np.bool_))
        self._ends: tuple[NDArray[np.bool_], ...] = ()
        """Which vertices are sources, and which destinations, where these may be things of two kinds."""
        if source.edges.things is not None:
            self._ends = np.zeros(0, np.bool_), np.zeros(0, np.bool_)

    def read_into(self, spill: EdgeSpill) -> NDArray[np.int64]:
        """Spill all edges; return the in-degrees [N], reverse edges included."""
        if self._n is not None:
            self._grow(self._n)
        edges = self._source.edges
        with progress_bar(edges.count, "read edges") as bar:
            for chunk in edges.chunks():
                for begin in range(0, len(chunk.source), EDGES_AT_ONCE):
                    self._take(chunk, slice(begin, begin + EDGES_AT_ONCE), spill)
                bar.update(len(chunk.source))
        if self._n is None and self._largest < 0:
            raise InputError(f"{self._source.where}: no edges to tell the vertices from; give --num-vertices")
        self._say_what_is_both()
        _log_rounded(self._source, self._rounding)
        return self._degrees[: self._largest + 1] if self._n is None else self._degrees

    def _take(self, chunk: EdgeChunk, piece: slice, spill: EdgeSpill) -> None:
        source, destination = np.asarray(chunk.source[piece]), np.asarray(chunk.destination[piece])
        weight = None if chunk.weight is None else np.asarray(chunk.weight[piece])
        assert len(source) == len(destination)
        assert (weight is not None) == self._source.edges.weighted
        self._check(source, destination, weight)
        if weight is not None:
            exact, weight = weight, weight.astype(self._cleaning.weights, copy=False)
            self._rounding.add(exact[:, None], weight[:, None])
        largest = max(int(source.max()), int(destination.max()))
        if self._n is None and largest > self._largest:
            self._largest = largest
            self._grow(largest + 1)
        self._edges += len(source)
        for ids, are in zip((source, destination), self._ends, strict=False):
            are[ids] = True
        pairs = np.stack([source, destination], axis=1).astype(
            np.int32 if largest < INT32_VERTICES else np.int64, copy=False
        )
        if self._cleaning.withheld is not None:
            kept = ~self._cleaning.withheld.withhold(pairs)
            if not kept.all():
                pairs = pairs[kept]
                weight = None if weight is None else weight[kept]
        drops_loops, drops_others = self._cleaning.self_loops == "drop", chunk.added and self._cleaning.undirected
        if drops_loops or drops_others:
            loops = pairs[:, 0] == pairs[:, 1]
            self.tally.self_loops += int(loops.sum()) * drops_loops
            kept = np.where(loops, not drops_loops, not drops_others)
            pairs = pairs[kept]
            weight = None if weight is None else weight[kept]
        _core.count_in_degrees(pairs.reshape(-1), self._cleaning.undirected, self._degrees)
        spill.add(pairs, weight, largest, added=chunk.added)

    def _check(self, source: NDArray[Any], destination: NDArray[Any], weight: NDArray[Any] | None) -> None:
        if self._types is not None:
            for ids, each, end in zip((source, destination), self._types, ("source", "destination"), strict=True):
                outside = (ids < 0) | (ids >= each.num_vertices)
                if outside.any():
                    at, n = int(np.argmax(outside)), each.num_vertices
                    there = f"outside its vertices 0 .. {n - 1}" if n else "which has no vertices"
                    raise InputError(
                        f"{self._at(at)}: the {end} {ids[at]} is no vertex of the type {each.name!r}, {there}"
                    )
        limit = np.iinfo(np.int64).max if self._n is None else self._n
        bad = (source < 0) | (source >= limit) | (destination < 0) | (destination >= limit)
        if self._types is None and bad.any():
            at = int(np.argmax(bad))
            raise InputError(
                f"{self._at(at)}: {source[at]} -> {destination[at]} names a vertex "
                + (
                    f"below 0; ids count from 0{self._source.other_ids}"
                    if self._n is None
                    else f"outside the vertices 0 .. {self._n - 1}{self._told_by()}{self._source.other_ids}"
                )
            )
        if weight is not None and not (finite := _are_finite(weight)).all():
            at = int(np.argmin(finite))
            beyond = ", beyond float32" if np.isfinite(weight[at]) else ""
            raise InputError(f"{self._at(at)}: the weight is {weight[at]}{beyond}; clean the weights first")

    def _told_by(self) -> str:
        """Return what the number of vertices was taken from, where that is not plain."""
        source = self._source
        if source.num_vertices is not None or self._n is None:
            return ""
        for part, rows in (("features", source.features), ("labels", source.labels)):
            if rows is not None and rows.shape[0] == self._n:
                return f" ({source.call(part)} has {self._n} rows)"
        return ""

    def _at(self, position: int) -> str:
        return f"{self._source.where}: {self._source.edges.place(self._edges + position)}"

    def _grow(self, vertices: int) -> None:
        if vertices <= len(self._degrees):
            return
        check_num_vertices(vertices, self._source.where, self._source.other_ids)
        grown = np.zeros(vertices if self._n is not None else max(vertices, 2 * len(self._degrees)), np.int64)
        grown[: len(self._degrees)] = self._degrees
        self._degrees = grown
        self._ends = tuple(np.append(are, np.zeros(len(grown) - len(are), np.bool_)) for are in self._ends)

    def _say_what_is_both(self) -> None:
        """Tell how many vertices are sources and destinations where their columns are called two different things."""
        both = int(np.logical_and(*self._ends).sum()) if self._ends else 0
        if both and self._source.edges.things is not None:
            logger.info(
                "%s: %s ids are in the column %s and in %s, and are a vertex each; if these are things of two kinds, "
                "--ids any --bipartite tells them apart (or --source-prefix and --destination-prefix)",
                self._source.where,
                f"{both:,}",
                *self._source.edges.things,
            )


def _log_rounded(source: GraphSource, rounding: Rounding) -> None:
    way_out = "; subtract a constant, or --weight-column names another column if these are ids or times"
    log_rounded(source.where, rounding, lambda _: "weights of edges", way_out)


def _are_finite(weight: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which weights [n] float32 can hold."""
    with np.errstate(over="ignore"):
        return np.isfinite(weight.astype(np.float32, copy=False))


@dataclass(frozen=True, kw_only=True)
class _Sorted:
    files: Buckets
    own: NDArray[np.int64]
    """[B] how many edges of each bucket are the source's own; those of an import before follow them."""
    old: NDArray[np.int64]
    """[B] how many edges of each bucket are both; reverse edges follow them."""


def _sort(
    spill: EdgeSpill,
    folder: Path,
    degrees: NDArray[np.int64],
    num_sources: int,
    weights: type | None,
    cleaning: Cleaning,
) -> _Sorted:
    ends = np.cumsum(degrees)
    bounds = _bucket_bounds(ends)
    sizes = np.diff(np.concatenate([[0], ends])[bounds])
    dtype = np.int32 if max(len(degrees), num_sources) <= INT32_VERTICES else np.int64
    files = Buckets(folder, bounds, sizes, dtype, weights=weights)
    try:
        with progress_bar(int(sizes.sum()), "sort edges") as bar:
            for pairs, weight in spill.pieces():
                files.add(pairs, weight)
                bar.update(len(pairs))
            own = files.filled
            for pairs, weight in spill.pieces(added=True):
                files.add(pairs, weight)
                bar.update(len(pairs))
            old = files.filled
            for pairs, weight in spill.pieces() if cleaning.undirected else ():
                other = pairs[:, 0] != pairs[:, 1]
                files.add(pairs[other][:, ::-1], None if weight is None else weight[other])
                bar.update(int(other.sum()))
    except BaseException:
        files.close()
        raise
    spill.remove()
    return _Sorted(files=files, own=own, old=old)


def _bucket_bounds(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bounds of ranges of vertices with at most BUCKET_EDGES in-edges; ``ends`` [N] is the running sum of those."""
    bounds = [0]
    while bounds[-1] < len(ends):
        before = ends[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, before + BUCKET_EDGES, side="right"))))
    return np.array(bounds, np.int64)


def _write_rows(
    writer: FolderWriter,
    source: GraphSource,
    edges: _Sorted,
    degrees: NDArray[np.int64],
    num_sources: int,
    cleaning: Cleaning,
    tally: Tally,
) -> NDArray[np.int64]:
    n = len(degrees)
    indptr = np.zeros(n + 1, np.int64)
    rule = cleaning.duplicates
    repeats = getattr(_core.Repeats, {"count": "sum", "refuse": "first"}.get(rule, rule))
    seen = np.full(num_sources, -1, edges.files.dtype)
    refused: tuple[int, int] | None = None
    added_degrees = np.zeros(n, np.int64)
    rounding = Rounding(np.zeros(1, np.bool_))
    with ExitStack() as streams:
        indices_out = streams.enter_context(writer.stream("indices", edges.files.dtype))
        weighted = source.edges.weighted
        weight_out = streams.enter_context(writer.stream("edge_weight", np.float32)) if weighted else None
        bar = streams.enter_context(progress_bar(len(edges.own), "build rows"))
        for b in range(len(edges.own)):
            bar.update()
            begin, end = int(edges.files.bounds[b]), int(edges.files.bounds[b + 1])
            pairs, weight = edges.files.read(b)
            own = int(edges.own[b])
            kept, indices, weights, added, repeated, loops = _core.rows_from_edges(
                pairs,
                None if weight is None else weight.astype(np.float64, copy=False),
                own,
                int(edges.old[b]),
                begin,
                degrees[begin:end],
                seen,
                repeats,
                cleaning.self_loops == "add",
            )
            indptr[begin + 1 : end + 1] = kept
            indices_out.write(indices)
            if weight_out is not None:
                rounded = _rounded(source, weights, indices, kept, begin)
                if cleaning.weights is np.float64:
                    rounding.add(weights[:, None], rounded[:, None])
                weight_out.write(rounded)
            tally.repeated += repeated
            tally.reverses += int(added.sum()) - loops
            tally.loops += loops
            added_degrees[begin:end] = added
            if rule == "refuse" and repeated and refused is None:
                refused = first_repeated(pairs[: 2 * own].reshape(-1, 2))
    if refused is not None:
        raise InputError(refusal(source, refused, tally.repeated))
    _log_rounded(source, rounding)
    if most := int(added_degrees.max(initial=0)):
        writer.save(ADDED, added_degrees.astype(np.min_scalar_type(most)))
    return np.cumsum(indptr, out=indptr)


def _rounded(
    source: GraphSource, weights: NDArray[np.float64], indices: NDArray[Any], kept: NDArray[np.int64], begin: int
) -> NDArray[np.float32]:
    """The weights of the rows from ``begin`` on, as they are stored; InputError for one beyond float32."""
    with np.errstate(over="ignore"):
        rounded = weights.astype(np.float32)
    if np.isfinite(rounded).all():
        return rounded
    at = int(np.argmin(np.isfinite(rounded)))
    row = begin + int(np.searchsorted(np.cumsum(kept), at, side="right"))
    raise InputError(
        f"{source.where}: the weights of the edges {shown_edge(source, (int(indices[at]), row))} add up to more than "
        "float32 can hold; scale the weights"
    )
