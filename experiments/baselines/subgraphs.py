"""What PyG's and DGL's training on subgraphs have alike: their size, the clusters, the loss's vertices, a check.

Their examples of GraphSAINT and Cluster-GCN have one process, and so have these; the loss is the mean over the
training vertices of a subgraph. With N vertices and S subgraphs an epoch, random walks visit N / S vertices, some of
them twice: a subgraph has somewhat fewer, as with ``gsplit train --sampling saint``. Clusters are the parts of a
layout, the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.baselines.data_parallel import Loaded
from experiments.baselines.stored import StoredGraph
from gsplit.data import open_layout

SAINT, CLUSTERS = "saint", "clusters"
"""Forms: random walks, and parts of a layout."""
WALK = 2
"""Steps of a random walk, as in PyG's example."""


def roots(num_vertices: int, sets: int) -> int:
    """Random walks of a subgraph."""
    return max(1, num_vertices // (sets * (WALK + 1)))


def clusters_of(layout: Path) -> tuple[NDArray[np.int64], int]:
    """The part of each vertex, int64 [N] by global id, and the number of parts."""
    opened = open_layout(layout)
    parts = np.empty(opened.graph.num_vertices, np.int64)
    parts[np.asarray(opened.permutation)] = np.repeat(np.arange(opened.parts), np.diff(opened.offsets))
    return parts, opened.parts


class Subgraphs:
    """Gives subgraphs of a stored graph their features and labels.

    Args:
        stored: the graph.
        layers: of the model, each of which computes all edges of a subgraph.
    """

    def __init__(self, stored: StoredGraph, layers: int) -> None:
        self._stored, self._layers = stored, layers
        self._trains = torch.zeros(len(stored.indptr) - 1, dtype=torch.bool)
        self._trains[stored.vertices("train")] = True

    def loaded(
        self, vertices: Tensor, num_edges: int, arguments: Callable[[Tensor, Tensor], tuple[Any, ...]]
    ) -> Loaded:
        """A subgraph with its features, and with the labels of its training vertices.

        Args:
            vertices: int64 [n] global ids.
            num_edges: of the subgraph.
            arguments: gives what the model is called with, of features [n, D] and the rows of training vertices.
        """
        targets = self._trains[vertices].nonzero().squeeze(1)
        return Loaded(
            arguments=arguments(self._stored.rows(vertices), targets),
            labels=self._stored.labels[vertices[targets]],
            edges=self._layers * num_edges,
            input_rows=len(vertices),
            input_bytes=self._stored.row_bytes * len(vertices),
        )


def fault_of_induced(
    vertices: NDArray[np.int64],
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
) -> str | None:
    """What makes this no induced subgraph, in a few words; None for a good one.

    Args:
        vertices: [n] of the subgraph.
        sources, destinations: [e] vertices of its edges.
        indptr, indices: of the graph, in-neighbours.
    """
    if len(np.unique(vertices)) != len(vertices):
        return "a vertex is twice in the subgraph"
    n = len(indptr) - 1
    kept = np.zeros(n, bool)
    kept[vertices] = True
    to = np.repeat(np.arange(n), np.diff(indptr))
    inside = kept[to] & kept[indices]
    whole = np.sort(to[inside] * n + indices[inside])
    if not np.array_equal(np.sort(destinations * n + sources), whole):
        return "its edges are not those of the graph between its vertices"
    return None
