"""The graph store: a graph in its own (global) ids, on disk (docs/formats.md, "Graph store")."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.description import read_description, verify_checksums
from gsplit.data.folders import FolderWriter, writing_folder
from gsplit.data.graph import BOUNDED_BY, GraphArrays, check_graph, open_arrays
from gsplit.data.ids.kept_ids import verify_ids
from gsplit.data.memory.opened import OpenFolder
from gsplit.data.memory.temporary import temporary_of
from gsplit.errors import InputError

FORMAT = "gsplit-graph"
VERSION = 2
"""Newest version that is read; what is written, :func:`version_of` says."""
FILE = "graph.json"
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True, repr=False)
class GraphStore(OpenFolder):
    """An open graph store; a layout remembers its checksum.

    Examples:
        >>> store = gsplit.data.open_store("graph")
        >>> store.name, store.graph.num_vertices
        ('cycle', 40)
    """


def open_store(path: str | os.PathLike[str], *, verify: bool = False) -> GraphStore:
    """Open and check a graph store; arrays are mapped, not read into memory.

    Args:
        path: the folder.
        verify: also read every byte and compare checksums.

    Raises:
        InputError: where anything is missing, damaged or out of range.

    Examples:
        >>> gsplit.data.open_store("graph", verify=True).graph.num_edges
        40
    """
    path = Path(path)
    description = read_description(path, FILE, FORMAT, VERSION)
    if verify:
        verify_checksums(path, description)
        if "ids" in description:
            verify_ids(path, description["ids"])
    graph = open_arrays(path, description)
    check_graph(graph, str(path))
    return GraphStore(
        path=path,
        name=str(description.get("name", path.name)),
        checksum=description["checksum"],
        description=description,
        graph=graph,
        temporary=temporary_of(path),
    )


def write_store(out: Path | str, graph: GraphArrays, *, name: str, source: str, overwrite: bool = False) -> None:
    """Check a graph and write it as a store.

    Raises:
        InputError: for a graph that :func:`gsplit.data.graph.check_graph` refuses, or an ``out`` that exists.

    Examples:
        >>> graph = gsplit.data.open_store("graph").graph
        >>> gsplit.data.write_store("copy", graph, name="copy", source="the graph")
        >>> gsplit.data.open_store("copy").graph.num_edges
        40
    """
    check_graph(graph, source)
    if graph.features is not None:
        for begin in range(0, len(graph.features), ROWS_AT_ONCE):
            rows = graph.features[begin : begin + ROWS_AT_ONCE]
            check_finite(rows, range(begin, begin + len(rows)), source)
    if graph.edge_weight is not None and not np.isfinite(graph.edge_weight).all():
        at = int(np.argmin(np.isfinite(graph.edge_weight)))
        raise InputError(f"{source}: edge_weight[{at}] is NaN or infinite; clean the weights first")
    with writing_folder(Path(out), overwrite=overwrite) as writer:
        for array in ("indptr", "indices", "features", "labels", "edge_weight", "train_idx", "valid_idx", "test_idx"):
            values = getattr(graph, array)
            if values is not None:
                writer.save(array, values)
        save_links(writer, graph)
        writer.describe(
            FILE, {"format": FORMAT, "version": version_of(graph), **describe(graph), "name": name, "source": source}
        )


def check_finite(
    rows: NDArray[Any], vertices: Sequence[int] | NDArray[np.int64], source: str, shown: Callable[[int], str] = str
) -> None:
    """Check that the features [n, D] of these n vertices are finite; ``shown`` is what a message calls a vertex.

    Raises:
        InputError: naming the first vertex for which they are not.
    """
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        vertex = shown(int(vertices[int(np.argmin(finite))]))
        kind = BOUNDED_BY.get(str(rows.dtype), rows.dtype)
        raise InputError(
            f"{source}: the features of vertex {vertex} hold NaN or infinity as {kind}; replace them first"
        )


def version_of(graph: GraphArrays) -> int:
    """Version of the description of a graph: 2 where it has links, which a reader of version 1 would drop."""
    return 1 if graph.links is None else 2


def save_links(writer: FolderWriter, graph: GraphArrays) -> None:
    """Write the links of a graph, if it has any."""
    if graph.links is not None:
        for name, array in graph.links.arrays():
            writer.save(name, array)


def describe(graph: GraphArrays) -> dict[str, Any]:
    """Return what a description says of a graph: the counts, so that it can be read without the arrays, and names."""
    return {
        "num_vertices": graph.num_vertices,
        "num_edges": graph.num_edges,
        "num_features": graph.num_features,
        "num_classes": graph.num_classes,
        "multi_label": graph.multi_label,
        "regression": graph.regression,
        **({} if graph.classes is None else {"classes": list(graph.classes)}),
        **({} if graph.links is None else {"links": graph.links.described(graph.num_edges)}),
    }
