"""The graph store: a graph in its own (global) ids, on disk (docs/formats.md, "Graph store")."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.folders import FolderWriter, writing_folder
from gsplit.data.graph import BOUNDED_BY, VERTEX_SETS, GraphArrays, Labelled, check_graph, relation_in, type_in
from gsplit.data.opened import TYPED, OpenFolder, open_folder
from gsplit.errors import InputError

FORMAT = "gsplit-graph"
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
    fields = open_folder(Path(path), FILE, FORMAT, verify=verify, typed=typed)
    check_graph(fields["graph"], str(path))
    return GraphStore(**fields)


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
    check_graph(graph, source)
    for number, features in enumerate(graph.features_by_type):
        for begin in range(0, 0 if features is None else len(features), ROWS_AT_ONCE):
            assert features is not None
            rows = features[begin : begin + ROWS_AT_ONCE]
            check_finite(rows, range(begin, begin + len(rows)), type_in(graph, number, source))
    for number, edges in enumerate(graph.adjacencies):
        if edges.edge_weight is not None and not np.isfinite(edges.edge_weight).all():
            at, where = int(np.argmin(np.isfinite(edges.edge_weight))), relation_in(graph, number, source)
            raise InputError(f"{where}: edge_weight[{at}] is NaN or infinite; clean the weights first")
    with writing_folder(Path(out), overwrite=overwrite) as writer:
        for number, features in enumerate(graph.features_by_type):
            if features is not None:
                writer.numbered(number if graph.typed else None).save("features", features)
        for number, edges in enumerate(graph.adjacencies):
            for array, values in vars(edges).items():
                if values is not None:
                    writer.numbered(number if graph.typed else None).save(array, values)
        save_labelled(writer.numbered(graph.target if graph.typed else None), graph)
        save_links(writer, graph)
        writer.describe(FILE, {"format": FORMAT, **describe(graph), "name": name, "source": source})


def check_finite(
    rows: NDArray[Any], vertices: Sequence[int] | NDArray[np.int64], source: str, shown: Callable[[int], str] = str
) -> None:
    """Raise InputError for the first of n vertices whose features [n, D] are not finite; ``shown`` names it."""
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        vertex = shown(int(vertices[int(np.argmin(finite))]))
        kind = BOUNDED_BY.get(str(rows.dtype), rows.dtype)
        raise InputError(
            f"{source}: the features of vertex {vertex} hold NaN or infinity as {kind}; replace them first"
        )


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
    """Return what a description says of a graph: the counts, so that it can be read without the arrays, and names.

    The version is 2 where it has links, which a reader of version 1 would drop, and 3 where there are several types,
    or relations.
    """
    return {
        "version": TYPED if graph.typed else 1 if graph.links is None else 2,
        **(_types_described(graph) if graph.typed else _counts_described(graph)),
        "num_classes": graph.num_classes,
        "multi_label": graph.multi_label,
        "regression": graph.regression,
        **({} if graph.classes is None else {"classes": list(graph.classes)}),
        **({} if graph.links is None else {"links": graph.links.described(graph.num_edges)}),
    }


def _counts_described(graph: GraphArrays) -> dict[str, Any]:
    return {"num_vertices": graph.num_vertices, "num_edges": graph.num_edges, "num_features": graph.num_features}


def _types_described(graph: GraphArrays) -> dict[str, Any]:
    schema = graph.schema
    return {
        "types": [
            {"name": each.name, "vertices": each.num_vertices, "features": None if rows is None else rows.shape[1]}
            for each, rows in zip(schema.types, graph.features_by_type, strict=True)
        ],
        "relations": [
            {
                "source": each.source,
                "name": each.name,
                "destination": each.destination,
                "edges": len(edges.indices),
                "weighted": edges.edge_weight is not None,
            }
            for each, edges in zip(schema.relations, graph.adjacencies, strict=True)
        ],
        "target": schema.types[graph.target].name,
    }
