"""Graphs of DGL, of one type or several: a file of ``dgl.save_graphs`` with one graph in it.

Vertices carry ``feat`` (``x``, ``features``), ``label`` (``y``, ``labels``) and ``train_mask``, ``val_mask``
(``valid_mask``), ``test_mask``; edges ``w`` (``weight``, ``edge_weight``). The tensors that DGL saves beside its
graphs may hold ``num_classes``, and ``train_idx``, ``val_idx``, ``test_idx`` in place of masks, which keep an order.
Other names are in :class:`gsplit.data.importers.keys.Keys`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import as_count, as_features, as_vertex_set, as_weights, is_mask
from gsplit.data.importers.formats.torch_files import dense_array
from gsplit.data.importers.keys import SET_NAMES, Keys, found
from gsplit.data.importers.source import NO_EDGES, EdgeChunks, GraphSource, TypedSource, array_edges
from gsplit.data.links.edge_sets import links_of_files
from gsplit.data.schema import Relation
from gsplit.errors import InputError

FEATURES = ("feat", "x", "features")
LABELS = ("label", "y", "labels")
WEIGHTS = ("w", "weight", "edge_weight")
PROBE = "import sys, dgl; dgl.load_graphs(sys.argv[1])"


def load_dgl(path: Path, keys: Keys | None = None) -> GraphSource:
    """Read the graph of a file of ``dgl.save_graphs``.

    Raises:
        InputError: where DGL is missing, or the file is damaged, or holds several graphs, or
            tensors that do not fit each other.
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
    """The graph, with the tensors that DGL keeps ``beside`` it in a file; they are of the type that has labels.

    Raises:
        InputError: naming ``where``, and tensors that are missing or do not fit each other.
    """
    if len(graph.ntypes) == len(graph.canonical_etypes) == 1:
        n = int(graph.num_nodes())
        if n < 1:
            raise InputError(f"{where}: the graph has no vertices")
        edges = _edges(graph, graph.canonical_etypes[0], where)
        vertices = _vertices(graph.ndata, beside, n, name=name, where=where, keys=keys)
        return replace(vertices, edges=edges, links=links_of_files(beside, where))
    frames = {of: graph.nodes[of].data for of in graph.ntypes}
    keys.check_some(frames.values(), where)
    labelled = [of for of, frame in frames.items() if keys.label_key in frame or any(key in frame for key in LABELS)]
    return TypedSource(
        name=name,
        where=where,
        types={
            of: _vertices(
                frame,
                beside if labelled == [of] else {},
                int(graph.num_nodes(of)),
                name=name,
                where=f"{where}: type {of}",
                keys=keys.among([*frame, *beside] if labelled == [of] else frame),
            )
            for of, frame in frames.items()
        },
        relations={
            Relation(*each): _edges(graph, each, f"{where}: relation {Relation(*each)}")
            for each in graph.canonical_etypes
        },
    )


def _edges(graph: Any, relation: tuple[str, str, str], where: str) -> EdgeChunks:
    source, destination = (ids.cpu().numpy() for ids in graph.edges(order="eid", etype=relation))
    weight, key = _first(graph.edges[relation].data, WEIGHTS, where)
    return array_edges(
        source, destination, None if weight is None else as_weights(weight, len(source), f"{where}: edata[{key!r}]")
    )


def _vertices(frame: Any, beside: dict[str, Any], n: int, *, name: str, where: str, keys: Keys) -> GraphSource:
    """The vertices of a frame, as a graph without edges."""
    x_key = found(frame, FEATURES, keys.feature_key, "--feature-key", f"{where}: ndata")
    y_key = found(frame, LABELS, keys.label_key, "--label-key", f"{where}: ndata")
    x, x_name = _first(frame, (x_key,) if x_key else (), where)
    y, y_name = _first(frame, (y_key,) if y_key else (), where)
    return GraphSource(
        name=name,
        edges=NO_EDGES,
        num_vertices=n,
        features=None if x is None else as_features(x, n, f"{where}: ndata[{x_name!r}]"),
        labels=None if y is None else as_labels(y, n, f"{where}: ndata[{y_name!r}]"),
        num_classes=as_count(beside.get("num_classes"), f"{where}: num_classes"),
        vertex_sets=_vertex_sets(frame, beside, n, where, keys),
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
