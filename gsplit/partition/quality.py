"""The quality of a partition, before anything is sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS, Adjacency, GraphArrays, row_ranges
from gsplit.data.npy import forget
from gsplit.data.typed_graph import TypedGraph
from gsplit.partition.relabel import EDGES_AT_ONCE


def quality_of(graph: GraphArrays, assignments: Sequence[NDArray[np.int32]], parts: int) -> dict[str, Any]:
    """Edge cut, local edges and balance of assignments, the part of each vertex [N_t] by type.

    ``edge_cut`` counts directed edges between parts; ``local_edges`` is the share of the others (the paper,
    table 5, has it for sampled edges). A balance is the largest part over the mean, so 1 is perfect; ``edges``
    counts an edge in the part of its destination, which computes it. Of several types these are of all together,
    and ``types`` and ``relations`` have them by name.
    """
    by_relation = {}
    edges_of_part = np.zeros(parts, np.int64)
    cut = 0
    for number, (relation, edges) in enumerate(zip(graph.schema.relations, graph.adjacencies, strict=True)):
        source, destination = (assignments[each] for each in graph.schema.ends(number))
        cut_of_relation, of_part = _cut(edges, source, destination, parts)
        by_relation[str(relation)] = _cut_and_local(cut_of_relation, len(edges.indices))
        cut += cut_of_relation
        edges_of_part += of_part
    vertices = [np.bincount(each, minlength=parts) for each in assignments]
    of_target = assignments[graph.target]
    targets = {name: np.bincount(of_target[graph.vertex_set(name)], minlength=parts) for name in VERTEX_SETS}
    all_vertices = np.sum(vertices, axis=0)
    measured = {
        **_cut_and_local(cut, int(edges_of_part.sum())),
        "balance_vertices": balance(all_vertices),
        "balance_edges": balance(edges_of_part),
        "balance_train_targets": balance(targets["train"]),
        "vertices_per_part": all_vertices.tolist(),
        "edges_per_part": edges_of_part.tolist(),
        "train_targets_per_part": targets["train"].tolist(),
    }
    if isinstance(graph, TypedGraph):
        measured["types"] = {
            each.name: {"balance_vertices": balance(of_type), "vertices_per_part": of_type.tolist()}
            for each, of_type in zip(graph.schema.types, vertices, strict=True)
        }
        measured["relations"] = by_relation
    return measured


def balance(amounts: NDArray[np.int64]) -> float:
    """The largest of the parts' amounts over their mean."""
    return float(amounts.max() / amounts.mean()) if amounts.sum() else 1.0


def _cut(
    edges: Adjacency, of_source: NDArray[np.int32], of_destination: NDArray[np.int32], parts: int
) -> tuple[int, NDArray[np.int64]]:
    """Edges between parts, and the edges of each part [P]."""
    cut, edges_of_part = 0, np.zeros(parts, np.int64)
    for begin, end in row_ranges(edges.indptr, EDGES_AT_ONCE):
        degrees = np.diff(edges.indptr[begin : end + 1])
        sources = of_source[edges.indices[edges.indptr[begin] : edges.indptr[end]]]
        own = of_destination[begin:end]
        cut += int((sources != np.repeat(own, degrees)).sum())
        edges_of_part += np.bincount(own, weights=degrees, minlength=parts).astype(np.int64)
        forget(edges.indices)
    return cut, edges_of_part


def _cut_and_local(cut: int, edges: int) -> dict[str, Any]:
    return {"edge_cut": cut, "local_edges": 1.0 - cut / edges if edges else 1.0}
