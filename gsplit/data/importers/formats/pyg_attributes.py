"""Edges and vertices of the attributes that a graph of PyTorch Geometric, or a type or relation of one, has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit.data.ids.array_ids import ArrayIds
from gsplit.data.importers.checked import as_count, as_edge_index, as_weights, printable_line
from gsplit.data.importers.formats.torch_files import dense_array
from gsplit.data.importers.keys import Keys, vertices_of
from gsplit.data.importers.source import GraphSource, array_edges
from gsplit.errors import InputError

logger = logging.getLogger(__name__)


def pyg_source(data: dict[str, Any], *, name: str, where: str, keys: Keys) -> GraphSource:
    """The graph whose attributes these are.

    Raises:
        InputError: naming ``where``, for tensors that are missing or do not fit each other.
    """
    if "edge_index" not in data and "adj_t" not in data:
        there = printable_line(", ".join(sorted(data))) or "nothing"
        raise InputError(f"{where} has neither edge_index nor adj_t; it has {there}")
    source, destination, weight, size = edges_of(data, where)

    def largest() -> int:
        return max(int(source.max(initial=-1)), int(destination.max(initial=-1)))

    vertices = attributes_of(data, size, largest, name=name, where=where, keys=keys)
    if not vertices.num_vertices:
        raise InputError(f"{where}: the graph has no vertices")
    return replace(vertices, edges=array_edges(source, destination, weight))


def attributes_of(
    data: dict[str, Any], size: int | None, largest: Callable[[], int], *, name: str, where: str, keys: Keys
) -> GraphSource:
    """The vertices with these attributes, as a graph without edges.

    Args:
        data: attributes of a graph, or of a type.
        size: number of vertices, where the adjacency says it.
        largest: gives the largest id in the edges, -1 where there are none.
        name: of the graph.
        where: what messages call it, or the type.
        keys: names that were asked for.
    """
    count = as_count(data.get("num_nodes"), f"{where}: num_nodes")
    vertices = vertices_of(
        data,
        lambda key: dense_array(data[key], f"{where}: {key}"),
        lambda key: f"{where}: {key}",
        size if count is None else count,
        name=name,
        where=where,
        keys=keys,
    )
    n = largest() + 1 if vertices.num_vertices is None else vertices.num_vertices
    return replace(
        vertices,
        num_vertices=n,
        num_classes=as_count(data.get("num_classes"), f"{where}: num_classes"),
        classes=_class_names(data, where) if "y" in data and keys.label_key in (None, "y") else None,
        ids=_ids(data, n, where),
    )


def unpacked(loaded: Any, where: str) -> tuple[Any, Any]:
    """The attributes of a Data or HeteroData, or else the object of a file, and its class.

    An InMemoryDataset writes the attributes of its graphs, their slices, and the class.
    """
    from torch_geometric.data import Data, HeteroData

    kind: Any = type(loaded)
    if isinstance(loaded, tuple) and len(loaded) in (2, 3):
        loaded, slices, kind = (*loaded, None)[:3]
        several = list(slices.values()) if isinstance(slices, dict) else []
        several += [each for of in several if isinstance(of, dict) for each in of.values()]
        counts = [len(s) - 1 for s in several if hasattr(s, "__len__") and not isinstance(s, dict)]
        if counts and max(counts) != 1:
            raise InputError(f"{where} holds {max(counts)} graphs; save the one to train on as a Data of its own")
    if isinstance(loaded, (Data, HeteroData)):
        kind = HeteroData if isinstance(loaded, HeteroData) else Data
        try:
            loaded = loaded.to_dict()
        except Exception:  # one whose state is none, however that came about
            raise InputError(f"{where} is damaged: its {kind.__name__} has no valid content") from None
    return loaded, kind


def edges_of(
    data: dict[str, Any], where: str, *, square: bool = True
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, int | None]:
    """Source and destination [E], the weights, and the number of vertices where a ``square`` adjacency says it."""
    if "edge_index" not in data:
        return _transposed_adjacency(data["adj_t"], where, square=square)
    what = f"{where}: edge_index"
    source, destination = as_edge_index(dense_array(data["edge_index"], what), what)
    for key in ("edge_weight", "edge_attr"):
        if key not in data:
            continue
        values = dense_array(data[key], f"{where}: {key}")
        if key == "edge_weight" or values.ndim == 1 or values.shape[1:] == (1,):
            return source, destination, as_weights(values, len(source), f"{where}: {key}"), None
        logger.info("%s: edge_attr has shape %s; only one weight an edge can be used: left out", where, values.shape)
    return source, destination, None, None


def _transposed_adjacency(
    adj_t: Any, where: str, *, square: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, int | None]:
    """Edges of ``adj_t`` [N, N], whose rows are destinations. Values that are all 1 are no weights."""
    if not isinstance(adj_t, torch.Tensor) or adj_t.layout == torch.strided:
        raise InputError(f"{where}: adj_t is of type {type(adj_t).__name__}, not a sparse tensor; save edge_index")
    if adj_t.ndim != 2 or (square and adj_t.shape[0] != adj_t.shape[1]):
        raise InputError(f"{where}: adj_t must be square, not of shape {tuple(adj_t.shape)}")
    coo = adj_t.detach().to_sparse_coo()
    # Without the underscore they ask for coalescing, which would add up double edges.
    destination, source = coo._indices().cpu().numpy()
    values = dense_array(coo._values(), f"{where}: the values of adj_t")
    weight = None if (values == 1).all() else as_weights(values, len(source), f"{where}: the values of adj_t")
    return source, destination, weight, int(adj_t.shape[0]) if square else None


def _class_names(data: dict[str, Any], where: str) -> tuple[str, ...] | None:
    names = data.get("class_names")
    if names is None:
        return None
    names = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: class_names must be a list of texts, a name for each class; correct or remove it")
    return tuple(names)


def _ids(data: dict[str, Any], n: int, where: str) -> ArrayIds | None:
    """Return what the vertices are called, where the graph was exported with that."""
    ids, names = data.get("vertex_ids"), data.get("vertex_id_columns")
    if ids is None or names is None:  # or another program means something else by it
        return None
    what = f"{where}: vertex_ids"
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: vertex_id_columns must be a list of texts; correct or remove it")
    columns = ids if isinstance(ids, dict) else dict.fromkeys(names[:1], ids)
    if set(columns) != set(names):
        raise InputError(f"{what} and vertex_id_columns name different columns; correct or remove them")
    arrays = [columns[name] for name in names]
    return ArrayIds(
        names, [dense_array(each, what) if isinstance(each, torch.Tensor) else each for each in arrays], n, what
    )
