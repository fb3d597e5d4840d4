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

from gsplit.data.importers.checked import as_count, as_weights
from gsplit.data.importers.formats.torch_files import dense_array
from gsplit.data.importers.keys import USUAL, Keys, vertices_of
from gsplit.data.importers.source import EdgeChunks, GraphSource, TypedSource, array_edges
from gsplit.data.links.edge_sets import links_of_files
from gsplit.data.schema import Relation
from gsplit.errors import InputError

FEATURES = ("feat", "x", "features")
LABELS = ("label", "y", "labels")
WEIGHTS = ("w", "weight", "edge_weight")
PROBE = "import sys, dgl; dgl.load_graphs(sys.argv[1])"


def load_dgl(path: Path, keys: Keys = USUAL) -> GraphSource:
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
    return dgl_source(graphs[0], beside, name=path.stem, where=str(path), keys=keys)


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
    frame = graph.edges[relation].data
    key = next((key for key in WEIGHTS if key in frame), None)
    what = f"{where}: edata[{key!r}]"
    weight = None if key is None else dense_array(frame[key], what)
    return array_edges(source, destination, as_weights(weight, len(source), what))


def _vertices(frame: Any, beside: dict[str, Any], n: int, *, name: str, where: str, keys: Keys) -> GraphSource:
    """The vertices of a frame, as a graph without edges; beside it are no features and no labels."""
    rows = [key for key in frame if keys.mask_key or not key.endswith("_idx")]  # a list of ids has no row a vertex
    others = {key: tensor for key, tensor in beside.items() if key not in (*rows, *FEATURES, *LABELS)}

    def call(key: str) -> str:
        return f"{where}: {key}" if key in others else f"{where}: ndata[{key!r}]"

    vertices = vertices_of(
        [*rows, *others],
        lambda key: dense_array(others[key] if key in others else frame[key], call(key)),
        call,
        n,
        name=name,
        where=where,
        keys=keys,
        features=FEATURES,
        labels=LABELS,
    )
    return replace(vertices, num_classes=_num_classes(beside, where))


def _num_classes(beside: dict[str, Any], where: str) -> int | None:
    """The number of classes, where it stands beside a graph; DGL reads a tensor of no dimension as any number."""
    number = beside.get("num_classes")
    if number is not None and not number.ndim:
        raise InputError(
            f"{where}: num_classes is a tensor of no dimension, of which DGL keeps no value; save it as "
            "torch.tensor([7])"
        )
    return as_count(number, f"{where}: num_classes")


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
