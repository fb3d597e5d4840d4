"""The quality of a partition, before anything is sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS, GraphArrays, row_ranges
from gsplit.data.npy import forget
from gsplit.partition.relabel import EDGES_AT_ONCE


def quality_of(graph: GraphArrays, assignment: NDArray[np.int32], parts: int) -> dict[str, Any]:
    """Edge cut, local edges and balance of an assignment, the part of each vertex [N].

    ``edge_cut`` counts directed edges between parts; ``local_edges`` is the share of the others (the paper,
    table 5, has it for sampled edges). A balance is the largest part over the mean, so 1 is perfect; ``edges``
    counts an edge in the part of its destination, which computes it.
    """
    cut = 0
    edges_of_part = np.zeros(parts, np.int64)
    for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
        degrees = np.diff(graph.indptr[begin : end + 1])
        sources = assignment[graph.indices[graph.indptr[begin] : graph.indptr[end]]]
        cut += int((sources != np.repeat(assignment[begin:end], degrees)).sum())
        edges_of_part += np.bincount(assignment[begin:end], weights=degrees, minlength=parts).astype(np.int64)
        forget(graph.indices)
    vertices = np.bincount(assignment, minlength=parts)
    targets = {name: np.bincount(assignment[graph.vertex_set(name)], minlength=parts) for name in VERTEX_SETS}
    return {
        "edge_cut": cut,
        "local_edges": 1.0 - cut / graph.num_edges if graph.num_edges else 1.0,
        "balance_vertices": _balance(vertices),
        "balance_edges": _balance(edges_of_part),
        "balance_train_targets": _balance(targets["train"]),
        "vertices_per_part": vertices.tolist(),
        "edges_per_part": edges_of_part.tolist(),
        "train_targets_per_part": targets["train"].tolist(),
    }


def _balance(amounts: NDArray[np.int64]) -> float:
    return float(amounts.max() / amounts.mean()) if amounts.sum() else 1.0
