"""Sources made stores, and graphs compared array by array."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gsplit.data import GraphArrays, open_store
from gsplit.data.build_options import BuildOptions
from gsplit.data.folders import writing_folder
from gsplit.data.importers.source import GraphSource
from gsplit.data.typed_build import fill_any_store

ARRAYS = ("indptr", "indices", "features", "labels", "edge_weight", "train_idx", "valid_idx", "test_idx")


def build_store(
    source: GraphSource, out: Path, options: BuildOptions, *, name: str, described_as: str
) -> GraphArrays:
    """The graph of the store made of a source."""
    with writing_folder(out) as writer:
        fill_any_store(writer, source, options, name=name, described_as=described_as)
    return open_store(out).graph


def build(source: GraphSource, folder: Path, **options) -> GraphArrays:
    """The store made of a source; double edges stay."""
    return build_store(
        source, folder, BuildOptions(**{"duplicates": "keep", **options}), name=source.name, described_as="test"
    )


def edges_of(graph: GraphArrays) -> list[tuple[int, int]]:
    """(source, destination) in the order of the adjacency."""
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return list(zip(graph.indices.tolist(), destination.tolist(), strict=True))


def assert_equal_graphs(got: GraphArrays, wanted: GraphArrays) -> None:
    """Values, shapes and dtypes of every array."""
    assert got.num_classes == wanted.num_classes
    for name in ARRAYS:
        one, other = getattr(got, name), getattr(wanted, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name, strict=True)
