"""Graphs of PyTorch Geometric: a saved ``Data``, or the processed file of an ``InMemoryDataset``.

Read are ``edge_index`` [2, E] (or ``adj_t``), ``edge_weight`` [E] (or ``edge_attr``, if it is one number an edge),
``x``, ``y``, ``num_nodes``, ``num_classes``, and for each vertex set ``train_idx`` or ``train_mask`` (``val``,
``valid``, ``test`` likewise).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import as_features, as_ids, as_vertex_set, as_weights, one_line
from gsplit.data.importers.source import Source, array_edges
from gsplit.data.importers.torch_files import as_array, load_torch
from gsplit.errors import InputError

SET_NAMES = {"train": ("train",), "valid": ("val", "valid"), "test": ("test",)}
NOT_DATA = ("pre_filter.pt", "pre_transform.pt")
"""Files that a dataset's processed folder holds beside the graph."""

logger = logging.getLogger(__name__)


def load_pyg(path: Path) -> Source:
    """Read a graph from a file, or from the root or processed folder of a dataset.

    Raises:
        InputError: where PyG is missing, or the file is damaged, holds other objects, or several or
            heterogeneous graphs, or tensors that do not fit each other.
    """
    file = _file(path)
    classes = _classes()
    data = _one_graph(load_torch(file, classes), file)
    if "edge_index" not in data and "adj_t" not in data:
        found = one_line(", ".join(sorted(data))) or "nothing"
        raise InputError(f"{file} has neither edge_index nor adj_t; it has {found}")
    source, destination, weight, size = _edges(data, file)
    n = _num_vertices(data, source, destination, size, file)
    x, y = data.get("x"), data.get("y")
    return Source(
        name=_name(file),
        edges=array_edges(source, destination, weight),
        num_vertices=n,
        features=None if x is None else as_features(as_array(x, f"{file}: x"), n, f"{file}: x"),
        labels=None if y is None else as_labels(as_array(y, f"{file}: y"), n, f"{file}: y"),
        num_classes=_count(data, "num_classes", file),
        vertex_sets=_vertex_sets(data, n, file),
        where=str(file),
        called={"labels": f"{file}: y"},
    )


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    folder = path / "processed" if (path / "processed").is_dir() else path
    found = sorted(file for file in folder.glob("*.pt") if file.name not in NOT_DATA)
    if len(found) != 1:
        names = ", ".join(file.name for file in found[:5]) or "none"
        raise InputError(f"{folder} should hold one .pt file of a graph, but has {names}; name the file itself")
    return found[0]


def _name(file: Path) -> str:
    """Name of the graph: that of the dataset where the file is a processed one, which all have the same name."""
    return file.parent.parent.name or file.stem if file.parent.name == "processed" else file.stem


def _classes() -> list[Any]:
    try:
        from torch_geometric.data import Data, HeteroData, TemporalData
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.feature_store import TensorAttr
        from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout
        from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage
    except ImportError as error:
        raise InputError(f"graphs of PyG need PyG ({error}): pip install 'gsplit[pyg]'") from None
    return [
        Data,
        HeteroData,
        TemporalData,
        DataEdgeAttr,
        DataTensorAttr,
        TensorAttr,
        EdgeAttr,
        EdgeLayout,
        BaseStorage,
        EdgeStorage,
        GlobalStorage,
        NodeStorage,
    ]


def _one_graph(loaded: Any, file: Path) -> dict[str, Any]:
    """The attributes of the graph: a Data, a dict of them, or the tuple that an InMemoryDataset writes."""
    from torch_geometric.data import Data

    kind: Any = Data
    if isinstance(loaded, tuple) and len(loaded) in (2, 3):
        loaded, slices, kind = (*loaded, Data)[:3]
        counts = [len(s) - 1 for s in slices.values() if hasattr(s, "__len__")] if isinstance(slices, dict) else []
        if counts and max(counts) != 1:
            raise InputError(f"{file} holds {max(counts)} graphs; save the one to train on as a Data of its own")
    for thing in (type(loaded), kind):
        if getattr(thing, "__name__", "") in ("HeteroData", "TemporalData"):
            raise InputError(f"{file} is a {thing.__name__}; only homogeneous graphs (Data) can be imported")
    if isinstance(loaded, Data):
        try:
            loaded = loaded.to_dict()
        except Exception:  # a Data whose state is not one, however that came about
            raise InputError(f"{file} is damaged: its Data has no valid content") from None
    if not isinstance(loaded, dict):
        raise InputError(f"{file} holds a {type(loaded).__name__}; expected a torch_geometric.data.Data")
    return {key: value for key, value in loaded.items() if isinstance(key, str) and value is not None}


def _edges(data: dict[str, Any], file: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, int | None]:
    """Source and destination [E], the weights, and the number of vertices where the adjacency says it."""
    if "edge_index" not in data:
        return _transposed_adjacency(data["adj_t"], file)
    edge_index = as_array(data["edge_index"], f"{file}: edge_index")
    if edge_index.ndim != 2 or len(edge_index) != 2:
        raise InputError(f"{file}: edge_index must have the shape (2, E), not {edge_index.shape}")
    source, destination = (as_ids(row, f"{file}: edge_index") for row in edge_index)
    for key in ("edge_weight", "edge_attr"):
        if key not in data:
            continue
        values = as_array(data[key], f"{file}: {key}")
        if key == "edge_weight" or values.ndim == 1 or values.shape[1:] == (1,):
            return source, destination, as_weights(values, len(source), f"{file}: {key}"), None
        logger.info("%s: edge_attr has shape %s; only one weight an edge can be used: left out", file, values.shape)
    return source, destination, None, None


def _transposed_adjacency(
    adj_t: Any, file: Path
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, int | None]:
    """Edges of ``adj_t`` [N, N], whose rows are destinations. Values that are all 1 are no weights."""
    if not isinstance(adj_t, torch.Tensor) or adj_t.layout == torch.strided:
        raise InputError(f"{file}: adj_t is of type {type(adj_t).__name__}, not a sparse tensor; save edge_index")
    if adj_t.ndim != 2 or adj_t.shape[0] != adj_t.shape[1]:
        raise InputError(f"{file}: adj_t must be square, not of shape {tuple(adj_t.shape)}")
    coo = adj_t.detach().to_sparse_coo()
    # Without the underscore they ask for coalescing, which would add up double edges.
    destination, source = coo._indices().numpy()
    values = as_array(coo._values(), f"{file}: the values of adj_t")
    weight = None if (values == 1).all() else as_weights(values, len(source), f"{file}: the values of adj_t")
    return source, destination, weight, int(adj_t.shape[0])


def _num_vertices(
    data: dict[str, Any], source: NDArray[Any], destination: NDArray[Any], size: int | None, file: Path
) -> int:
    n = _count(data, "num_nodes", file)
    if n is None:
        n = size
    for key in ("x", "y", "train_mask"):
        value = data.get(key)
        if n is None and isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim:
            n = len(value)
    if n is None:
        n = max(int(source.max(initial=-1)), int(destination.max(initial=-1))) + 1
    if n < 1:
        raise InputError(f"{file}: the graph has no vertices")
    return n


def _vertex_sets(data: dict[str, Any], n: int, file: Path) -> dict[str, NDArray[np.int64]]:
    vertex_sets = {}
    for name, theirs in SET_NAMES.items():
        keys = [f"{their}_{kind}" for kind in ("idx", "mask") for their in theirs]
        key = next((key for key in keys if key in data), None)
        if key is None:
            continue
        values = as_array(data[key], f"{file}: {key}")
        if key.endswith("mask") and values.ndim == 2 and values.shape[1] > 1:
            logger.info("%s: %s has %d columns, one a set; the first is used", file, key, values.shape[1])
            values = values[:, 0]
        vertex_sets[name] = as_vertex_set(values, n, f"{file}: {key}", mask=key.endswith("mask"))
    return {name: ids for name, ids in vertex_sets.items() if len(ids)}


def _count(data: dict[str, Any], key: str, file: Path) -> int | None:
    value = data.get(key)
    if isinstance(value, (torch.Tensor, np.ndarray, np.integer)):
        values = np.asarray(value)
        value = values.item() if values.size == 1 else value
    if value is not None and (type(value) is not int or value < 0):
        raise InputError(f"{file}: {key} must be one integer from 0 on, not of type {type(value).__name__}")
    return value
