"""Small graphs, and stores and layouts of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from gsplit.data import GraphArrays, Layout, open_layout, write_store
from gsplit.partition import PartitionConfig, partition


def random_graph(
    n=200, mean_degree=8, *, seed=0, features=5, classes=3, index_dtype=np.int32, multi_label=False, weighted=False
):
    """Directed, skewed in-degrees, some vertices without neighbours, double edges allowed."""
    random = np.random.default_rng(seed)
    degrees = np.minimum(random.pareto(1.5, n) * mean_degree / 2, n - 1).astype(np.int64)
    degrees[random.random(n) < 0.05] = 0
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    order = random.permutation(n)
    labels = random.integers(0, classes, n)
    return GraphArrays(
        indptr=indptr,
        indices=(n * random.random(int(indptr[-1])) ** 1.5).astype(index_dtype),
        features=random.standard_normal((n, features)).astype(np.float32),
        labels=(random.random((n, classes)) < 0.4).astype(np.float32) if multi_label else labels,
        edge_weight=random.random(int(indptr[-1])).astype(np.float32) if weighted else None,
        train_idx=np.sort(order[: n // 2]),
        valid_idx=np.sort(order[n // 2 : 3 * n // 4]),
        test_idx=np.sort(order[3 * n // 4 :]),
        num_classes=classes,
    )


def with_signs(graph: GraphArrays, *, seed=0) -> GraphArrays:
    """Weights of either sign: of some vertices 0, of some a sum that is rounding alone, of all more than -0.8."""
    random = np.random.default_rng(seed)
    weight = random.uniform(-1, 1.5, graph.num_edges).astype(np.float32)
    for vertex, (begin, end) in enumerate(zip(graph.indptr[:-1], graph.indptr[1:], strict=True)):
        if vertex % 5 == 0:
            weight[begin:end] = 0
        if vertex % 5 in (1, 2) and end - begin >= 3:  # in float32 0 and 6e-8, in float64 7e-9 and 4e-8
            weight[begin:end] = 0
            weight[begin : begin + 3] = (0.1, 0.4, -0.5) if vertex % 5 == 1 else (0.1, 0.6, -0.7)
        if (low := weight[begin:end].sum()) < -0.8:
            weight[begin:end] *= -0.8 / low
    return replace(graph, edge_weight=weight)


def regression_graph(n=200, mean_degree=8, *, seed=0, outputs=2, unknown=0.3, **changes) -> GraphArrays:
    """Numbers to be predicted, each output on its own scale; a share of them is not known."""
    graph = random_graph(n, mean_degree, seed=seed, **changes)
    random = np.random.default_rng(seed + 1)
    labels = graph.features[:, :1] - 0.5 + random.standard_normal((n, outputs)) * np.arange(1, outputs + 1)
    labels[random.random((n, outputs)) < unknown] = np.nan
    return replace(graph, labels=labels.astype(np.float32), num_classes=outputs, regression=True)


def lay_out(graph: GraphArrays, folder: Path, *, parts: int, method="metis", seed=0) -> Layout:
    """The layout of a graph, through its store in ``folder``."""
    store, layout = folder / "store", folder / f"{method}-{parts}-{seed}"
    if not store.exists():
        write_store(store, graph, name="test", source="test")
    if not layout.exists():
        partition(PartitionConfig(store=store, out=layout, parts=parts, method=method, seed=seed))
    return open_layout(layout)
