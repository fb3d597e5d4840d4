"""Graphs of several types: at random, as stores, and as dictionaries to compare with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from gsplit.data import Layout, Relation, Schema, TypedGraph, VertexType, open_layout, write_store
from gsplit.data.graph import Adjacency
from gsplit.partition import PartitionConfig, partition


def academic() -> tuple[dict, dict, dict]:
    """Arguments of ``gsplit.from_arrays``: types, relations, and what else; institutions have no features.

    Authors 3 and papers 4; author 0 writes papers 0 and 1, author 1 paper 1; nobody is at institution 1.
    """
    types = {"paper": np.arange(8, dtype=np.float32).reshape(4, 2), "author": np.eye(3, dtype=np.float16), "place": 2}
    relations = {
        ("author", "writes", "paper"): np.array([[0, 0, 1], [0, 1, 1]]),
        ("paper", "cites", "paper"): np.array([[1, 2, 3], [0, 1, 1]]),
        ("author", "is at", "place"): np.array([[0, 2], [0, 0]]),
    }
    beside = {
        "labels": {"paper": np.array([0, 1, 1, 0])},
        "train": np.array([True, True, False, False]),
        "test": {"paper": [3]},
    }
    return types, relations, beside


def edges_by_relation(graph) -> dict[str, list[tuple[int, int]]]:
    """(source, destination) of the edges of each relation, in the order of the adjacency."""
    found = {}
    for relation, each in zip(graph.schema.relations, graph.adjacencies, strict=True):
        destination = np.repeat(np.arange(len(each.indptr) - 1), np.diff(each.indptr))
        found[str(relation)] = list(zip(each.indices.tolist(), destination.tolist(), strict=True))
    return found


def random_typed_graph(
    num_types=3,
    num_relations=4,
    *,
    seed=0,
    vertices=60,
    mean_degree=4,
    classes=3,
    weighted=False,
    empty_type=False,
    index_dtype=np.int32,
) -> TypedGraph:
    """Types t0, t1, .. of different sizes and widths, the last without features; relations r0, r1, .. at random.

    The target is t0. Double edges are there, and r0 leads to t0, so that there is something to aggregate.
    """
    random = np.random.default_rng(seed)
    counts = random.integers(vertices // 3, vertices, num_types) if vertices > 3 else np.full(num_types, vertices)
    if empty_type and num_types > 1:
        counts[-1] = 0
    types = tuple(VertexType(f"t{t}", int(n)) for t, n in enumerate(counts))
    relations, adjacencies = [], []
    for r in range(num_relations):
        source, to = (int(each) for each in random.integers(0, num_types, 2))
        to = 0 if r == 0 else to
        relations.append(Relation(f"t{source}", f"r{r}", f"t{to}"))
        degrees = random.poisson(mean_degree, counts[to]) * (counts[source] > 0)
        indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
        edges = int(indptr[-1])
        adjacencies.append(
            Adjacency(
                indptr=indptr,
                indices=(counts[source] * random.random(edges) ** 1.5).astype(index_dtype),
                edge_weight=random.random(edges).astype(np.float32) if weighted else None,
            )
        )
    n = int(counts[0])
    order = random.permutation(n)
    return TypedGraph(
        schema=Schema(types, tuple(relations)),
        target=0,
        adjacencies=tuple(adjacencies),
        features_by_type=tuple(
            None if t and t == num_types - 1 else random.standard_normal((int(c), 2 + t)).astype(np.float32)
            for t, c in enumerate(counts)
        ),
        labels=random.integers(0, classes, n),
        train_idx=np.sort(order[: n // 2]),
        valid_idx=np.sort(order[n // 2 : 3 * n // 4]),
        test_idx=np.sort(order[3 * n // 4 :]),
        num_classes=classes,
    )


def with_features(graph: TypedGraph, seed=0) -> TypedGraph:
    """A random typed graph whose last type has features, too."""
    rows = np.random.default_rng(seed).standard_normal((graph.schema.types[-1].num_vertices, 4)).astype(np.float32)
    return replace(graph, features_by_type=(*graph.features_by_type[:-1], rows))


def assert_equal_typed_graphs(got, wanted) -> None:
    """Values, shapes and dtypes of every array, and the schemas."""
    assert (got.schema, got.target, got.num_classes) == (wanted.schema, wanted.target, wanted.num_classes)
    pairs = list(zip(got.features_by_type, wanted.features_by_type, strict=True))
    for one, other in zip(got.adjacencies, wanted.adjacencies, strict=True):
        pairs += [(vars(one)[name], vars(other)[name]) for name in ("indptr", "indices", "edge_weight")]
    pairs += [
        (getattr(got, name), getattr(wanted, name)) for name in ("labels", "train_idx", "valid_idx", "test_idx")
    ]
    for one, other in pairs:
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other, strict=True)


def lay_out_types(graph: TypedGraph, folder: Path, *, parts: int) -> Layout:
    """A layout of a graph of several types, made once in a folder."""
    out = folder / f"layout-{parts}"
    if not out.exists():
        if not (folder / "store").exists():
            write_store(folder / "store", graph, name="g", source="test")
        partition(PartitionConfig(store=folder / "store", out=out, parts=parts, method="random"))
    return open_layout(out, typed=True)
