"""Graph stores of graphs that lie in memory: the same importers and the same builder as for files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gsplit.config.fields import check_options
from gsplit.data.api import options_of
from gsplit.data.build import fill_store
from gsplit.data.build_options import BuildOptions
from gsplit.data.folders import FolderWriter
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.databases import Queries
from gsplit.data.importers.frames import (
    IdNames,
    check_edge_order,
    frame_file,
    given_file,
    given_set,
    is_frame,
    set_file,
)
from gsplit.data.importers.in_memory import arrays_source
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.link_files import LinkFiles
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.table_files import TableFile
from gsplit.data.importers.text_rules import TextRules
from gsplit.data.importers.vertex_files import VertexFiles
from gsplit.data.inputs import open_inputs
from gsplit.data.memory.kept import kept_store
from gsplit.data.store import GraphStore
from gsplit.errors import InputError
from gsplit.processes import check_no_trainer

FIELDS = {"x": "features", "y": "labels", "split_file": "split_file", **{name: name for name in VERTEX_SETS}}
"""Arguments of :func:`from_arrays` that may be tables, each with its field of VertexFiles."""
WITHOUT = ("features", "labels", *VERTEX_SETS, "num_vertices", "quote", "header", *(f.name for f in fields(Queries)))
"""Fields of options that have arguments of their own, or none, and those of text."""
TAKERS = {"torch_geometric": "from_pyg", "dgl": "from_dgl"}
"""Packages of graphs, and what takes theirs."""


def from_arrays(
    edge_index: Any,
    x: Any = None,
    y: Any = None,
    *,
    edge_weight: Any = None,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    train_edges: Any = None,
    valid_edges: Any = None,
    test_edges: Any = None,
    valid_candidates: Any = None,
    test_candidates: Any = None,
    valid_negatives: Any = None,
    test_negatives: Any = None,
    hard_negatives: Any = None,
    train_weights: Any = None,
    num_vertices: int | None = None,
    num_classes: int | None = None,
    name: str = "graph",
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> GraphStore:
    """Make a graph store of NumPy's arrays or PyTorch's tensors, which are copied; those on a GPU, too.

    Edges, features, labels and pairs may be data frames, of pandas, Polars or Arrow: the store is the one that
    ``gsplit import`` makes of these tables in Parquet files. An index of pandas that has a name is one more column.

    Args:
        edge_index: integers [2, E], or a pair of [E]: sources and destinations. Ids count from 0. A vertex aggregates
            from the sources of its in-edges. Or a table of edges, with the columns ``src`` and ``dst``, and perhaps
            ``weight``.
        x: features [N, D] or [N], finite numbers, stored as float32, or float16 if they are that; or a table.
        y: labels: one class a vertex, integers [N] (-1 or NaN: unlabelled), or 0 and 1 for each class, [N, C]; with
            ``task="regression"`` numbers [N] or [N, C], NaN where one is not known. Or a table or a column, also of
            names of classes.
        edge_weight: [E] finite numbers.
        train, valid, test: the vertex sets, each a mask [N] of booleans, which goes by its index where pandas names
            that, or a list of ids; their vertices are labelled.
        train_edges, valid_edges, test_edges: pairs of vertices that belong together, integers [2, M] like
            ``edge_index``, to be learned and predicted (docs/formats.md, "Links"). Without ``train_edges`` all edges
            are learned. Validation and test pairs may not be among the edges, nor their reverses
            (``leaks="drop"`` takes them out).
        valid_candidates, test_candidates: destinations [M, K] that each pair is compared with, beside its own.
        valid_negatives, test_negatives: pairs [2, K] that all pairs are compared with.
        hard_negatives: destinations [M, H] that do not belong to the source of each training pair, -1 for none.
        train_weights: [M] what each of ``train_edges`` counts in the loss, 0 or more; of a table its ``weight``.
        num_vertices: N; by default what ``x``, ``y`` or masks tell, or the largest id.
        num_classes: C; by default one more than the largest label.
        name: of the graph.
        out: a folder that keeps the store. By default it lies in a temporary one, which goes with the store.
        overwrite: replace the store that is in ``out``.
        options: the other fields of :class:`gsplit.data.build.BuildOptions`: ``undirected``, ``self_loops``,
            ``duplicates`` (the first of equal edges stays by default; ``"sum"`` adds up their weights),
            ``split=(0.6, 0.2, 0.2)`` with ``seed``, ``task``, ``feature_dtype``. Where there are tables also those of
            ``VertexFiles`` and ``IdOptions``, as in :func:`gsplit.import_graph`: ``ids="any"``, ``id_column``,
            ``strip``, ``columns``, ``missing``, ``label_column``, ``split_file`` (a path or a table) and so on.

    Returns:
        The store, for ``gsplit.partition``. With ``with`` or ``close()`` a temporary one goes earlier.

    Raises:
        InputError: for arrays of other types and shapes or that do not fit each other, ids out of range, NaN or
            infinity in features and weights, an ``out`` that exists.

    Examples:
        >>> cycle = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> store = gsplit.from_arrays(cycle, x=np.eye(4), y=[0, 1, 0, 1], train=[0, 1], test=[3])
        >>> store.graph.num_vertices, store.graph.num_edges, store.graph.num_classes
        (4, 4, 2)
        >>> import pandas as pd
        >>> sales = pd.DataFrame({"src": ["Ann", "Bob"], "dst": ["Bag", "Bag"]})
        >>> gsplit.from_arrays(sales, ids="any").graph.num_vertices
        3
    """
    where = "gsplit.from_arrays"
    check_no_trainer(where)
    tables = {"x": x, "y": y, "split_file": options.get("split_file")}
    named = IdNames(options.get("id_column"), options.get("ids") == "any")
    sets = {"train": train, "valid": valid, "test": test}
    vertex_sets = {key: given_set(value, f"{where}: {key}", named) for key, value in sets.items()}
    links = {
        "train_edges": train_edges,
        "valid_edges": valid_edges,
        "test_edges": test_edges,
        "valid_candidates": valid_candidates,
        "test_candidates": test_candidates,
        "valid_negatives": valid_negatives,
        "test_negatives": test_negatives,
        "hard_negatives": hard_negatives,
        "train_weights": train_weights,
    }
    if any(map(is_frame, (edge_index, *tables.values(), *links.values()))):
        return _of_tables(
            edge_index,
            {**tables, **vertex_sets},
            links,
            named,
            edge_weight=edge_weight,
            num_vertices=num_vertices,
            num_classes=num_classes,
            name=name,
            where=where,
            out=out,
            overwrite=overwrite,
            options=options,
        )
    check_edge_order(edge_index, edge_weight, where)
    source = arrays_source(
        edge_index,
        x,
        y,
        edge_weight=edge_weight,
        vertex_sets=vertex_sets,
        num_vertices=num_vertices,
        num_classes=num_classes,
        name=name,
        where=where,
        links=links,
    )
    return _stored(source, where, out, overwrite, "give y", options)


def from_pyg(
    data: Any,
    *,
    feature_key: str | None = None,
    label_key: str | None = None,
    mask_key: str | Sequence[str | None] | None = None,
    name: str = "graph",
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> GraphStore:
    """Make a graph store of a ``torch_geometric.data.Data``, the same as ``gsplit import`` makes of its file.

    Read are ``edge_index`` [2, E] (or ``adj_t``), ``edge_weight`` [E], ``x`` [N, D], ``y`` [N] or [N, C],
    ``train_mask``, ``val_mask`` and ``test_mask`` [N], and the others of docs/formats.md, "Importing".

    Args:
        data: a homogeneous graph, on any device; of a dataset ``dataset[0]``. Or the three graphs, of training,
            validation and test pairs, that ``RandomLinkSplit`` makes of one.
        feature_key, label_key: the attributes to read in place of ``x`` and ``y``.
        mask_key: the attributes of the training, validation and test masks (or lists of ids), in this order, as a
            sequence or with commas: ``"train_mask,stopping_mask,test_mask"``.
        name, out, overwrite, options: as for :func:`from_arrays`.

    Returns:
        The store, as :func:`from_arrays` does.

    Raises:
        InputError: where PyG is missing, for other graphs, an attribute that is not there, tensors that do not fit
            each other, and all that :func:`from_arrays` refuses.

    Examples:
        >>> from torch_geometric.data import Data
        >>> data = Data(x=torch.eye(3), y=torch.tensor([0, 1, 0]), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> with gsplit.from_pyg(data, split=(0.4, 0.3, 0.3)) as store:
        ...     print(store.graph.num_features)
        3
    """
    where = "gsplit.from_pyg"
    check_no_trainer(where)
    from gsplit.data.importers.pyg import given_pyg

    keys = Keys(feature_key=feature_key, label_key=label_key, mask_key=mask_key)  # type: ignore[arg-type]
    source = given_pyg(data, name=name, where=where, keys=keys)
    return _stored(source, where, out, overwrite, "name them with label_key", options)


def from_dgl(
    graph: Any,
    *,
    feature_key: str | None = None,
    label_key: str | None = None,
    mask_key: str | Sequence[str | None] | None = None,
    name: str = "graph",
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> GraphStore:
    """Make a graph store of a ``dgl.DGLGraph``, the same as ``gsplit import`` makes of its file.

    Read are of ``ndata`` ``feat`` [N, D], ``label`` [N] or [N, C], ``train_mask``, ``val_mask`` and ``test_mask``
    [N], of ``edata`` the weights ``w`` [E], and the others of docs/formats.md, "Importing".

    Args:
        graph: a homogeneous graph, on any device; of a dataset ``dataset[0]``.
        feature_key, label_key, mask_key: names in ``ndata``, as for :func:`from_pyg`.
        name, out, overwrite, options: as for :func:`from_arrays`.

    Returns:
        The store, as :func:`from_arrays` does.

    Raises:
        InputError: where DGL is missing, for other graphs, a name that is not there, tensors that do not fit each
            other, and all that :func:`from_arrays` refuses.

    Examples:
        >>> import dgl
        >>> graph = dgl.graph((torch.tensor([0, 1]), torch.tensor([1, 2])))
        >>> graph.ndata["feat"] = torch.eye(3)
        >>> with gsplit.from_dgl(graph) as store:
        ...     print(store.graph.num_features)
        3
    """
    where = "gsplit.from_dgl"
    check_no_trainer(where)
    from gsplit.data.importers.dgl import given_dgl

    keys = Keys(feature_key=feature_key, label_key=label_key, mask_key=mask_key)  # type: ignore[arg-type]
    source = given_dgl(graph, name=name, where=where, keys=keys)
    return _stored(source, where, out, overwrite, "name them with label_key", options)


def _of_tables(
    edge_index: Any,
    others: dict[str, Any],
    links: dict[str, Any],
    named: IdNames,
    *,
    edge_weight: Any,
    num_vertices: int | None,
    num_classes: int | None,
    name: str,
    where: str,
    out: str | os.PathLike[str] | None,
    overwrite: bool,
    options: dict[str, Any],
) -> GraphStore:
    """The store of tables, and of the arrays beside them; ``others`` are arguments by their keys in ``FIELDS``."""
    asked = {key: value for key, value in options.items() if key != "split_file" or not is_frame(value)}
    check_options(asked, VertexFiles, IdOptions, TextRules, BuildOptions, where=where, without=WITHOUT)
    _check_name(name, where)
    build = options_of(BuildOptions, {**asked, "num_vertices": num_vertices})
    ids, texts = options_of(IdOptions, asked), options_of(TextRules, asked)

    if links.pop("train_weights") is not None:
        raise InputError(f"{where}: train_weights are for arrays alone; give the table train_edges a column weight")

    def fill(writer: FolderWriter) -> None:
        folder = writer.path.parent
        kept = {key: value for key, value in others.items() if is_frame(value)}
        if is_frame(edge_index):
            if edge_weight is not None:
                raise InputError(
                    f"{where}: edge_weight is for arrays of edges; give the table a column called weight"
                )
            kept |= {key: value for key, value in others.items() if value is not None and key != "split_file"}
            source: TableFile | GraphSource = frame_file(edge_index, folder, f"{where}: edge_index", None)
        else:
            arrays = {key: None if key in kept else value for key, value in others.items()}
            check_edge_order(edge_index, edge_weight, where)
            source = arrays_source(
                edge_index,
                arrays["x"],
                arrays["y"],
                edge_weight=edge_weight,
                vertex_sets={key: arrays[key] for key in VERTEX_SETS},
                num_vertices=num_vertices,
                num_classes=num_classes,
                name=name,
                where=where,
            )
        paths = {
            FIELDS[key]: (set_file if key in VERTEX_SETS else given_file)(value, folder, f"{where}: {key}", named)
            for key, value in kept.items()
        }
        files = options_of(VertexFiles, {**asked, **paths})
        pairs = {
            key: given_file(value, folder, f"{where}: {key}", None)
            for key, value in links.items()
            if value is not None
        }
        found, made = open_inputs(
            source, files=files, keys=Keys(), ids=ids, build=build, folder=folder, links=LinkFiles(**pairs)
        )
        if num_classes is not None:
            found = replace(found, num_classes=num_classes)
        fill_store(writer, found, made, name=name, described_as=where)

    with texts.applied():
        return kept_store(fill, where, out, overwrite)


def as_store(graph: Any, call: str) -> GraphStore | Path:
    """Return an open store or the path of one as it is, and a graph of PyG or DGL as a temporary store.

    Raises:
        InputError: for anything else, naming ``call``, and for what :func:`from_pyg` and :func:`from_dgl` refuse.
    """
    if isinstance(graph, GraphStore):
        return graph
    if isinstance(graph, (str, os.PathLike)):
        return Path(graph)
    packages = [each.__module__.partition(".")[0] for each in type(graph).__mro__]
    taker = next((TAKERS[package] for package in packages if package in TAKERS), None)
    if taker is None:
        raise InputError(
            f"{call} takes a graph store, its folder, or a graph of PyG or DGL, not a {type(graph).__name__}; "
            "gsplit.from_arrays makes a store of arrays"
        )
    return from_pyg(graph) if taker == "from_pyg" else from_dgl(graph)


def _stored(
    source: GraphSource,
    where: str,
    out: str | os.PathLike[str] | None,
    overwrite: bool,
    to_label: str,
    options: dict[str, Any],
) -> GraphStore:
    """The store of a source, in ``out`` or in a temporary folder; ``to_label`` says how labels are given."""
    check_options(options, BuildOptions, where=where)
    _check_name(source.name, where)
    build = BuildOptions(**options)
    if source.labels is None:
        for what, asked in (
            ("split", build.split),
            ("task='regression'", build.task == "regression"),
            (f"the {next(iter(source.vertex_sets), '')} set", source.vertex_sets),
        ):
            if asked:
                raise InputError(f"{where}: {what} needs labels, and there are none; {to_label}")
    return kept_store(
        lambda writer: fill_store(writer, source, build, name=source.name, described_as=where), where, out, overwrite
    )


def _check_name(name: Any, where: str) -> None:
    if not isinstance(name, str) or not name.isprintable():
        raise InputError(f"{where}: name must be a line of text, not {name!r}")
