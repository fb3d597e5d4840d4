"""From a store and an assignment to a layout: every array in the new order, piece by piece.

New ids go by part, and within a part by hotness: how often a vertex stands in others' in-neighbour lists (its
out-degree), so that any prefix of a part is its best cache of that size. The neighbours of a vertex keep the
store's order, so that the same draw picks the same neighbour whatever the partition (law 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.bars import SECONDS_BEFORE_BAR, tqdm
from gsplit.data import layout, store
from gsplit.data.folders import FolderWriter, writing_folder
from gsplit.data.graph import SPLITS, GraphArrays

EDGES_AT_ONCE = 1 << 23
ROWS_BYTES_AT_ONCE = 1 << 26


def layout_order(graph: GraphArrays, assignment: NDArray[np.int32]) -> NDArray[np.int64]:
    """[N] layout id -> global id: by part, then hottest first, then by global id."""
    hotness = np.bincount(graph.indices, minlength=graph.num_vertices)
    return np.lexsort((-hotness, assignment)).astype(np.int64)


def write_layout(
    out: Path,
    source: store.GraphStore,
    assignment: NDArray[np.int32],
    parts: int,
    about: dict[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Write the layout of ``source`` under ``assignment``; ``about`` joins its description."""
    graph = source.graph
    permutation = layout_order(graph, assignment)
    layout_of_global = np.empty_like(permutation)
    layout_of_global[permutation] = np.arange(len(permutation))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(assignment, minlength=parts))])
    with writing_folder(out, overwrite=overwrite) as writer:
        _write_adjacency(writer, graph, permutation, layout_of_global)
        if graph.features is not None:
            _write_rows(writer, "features", graph.features, permutation)
        _write_rows(writer, "labels", graph.labels, permutation)
        for name in SPLITS:
            writer.save(f"{name}_idx", np.sort(layout_of_global[graph.split(name)]))
        writer.save("permutation", permutation)
        writer.describe(
            layout.FILE,
            {
                "format": layout.FORMAT,
                "version": layout.VERSION,
                "name": source.name,
                **store.describe(graph),
                "parts": parts,
                "offsets": offsets.tolist(),
                "hotness": "degree",
                "store": {"name": source.name, "checksum": source.checksum},
                **about,
            },
        )


def _write_adjacency(
    writer: FolderWriter,
    graph: GraphArrays,
    permutation: NDArray[np.int64],
    layout_of_global: NDArray[np.int64],
) -> None:
    indptr = reordered_indptr(graph.indptr, permutation)
    writer.save("indptr", indptr)
    indices = writer.create("indices", (graph.num_edges,), graph.indices.dtype)
    weight = None if graph.edge_weight is None else writer.create("edge_weight", (graph.num_edges,), np.float32)
    with tqdm(total=graph.num_edges, desc="relabel edges", unit="edge", unit_scale=True, leave=False, disable=None,
              delay=SECONDS_BEFORE_BAR) as bar:  # fmt: skip
        for first, last, place in places(graph.indptr, indptr, permutation):
            indices[first:last] = layout_of_global[graph.indices[place]]
            if weight is not None and graph.edge_weight is not None:
                weight[first:last] = graph.edge_weight[place]
            bar.update(last - first)


def reordered_indptr(indptr: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N + 1] when the vertices stand in another order: [N] new id -> old id."""
    return np.concatenate([[0], np.cumsum(np.diff(indptr)[order])]).astype(np.int64)


def places(
    old_indptr: NDArray[np.int64], new_indptr: NDArray[np.int64], order: NDArray[np.int64]
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """(first, last, place) of pieces of bounded size: the new edges ``first .. last`` stood at ``place`` before."""
    n = len(order)
    begin = 0
    while begin < n:
        end = max(begin + 1, int(np.searchsorted(new_indptr, new_indptr[begin] + EDGES_AT_ONCE, side="right")) - 1)
        first, last = int(new_indptr[begin]), int(new_indptr[end])
        # The old place of edge e of new vertex v: where v's row began, plus e - new_indptr[v].
        shift = old_indptr[order[begin:end]] - new_indptr[begin:end]
        yield first, last, np.arange(first, last) + np.repeat(shift, np.diff(new_indptr[begin : end + 1]))
        begin = end


def _write_rows(writer: FolderWriter, name: str, rows: NDArray[Any], permutation: NDArray[np.int64]) -> None:
    permuted = writer.create(name, rows.shape, rows.dtype)
    at_once = max(1, ROWS_BYTES_AT_ONCE // max(1, rows[:1].nbytes))
    for begin in tqdm(
        range(0, len(rows), at_once), desc=f"permute {name}", leave=False, disable=None, delay=SECONDS_BEFORE_BAR
    ):
        permuted[begin : begin + at_once] = rows[permutation[begin : begin + at_once]]
