"""Graphs of PyTorch Geometric: a saved ``Data`` or ``HeteroData``, or the processed file of an ``InMemoryDataset``.

Read are ``edge_index`` [2, E] (or ``adj_t``), ``edge_weight`` [E] (or ``edge_attr``, if it is one number an edge),
``x``, ``y``, ``num_nodes``, ``num_classes``, ``class_names`` (texts, of the classes of ``y``), ``vertex_ids`` with
``vertex_id_columns`` (what the vertices are called, as ``gsplit export`` writes them), and for each vertex
set ``train_idx`` or ``train_mask`` (``val``, ``valid``, ``test`` likewise), or what
:class:`gsplit.data.importers.keys.Keys` names in their places; and links, as ``RandomLinkSplit`` makes and
``gsplit export`` writes them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsplit.data.importers.checked import as_edge_index
from gsplit.data.importers.formats.pyg_attributes import pyg_source, unpacked
from gsplit.data.importers.formats.pyg_types import typed_source, typed_stores
from gsplit.data.importers.formats.torch_files import dense_array, load_torch
from gsplit.data.importers.keys import USUAL, Keys
from gsplit.data.importers.source import GraphSource
from gsplit.data.links.edge_sets import EDGE_SETS, FILES, Links, links_of_files
from gsplit.errors import InputError

CLASSES = (
    *(("", name) for name in ("Data", "HeteroData", "TemporalData")),
    *((".data", name) for name in ("DataEdgeAttr", "DataTensorAttr")),
    *((".graph_store", name) for name in ("EdgeAttr", "EdgeLayout")),
    *((".storage", name) for name in ("BaseStorage", "EdgeStorage", "GlobalStorage", "NodeStorage")),
    (".feature_store", "TensorAttr"),
)
"""Module, within PyG's of data, and name of each class that its files hold."""
NOT_DATA = ("pre_filter.pt", "pre_transform.pt")
"""Files that a dataset's processed folder holds beside the graph."""


def load_pyg(path: Path, keys: Keys = USUAL) -> GraphSource:
    """Read a graph from a file, or from the root or processed folder of a dataset.

    Raises:
        InputError: where PyG is missing, or the file is damaged, holds other objects or several graphs, or tensors
            that do not fit each other.
    """
    file = _file(path)
    return _source(load_torch(file, _classes()), name=_name(file), where=str(file), keys=keys)


def given_pyg(data: Any, *, name: str, where: str, keys: Keys) -> GraphSource:
    """Take a ``Data`` or ``HeteroData`` that lies in memory; its tensors may be on any device.

    Raises:
        InputError: as :func:`load_pyg`.
    """
    _classes()  # or PyG is missing
    if _are_three(data):
        return _source(data, name=name, where=where, keys=keys)
    from torch_geometric.data import Data

    kind = type(data).__name__
    if not isinstance(data, Data) and kind not in ("HeteroData", "TemporalData"):
        of_dataset = "; of a dataset give its graph, dataset[0]" if hasattr(data, "__getitem__") else ""
        raise InputError(f"{where}: takes a Data or HeteroData of torch_geometric.data, not a {kind}{of_dataset}")
    return _source(data, name=name, where=where, keys=keys)


def _source(loaded: Any, *, name: str, where: str, keys: Keys) -> GraphSource:
    """The graph of an object, with its links; of three graphs the edges, features and labels of the first."""
    if (stores := typed_stores(loaded, where)) is not None:
        return typed_source(stores, name=name, where=where, keys=keys)
    parts = [_one_graph(each, where) for each in (loaded if _are_three(loaded) else [loaded])]
    source = pyg_source(parts[0], name=name, where=where, keys=keys)
    return replace(source, links=_links_of(parts, where))


def _links_of(parts: Sequence[dict[str, Any]], where: str) -> Links | None:
    """The links of a graph, or of the three that ``RandomLinkSplit`` makes of one; None where there are none.

    Pairs are ``edge_label_index`` [2, M]; those whose ``edge_label`` [M] is 0 do not belong together: in validation
    and test they are what all others are compared with, in training they are left out.

    Args:
        parts: the attributes of one graph, or of those of the training, validation and test pairs.
        where: what messages call it.

    Raises:
        InputError: for tensors of other types or shapes.
    """
    written = {name: dense_array(parts[0][name], f"{where}: {name}") for name in FILES if name in parts[0]}
    links = links_of_files(written, where)
    for name, part in zip(EDGE_SETS, parts, strict=False):
        if "edge_label_index" not in part:
            continue
        what = f"{where}: edge_label_index of the {name} pairs"
        index = as_edge_index(dense_array(part["edge_label_index"], what), what)
        pairs = np.stack(index, axis=1).astype(np.int64)
        label = np.ones(len(pairs)) if part.get("edge_label") is None else dense_array(part["edge_label"], what)
        if label.shape != (len(pairs),):
            raise InputError(f"{what}: edge_label must have the shape ({len(pairs)},), not {label.shape}")
        found: dict[str, Any] = {name: pairs[label > 0]}
        if name != "train" and (label <= 0).any():
            found[f"{name}_negatives"] = pairs[label <= 0]
        links = replace(links or Links.empty(), **found)
    return links


def _are_three(loaded: Any) -> bool:
    """Return whether an object is what ``RandomLinkSplit`` makes: graphs of training, validation and test pairs."""
    from torch_geometric.data import Data

    several = isinstance(loaded, (tuple, list)) and len(loaded) == 3
    return several and all(isinstance(each, Data) for each in loaded)


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
        return [getattr(importlib.import_module(f"torch_geometric.data{at}"), name) for at, name in CLASSES]
    except ImportError as error:
        raise InputError(f"graphs of PyG need PyG ({error}): pip install 'gsplit[pyg]'") from None


def _one_graph(loaded: Any, where: str) -> dict[str, Any]:
    """The attributes of the graph: a Data, a dict of them, or the tuple that an InMemoryDataset writes."""
    loaded, kind = unpacked(loaded, where)
    if "TemporalData" in (type(loaded).__name__, getattr(kind, "__name__", "")):
        raise InputError(f"{where} is a TemporalData; graphs without times (Data, HeteroData) can be imported")
    if not isinstance(loaded, dict):
        raise InputError(f"{where} holds a {type(loaded).__name__}; expected a torch_geometric.data.Data")
    return {key: value for key, value in loaded.items() if isinstance(key, str) and value is not None}
