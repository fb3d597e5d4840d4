"""From a store and an assignment to a layout: every array in the new order, piece by piece.

New ids go by part, and within a part by hotness: how often a vertex stands in others' in-neighbour lists (its
out-degree), so that any prefix of a part is its best cache of that size. The neighbours of a vertex keep the
store's order, so that the same draw picks the same neighbour whatever the partition (law 1).
"""

from __future__ import annotations

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
    degrees = np.diff(graph.indptr)[permutation]
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    writer.save("indptr", indptr)
    indices = writer.create("indices", (graph.num_edges,), graph.indices.dtype)
    weight = None if graph.edge_weight is None else writer.create("edge_weight", (graph.num_edges,), np.float32)
    n = graph.num_vertices
    begin = 0
    with tqdm(total=graph.num_edges, desc="relabel edges", unit="edge", unit_scale=True, leave=False, disable=None,
              delay=SECONDS_BEFORE_BAR) as bar:  # fmt: skip
        while begin < n:
            end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + EDGES_AT_ONCE, side="right")) - 1)
            end = min(end, n)
            first, last = indptr[begin], indptr[end]
            # The place of edge e of new vertex v in the store: where v's row begins there, plus e - indptr[v].
            shift = graph.indptr[permutation[begin:end]] - indptr[begin:end]
            place = np.arange(first, last) + np.repeat(shift, degrees[begin:end])
            indices[first:last] = layout_of_global[graph.indices[place]]
            if weight is not None and graph.edge_weight is not None:
                weight[first:last] = graph.edge_weight[place]
            bar.update(int(last - first))
            begin = end


def _write_rows(writer: FolderWriter, name: str, rows: NDArray[Any], permutation: NDArray[np.int64]) -> None:
    permuted = writer.create(name, rows.shape, rows.dtype)
    at_once = max(1, ROWS_BYTES_AT_ONCE // max(1, rows[:1].nbytes))
    for begin in tqdm(
        range(0, len(rows), at_once), desc=f"permute {name}", leave=False, disable=None, delay=SECONDS_BEFORE_BAR
    ):
        permuted[begin : begin + at_once] = rows[permutation[begin : begin + at_once]]
