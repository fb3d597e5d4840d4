"""Parts that a grown store keeps: old vertices stay where a layout has them, new ones come beside their neighbours.

New vertices are placed by passes of :mod:`gsplit.partition.methods.restream` over their own edges, in and out; no
other edge is looked at, so it takes the memory of those. N vertices, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data import GraphStore, Layout, open_layout
from gsplit.data.append import grown_from
from gsplit.data.graph import GraphArrays, row_ranges
from gsplit.data.npy import forget
from gsplit.data.store import FILE
from gsplit.errors import InputError
from gsplit.partition.methods.restream import EDGES_AT_ONCE
from gsplit.partition.methods.streaming import stream
from gsplit.partition.problem import LEFT_OUT, Footprint, Problem

MEMORY = Footprint(per_adjacency=0, per_weighted_adjacency=4, per_vertex=40)
FALL = 0.02
"""Fall of the share of local edges below that of the last cut from which on a new one is recommended."""
MANY_PLACED = 0.25
"""Share of vertices placed since the last cut from which a new one is recommended, too (docs/development/log.md)."""


@dataclass(frozen=True, kw_only=True)
class KeptParts:
    """The layout that is kept."""

    layout: Layout
    part: NDArray[np.int32]
    """[N] part of each vertex of the grown store, ``LEFT_OUT`` of new ones."""
    cut_local_edges: float
    """Share of local edges when parts were last cut."""
    cut_vertices: int
    """Number of vertices that were cut then."""

    @property
    def vertices(self) -> int:
        """Number of vertices that stay."""
        return self.layout.graph.num_vertices

    def described(self, graph: GraphArrays, assignment: NDArray[np.int32]) -> dict[str, Any]:
        """Return what a new layout says of it.

        Args:
            graph: the grown one.
            assignment: the part of each of its vertices, [N].
        """
        quality = self.layout.description["quality"]
        before = ("local_edges", "balance_vertices", "balance_edges", "balance_train_targets")
        return {
            "layout": self.layout.checksum,
            "vertices": self.vertices,
            **{key: quality[key] for key in before},
            "new_local_edges": local_share(graph, assignment, self.vertices),
            "cut_local_edges": self.cut_local_edges,
            "cut_vertices": self.cut_vertices,
        }


def read_kept(path: Path, store: GraphStore, parts: int | None) -> KeptParts:
    """Open the layout that a grown store keeps.

    Args:
        path: the layout.
        store: what it is to be kept for.
        parts: how many were asked for; None: as many as there are.

    Raises:
        InputError: for a damaged layout, one of a store that this one was not grown from, or other parts than its.
    """
    layout = open_layout(path)
    n, there = store.graph.num_vertices, layout.graph.num_vertices
    before = (*grown_from(store.description, str(store.path / FILE)), store.checksum)
    if layout.store_checksum not in before or there > n:
        raise InputError(
            f"--keep {path}: {store.path} was not grown from the store of that layout; gsplit import OLD --add does "
            "that, or partition anew without --keep"
        )
    if parts not in (None, layout.parts):
        raise InputError(f"--parts {parts}: {path} has {layout.parts} parts, which --keep keeps; drop --parts")
    part = np.full(n, LEFT_OUT, np.int32)
    part[layout.permutation] = np.repeat(np.arange(layout.parts, dtype=np.int32), np.diff(layout.offsets))
    try:
        quality, kept = layout.description["quality"], layout.description.get("kept")
        cut = quality["local_edges"], there
        if kept is not None:
            cut = kept["cut_local_edges"], kept["cut_vertices"]
        cut_local_edges, cut_vertices = float(cut[0]), int(cut[1])
        for key in ("balance_vertices", "balance_edges", "balance_train_targets"):
            float(quality[key])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path} is damaged where it says how good the partition is") from None
    return KeptParts(layout=layout, part=part, cut_local_edges=cut_local_edges, cut_vertices=cut_vertices)


def assign(problem: Problem) -> NDArray[np.int32]:
    """Part of each vertex, int32 [N]: as given, and for those left out beside their neighbours, if there is room."""
    assert problem.given is not None
    new = problem.given == LEFT_OUT
    if not new.any():
        return problem.given
    indptr, indices, edge_weight = neighbours_of(problem.graph, new, problem.edge_weight)
    return stream(
        indptr,
        indices,
        problem.parts,
        seed=problem.seed,
        vertex_weight=problem.vertex_weight,
        edge_weight=edge_weight,
        targets=problem.targets,
        imbalance=problem.imbalance,
        assignment=problem.given,
        movable=new,
    )


def neighbours_of(
    graph: GraphArrays, chosen: NDArray[np.bool_], edge_weight: NDArray[np.uint32] | None
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.uint32] | None]:
    """The neighbours of chosen vertices, those of in-edges first, with none for the others.

    Args:
        chosen: [N].
        edge_weight: [E]; None: 1 each.

    Returns:
        indptr int64 [N + 1], indices, and their weights where there are some.
    """
    pieces: tuple[list[NDArray[Any]], ...] = ([], [], [])  # in-edges, then out-edges: vertices, neighbours, weights
    back: tuple[list[NDArray[Any]], ...] = ([], [], [])
    for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
        edges = slice(int(graph.indptr[begin]), int(graph.indptr[end]))
        sources = graph.indices[edges]
        destinations = np.repeat(np.arange(begin, end), np.diff(graph.indptr[begin : end + 1]))
        weights = None if edge_weight is None else edge_weight[edges]
        for found, vertices, neighbours in ((pieces, destinations, sources), (back, sources, destinations)):
            at = chosen[vertices]
            found[0].append(vertices[at].astype(graph.indices.dtype))
            found[1].append(neighbours[at].astype(graph.indices.dtype))
            if weights is not None:
                found[2].append(weights[at])
        forget(graph.indices)
    vertices, indices = (np.concatenate([*one, *other]) for one, other in zip(pieces[:2], back[:2], strict=True))
    order = np.argsort(vertices, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(vertices, minlength=graph.num_vertices))])
    weight = None if edge_weight is None else np.concatenate([*pieces[2], *back[2]])[order]
    return indptr.astype(np.int64), indices[order], weight


def local_share(graph: GraphArrays, assignment: NDArray[np.int32], old: int) -> float:
    """Share of the edges with an end among the vertices from ``old`` on whose ends are in one part; 1 without any."""
    edges_there = local = 0
    for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
        sources = graph.indices[int(graph.indptr[begin]) : int(graph.indptr[end])]
        destinations = np.repeat(np.arange(begin, end), np.diff(graph.indptr[begin : end + 1]))
        new = (sources >= old) | (destinations >= old)
        edges_there += int(new.sum())
        local += int((assignment[sources[new]] == assignment[destinations[new]]).sum())
        forget(graph.indices)
    return local / edges_there if edges_there else 1.0
