"""Graphs of DGL: a file of ``dgl.save_graphs`` with one homogeneous graph in it.

Vertices carry ``feat`` (``x``, ``features``), ``label`` (``y``, ``labels``) and ``train_mask``, ``val_mask``
(``valid_mask``), ``test_mask``; edges ``w`` (``weight``, ``edge_weight``). The tensors that DGL saves beside its
graphs may hold ``num_classes``, and ``train_idx``, ``val_idx``, ``test_idx`` in place of masks, which keep an order.
Other names are in :class:`gsplit.data.importers.keys.Keys`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import as_count, as_features, as_vertex_set, as_weights, is_mask
from gsplit.data.importers.keys import SET_NAMES, Keys, found
from gsplit.data.importers.source import GraphSource, array_edges
from gsplit.data.importers.torch_files import dense_array
from gsplit.data.links.edge_sets import links_of_files
from gsplit.errors import InputError

FEATURES = ("feat", "x", "features")
LABELS = ("label", "y", "labels")
WEIGHTS = ("w", "weight", "edge_weight")
PROBE = "import sys, dgl; dgl.load_graphs(sys.argv[1])"


def load_dgl(path: Path, keys: Keys | None = None) -> GraphSource:
    """Read the graph of a file of ``dgl.save_graphs``.

    Raises:
        InputError: where DGL is missing, or the file is damaged, or holds several or heterogeneous graphs,
            or tensors that do not fit each other.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing" if not path.exists() else f"{path} is a folder; name the .bin file")
    dgl = import_dgl()
    _probe(path)
    graphs, beside = dgl.load_graphs(str(path))
    if len(graphs) != 1:
        raise InputError(f"{path} holds {len(graphs)} graphs; save the one to train on alone")
    return dgl_source(graphs[0], beside, name=path.stem, where=str(path), keys=keys or Keys())


def given_dgl(graph: Any, *, name: str, where: str, keys: Keys) -> GraphSource:
    """Take a ``DGLGraph`` that lies in memory, on any device.

    Raises:
        InputError: as :func:`load_dgl`.
    """
    dgl = import_dgl()
    if not isinstance(graph, dgl.DGLGraph):
        of_dataset = "; of a dataset give its graph, dataset[0]" if hasattr(graph, "__getitem__") else ""
        raise InputError(f"{where}: takes a dgl.DGLGraph, not a {type(graph).__name__}{of_dataset}")
    return dgl_source(graph, {}, name=name, where=where, keys=keys)


def dgl_source(graph: Any, beside: dict[str, Any], *, name: str, where: str, keys: Keys) -> GraphSource:
    """The graph, with the tensors that DGL keeps ``beside`` it in a file.

    Raises:
        InputError: naming ``where``, for a heterogeneous graph, and tensors that are missing or do not fit each
            other.
    """
    if len(graph.ntypes) != 1 or len(graph.canonical_etypes) != 1:
        raise InputError(f"{where} holds a heterogeneous graph; only homogeneous ones can be imported")
    n = int(graph.num_nodes())
    if n < 1:
        raise InputError(f"{where}: the graph has no vertices")
    source, destination = (ids.cpu().numpy() for ids in graph.edges(order="eid"))
    weight, weight_name = _first(graph.edata, WEIGHTS, where)
    x_key = found(graph.ndata, FEATURES, keys.feature_key, "--feature-key", f"{where}: ndata")
    y_key = found(graph.ndata, LABELS, keys.label_key, "--label-key", f"{where}: ndata")
    x, x_name = _first(graph.ndata, (x_key,) if x_key else (), where)
    y, y_name = _first(graph.ndata, (y_key,) if y_key else (), where)
    return GraphSource(
        name=name,
        edges=array_edges(
            source,
            destination,
            None if weight is None else as_weights(weight, len(source), f"{where}: edata[{weight_name!r}]"),
        ),
        num_vertices=n,
        features=None if x is None else as_features(x, n, f"{where}: ndata[{x_name!r}]"),
        labels=None if y is None else as_labels(y, n, f"{where}: ndata[{y_name!r}]"),
        num_classes=as_count(beside.get("num_classes"), f"{where}: num_classes"),
        vertex_sets=_vertex_sets(graph.ndata, beside, n, where, keys),
        links=links_of_files(beside, where),
        where=where,
        called={} if y is None else {"labels": f"{where}: ndata[{y_name!r}]"},
    )


def import_dgl() -> Any:
    """The module ``dgl``.

    Raises:
        InputError: where it is missing or does not load.
    """
    os.environ.setdefault("DGLBACKEND", "pytorch")  # or DGL asks for it, and writes to the home folder
    try:
        import dgl
    except (ImportError, OSError) as error:
        raise InputError(
            f"graphs of DGL need DGL ({error}): pip install 'gsplit[dgl]', with Python 3.10 or 3.11"
        ) from None
    return dgl


def _probe(path: Path) -> None:
    """Read the file in another process first: on a damaged one DGL ends the whole process, with no exception."""
    tried = subprocess.run([sys.executable, "-c", PROBE, str(path.absolute())], capture_output=True, check=False)
    if tried.returncode:
        raise InputError(f"{path} is damaged or not a file of dgl.save_graphs: DGL cannot read it")


def _first(frame: Any, names: tuple[str, ...], where: str) -> tuple[NDArray[Any] | None, str]:
    """The first of ``names`` that a frame has: its array and its name."""
    for name in names:
        if name in frame:
            return dense_array(frame[name], f"{where}: {name}"), name
    return None, ""


def _vertex_sets(
    vertices: Any, beside: dict[str, Any], n: int, where: str, keys: Keys
) -> dict[str, NDArray[np.int64]]:
    vertex_sets = {}
    asked = keys.vertex_sets(where)
    for name, key in (asked or {}).items():
        found([*vertices, *beside], (), key, "--mask-key", where)
        values, _ = _first(vertices if key in vertices else beside, (key,), where)
        assert values is not None
        vertex_sets[name] = as_vertex_set(values, n, f"{where}: {key}", mask=is_mask(key, values))
    for name, theirs in SET_NAMES.items() if asked is None else ():
        for frame, kind in ((vertices, "mask"), (beside, "idx")):  # the list replaces the mask
            values, key = _first(frame, tuple(f"{their}_{kind}" for their in theirs), where)
            if values is not None:
                vertex_sets[name] = as_vertex_set(values, n, f"{where}: {key}", mask=kind == "mask")
    return {name: ids for name, ids in vertex_sets.items() if len(ids)}
