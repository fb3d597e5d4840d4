"""A tiny graph that tests change one field at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gsplit.data import GraphArrays


@pytest.fixture(scope="session")
def tiny_graph():
    """tiny_graph(field=value, ...): a path with a double edge and an isolated vertex.

    0 -- 1 == 2 -- 3    4     (undirected, so every line is an edge in both directions)

    Vertex 4 is unlabelled and in no vertex set.
    """
    graph = GraphArrays(
        indptr=np.array([0, 1, 4, 7, 8, 8]),
        indices=np.array([1, 2, 0, 2, 1, 3, 1, 2], np.int32),
        features=np.arange(10, dtype=np.float32).reshape(5, 2),
        labels=np.array([0, 1, 0, 1, -1]),
        edge_weight=None,
        train_idx=np.array([0, 1]),
        valid_idx=np.array([2]),
        test_idx=np.array([3]),
        num_classes=2,
    )
    return lambda **changes: replace(graph, **changes)
