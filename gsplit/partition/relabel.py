"""From a store and an assignment to a layout: every array in the new order, piece by piece.

New ids go by part, and within a part by heat, so that any prefix of a part is its best cache of that size. The
neighbours of a vertex keep the store's order, so that the same draw picks the same neighbour whatever the partition
(law 1).

Memory is bounded by the vertices, not by edges or features: the graph takes two passes, one over the degrees and
one over the rows; all arrays are written as streams; features that do not fit are read from end to end several times,
each time for one window of the new order, instead of a page at a time in random order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.bars import progress_bar
from gsplit.data import layout, store
from gsplit.data.append import GROWN_FROM
from gsplit.data.folders import FolderWriter, writing_folder
from gsplit.data.graph import VERTEX_SETS, Adjacency, row_ranges
from gsplit.data.ids.kept_ids import copy_ids
from gsplit.data.layout import inverse, reordered_indptr
from gsplit.data.npy import forget
from gsplit.data.typed_graph import TypedGraph
from gsplit.limits import host_memory

EDGES_AT_ONCE = 1 << 22
BYTES_AT_ONCE = 1 << 26


def layout_order(assignment: NDArray[np.int32], heat: NDArray[np.int64]) -> NDArray[np.int64]:
    """Global id of each layout id, int64 [N]: by part, then hottest first, then by global id."""
    return np.lexsort((-heat, assignment)).astype(np.int64, copy=False)


def write_layout(
    out: Path,
    source: store.GraphStore,
    assignments: Sequence[NDArray[np.int32]],
    orders: Sequence[NDArray[np.int64]],
    parts: int,
    about: dict[str, Any],
    *,
    overwrite: bool = False,
    memory: int | None = None,
) -> None:
    """Write the layout of ``source``; ``about`` joins its description.

    Args:
        out: the folder.
        source: the store.
        assignments: by type: [N_t] int32, the part of each vertex.
        orders: by type: [N_t] layout id -> global id, as :func:`layout_order` gives it.
        parts: P.
        about: keys and values for ``layout.json``.
        overwrite: replace the folder if it is there.
        memory: bytes that features may take while they are permuted; by default half of what is available.
    """
    graph = source.graph
    typed = isinstance(graph, TypedGraph)
    new_of_old = [inverse(order) for order in orders]
    offsets = [
        np.concatenate([[0], np.cumsum(np.bincount(assignment, minlength=parts))]).tolist()
        for assignment in assignments
    ]
    with writing_folder(out, overwrite=overwrite) as writer:
        for number, edges in enumerate(graph.adjacencies):
            of_source, of_destination = graph.schema.ends(number)
            _write_adjacency(
                writer.numbered(number if typed else None), edges, orders[of_destination], new_of_old[of_source]
            )
        memory = memory_for_rows() if memory is None else memory
        for number, (features, order) in enumerate(zip(graph.features_by_type, orders, strict=True)):
            of_type = writer.numbered(number if typed else None)
            if features is not None:
                _write_rows(of_type, "features", features, order, memory)
            of_type.save("permutation", order)
        of_target = writer.numbered(graph.target if typed else None)
        _write_rows(of_target, "labels", graph.labels, orders[graph.target], memory)
        for name in VERTEX_SETS:
            of_target.save(f"{name}_idx", np.sort(new_of_old[graph.target][graph.vertex_set(name)]))
        if graph.links is not None:
            store.save_links(writer, graph)
            writer.save("positions", new_of_old[0])
            writer.save("store_indptr", graph.indptr)
        names: dict[str, Any] = {
            key: source.description[key] for key in ("ids", "links") if key in source.description
        }
        if "ids" in names:
            copy_ids(source.path, writer.path)
        writer.describe(
            layout.FILE,
            {
                "format": layout.FORMAT,
                "name": source.name,
                **store.describe(graph),
                **names,
                "parts": parts,
                "offsets": offsets if typed else offsets[0],
                "store": {
                    "name": source.name,
                    "checksum": source.checksum,
                    **({GROWN_FROM: source.description[GROWN_FROM]} if GROWN_FROM in source.description else {}),
                },
                **about,
            },
        )


def memory_for_rows() -> int:
    """Bytes that features may take while they are permuted: half of what is available."""
    return host_memory().available_bytes // 2


def _write_adjacency(
    writer: FolderWriter, edges: Adjacency, order: NDArray[np.int64], new_of_old: NDArray[np.int64]
) -> None:
    """Write the edges of a relation: rows in the ``order`` of its destinations, with the new ids of its sources."""
    indptr = reordered_indptr(edges.indptr, order)
    writer.save("indptr", indptr)
    arrays: list[tuple[str, NDArray[Any]]] = [("indices", edges.indices)]
    if edges.edge_weight is not None:
        arrays.append(("edge_weight", edges.edge_weight))
    new_ids = new_of_old.astype(edges.indices.dtype)
    for name, array in arrays:
        with (
            writer.stream(name, array.dtype) as stream,
            progress_bar(len(edges.indices), f"relabel {name}", "edge") as bar,
        ):
            for first, last, place in places(edges.indptr, indptr, order):
                stream.write(new_ids[array[place]] if name == "indices" else array[place])
                forget(array)
                bar.update(last - first)


def places(
    old_indptr: NDArray[np.int64], new_indptr: NDArray[np.int64], order: NDArray[np.int64]
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Pieces (first, last, place) of bounded size: the new edges ``first .. last`` stood at ``place`` before."""
    for begin, end in row_ranges(new_indptr, EDGES_AT_ONCE):
        first, last = int(new_indptr[begin]), int(new_indptr[end])
        # The old place of edge e of new vertex v: where v's row began, plus e - new_indptr[v].
        shift = old_indptr[order[begin:end]] - new_indptr[begin:end]
        yield first, last, np.arange(first, last) + np.repeat(shift, np.diff(new_indptr[begin : end + 1]))


def _write_rows(writer: FolderWriter, name: str, rows: NDArray[Any], order: NDArray[np.int64], memory: int) -> None:
    pieces_of_rows = permuted(rows, order) if rows.nbytes <= memory else permuted_by_windows(rows, order, memory)
    with (
        writer.stream(name, rows.dtype, rows.shape[1] if rows.ndim == 2 else None) as stream,
        progress_bar(len(rows), f"permute {name}", "row") as bar,
    ):
        for piece in pieces_of_rows:
            stream.write(piece)
            bar.update(len(piece))


def permuted(rows: NDArray[Any], order: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
    """Pieces of ``rows[order]``, each read from all over ``rows``: for rows that stay in memory once read."""
    at_once = _rows_of(BYTES_AT_ONCE, rows)
    for begin in range(0, len(rows), at_once):
        yield rows[order[begin : begin + at_once]]
        forget(rows)


def permuted_by_windows(rows: NDArray[Any], order: NDArray[np.int64], memory: int) -> Iterator[NDArray[Any]]:
    """Pieces of ``rows[order]`` of at most ``memory`` bytes, each from one reading of ``rows`` from end to end."""
    new_of_old = inverse(order)
    at_once, window_rows = _rows_of(BYTES_AT_ONCE, rows), _rows_of(memory, rows)
    for first in range(0, len(rows), window_rows):
        window = np.empty((min(window_rows, len(rows) - first), *rows.shape[1:]), rows.dtype)
        for begin in range(0, len(rows), at_once):
            place = new_of_old[begin : begin + at_once] - first
            here = (place >= 0) & (place < len(window))
            window[place[here]] = rows[begin : begin + at_once][here]
            forget(rows)
        yield window


def _rows_of(num_bytes: int, rows: NDArray[Any]) -> int:
    return max(1, num_bytes // max(1, rows[:1].nbytes))
