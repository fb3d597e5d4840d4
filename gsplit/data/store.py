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
from gsplit.data.graph import BOUNDED_BY, VERTEX_SETS, GraphArrays, Labelled
from gsplit.data.ids.kept_ids import verify_ids
from gsplit.data.memory.opened import OpenFolder
from gsplit.data.memory.temporary import temporary_of
from gsplit.data.typed_graph import TYPED, TypedGraph, check_any_graph, described, open_graph
from gsplit.errors import InputError

FORMAT = "gsplit-graph"
VERSION = 3
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


def open_store(path: str | os.PathLike[str], *, verify: bool = False, typed: bool = False) -> GraphStore:
    """Open and check a graph store; arrays are mapped, not read into memory.

    Args:
        path: the folder.
        verify: also read every byte and compare checksums.
        typed: open one of several types, too, with a :class:`gsplit.data.TypedGraph`.

    Raises:
        InputError: where anything is missing, damaged or out of range, or there are several types and the caller
            takes but one.

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
    graph = open_graph(path, description, typed=typed)
    check_any_graph(graph, str(path))
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
        InputError: for a graph that the checks of :func:`open_store` refuse, or an ``out`` that exists.

    Examples:
        >>> graph = gsplit.data.open_store("graph").graph
        >>> gsplit.data.write_store("copy", graph, name="copy", source="the graph")
        >>> gsplit.data.open_store("copy").graph.num_edges
        40
    """
    check_any_graph(graph, source)
    typed = isinstance(graph, TypedGraph)
    for each, features in zip(graph.schema.types, graph.features_by_type, strict=True):
        where = f"{source}: type {each.name}" if typed else source
        for begin in range(0, 0 if features is None else len(features), ROWS_AT_ONCE):
            assert features is not None
            rows = features[begin : begin + ROWS_AT_ONCE]
            check_finite(rows, range(begin, begin + len(rows)), where)
    for relation, edges in zip(graph.schema.relations, graph.adjacencies, strict=True):
        where = f"{source}: relation {relation}" if typed else source
        if edges.edge_weight is not None and not np.isfinite(edges.edge_weight).all():
            at = int(np.argmin(np.isfinite(edges.edge_weight)))
            raise InputError(f"{where}: edge_weight[{at}] is NaN or infinite; clean the weights first")
    with writing_folder(Path(out), overwrite=overwrite) as writer:
        for number, features in enumerate(graph.features_by_type):
            if features is not None:
                writer.numbered(number if typed else None).save("features", features)
        for number, edges in enumerate(graph.adjacencies):
            for array, values in vars(edges).items():
                if values is not None:
                    writer.numbered(number if typed else None).save(array, values)
        save_labelled(writer.numbered(graph.target if typed else None), graph)
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
    """Version of the description of a graph: 2 where it has links, which a reader of version 1 would drop.

    It is 3 where there are several types, or relations.
    """
    return TYPED if isinstance(graph, TypedGraph) else 1 if graph.links is None else 2


def save_labelled(writer: FolderWriter, labelled: Labelled) -> None:
    """Write labels and vertex sets."""
    writer.save("labels", labelled.labels)
    for name in VERTEX_SETS:
        writer.save(f"{name}_idx", labelled.vertex_set(name))


def save_links(writer: FolderWriter, graph: GraphArrays) -> None:
    """Write the links of a graph, if it has any."""
    if graph.links is not None:
        for name, array in graph.links.arrays():
            writer.save(name, array)


def describe(graph: GraphArrays) -> dict[str, Any]:
    """Return what a description says of a graph: the counts, so that it can be read without the arrays, and names."""
    if isinstance(graph, TypedGraph):
        return described(graph)
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
