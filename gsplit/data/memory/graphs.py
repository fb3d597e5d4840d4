"""Graph stores of graphs that lie in memory: the same importers and the same builder as for files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsplit.config.fields import check_options
from gsplit.data.api import check_name, kept_store
from gsplit.data.build_options import BuildOptions
from gsplit.data.importers.frames import IdNames, check_edge_order, given_set, is_frame
from gsplit.data.importers.in_memory import arrays_source, typed_arrays_source
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.source import GraphSource, TypedSource
from gsplit.data.memory.tables_in_memory import store_of_tables
from gsplit.data.store import GraphStore
from gsplit.data.typed_build import fill_any_store
from gsplit.errors import InputError
from gsplit.processes import check_no_trainer

TAKERS = {"torch_geometric": "from_pyg", "dgl": "from_dgl"}
"""Packages of graphs, and what takes theirs."""


def from_arrays(
    edge_index: Any,
    x: Any = None,
    y: Any = None,
    *,
    labels: Any = None,
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

    Where there are several types of vertices, the first argument has the features of each, or how many there are, the
    second the edges by relation, and ``labels``, sets and weights are dictionaries likewise.

    Args:
        edge_index: integers [2, E], or a pair of [E]: sources and destinations. Ids count from 0. A vertex aggregates
            from the sources of its in-edges. Or a table of edges, with the columns ``src`` and ``dst``, and perhaps
            ``weight``.
        x: features [N, D] or [N], finite numbers, stored as float32, or float16 if they are that; or a table.
        y: labels: one class a vertex, integers [N] (-1 or NaN: unlabelled), or 0 and 1 for each class, [N, C]; with
            ``task="regression"`` numbers [N] or [N, C], NaN where one is not known. Or a table or a column, also of
            names of classes.
        labels: by type, in the place of ``y``.
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
    sets = {"train": train, "valid": valid, "test": test}
    pairs = {
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
    if isinstance(edge_index, Mapping):
        _check_of_types({"y": y, "num_vertices": num_vertices, **pairs}, where)
        typed = typed_arrays_source(
            edge_index,
            x,
            labels,
            edge_weight=edge_weight,
            vertex_sets=sets,
            num_classes=num_classes,
            name=name,
            where=where,
        )
        return _stored(typed, where, out, overwrite, "give labels", options)
    if labels is not None:
        raise InputError(f"{where}: labels are for several types of vertices; give y")
    tables = {"x": x, "y": y, "split_file": options.get("split_file")}
    named = IdNames(options.get("id_column"), options.get("ids") == "any")
    vertex_sets = {key: given_set(value, f"{where}: {key}", named) for key, value in sets.items()}
    if any(map(is_frame, (edge_index, *tables.values(), *pairs.values()))):
        return store_of_tables(
            edge_index,
            {**tables, **vertex_sets},
            pairs,
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
        links=pairs,
    )
    return _stored(source, where, out, overwrite, "give y", options)


def _check_of_types(given: Mapping[str, Any], where: str) -> None:
    """Raise InputError for arguments that graphs of several types do not have."""
    for name, value in given.items():
        if value is not None:
            instead = "give labels={type: labels}" if name == "y" else "drop it"
            raise InputError(f"{where}: {name} is for graphs of one type; {instead}")


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
    """Make a graph store of a ``Data`` or ``HeteroData`` of PyG, the same as ``gsplit import`` makes of its file.

    Read are ``edge_index`` [2, E] (or ``adj_t``), ``edge_weight`` [E], ``x`` [N, D], ``y`` [N] or [N, C],
    ``train_mask``, ``val_mask`` and ``test_mask`` [N], and the others of docs/formats.md, "Importing".

    Args:
        data: a ``Data`` or ``HeteroData``, on any device; of a dataset ``dataset[0]``. Or the three graphs, of
            training, validation and test pairs, that ``RandomLinkSplit`` makes of one.
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
    from gsplit.data.importers.formats.pyg import given_pyg

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
        graph: on any device, of one type or several; of a dataset ``dataset[0]``.
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
    from gsplit.data.importers.formats.dgl import given_dgl

    keys = Keys(feature_key=feature_key, label_key=label_key, mask_key=mask_key)  # type: ignore[arg-type]
    source = given_dgl(graph, name=name, where=where, keys=keys)
    return _stored(source, where, out, overwrite, "name them with label_key", options)


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
    check_name(source.name, where)
    build = BuildOptions(**options)
    if source.labels is None and not isinstance(source, TypedSource):
        for what, asked in (
            ("split", build.split),
            ("task='regression'", build.task == "regression"),
            (f"the {next(iter(source.vertex_sets), '')} set", source.vertex_sets),
        ):
            if asked:
                raise InputError(f"{where}: {what} needs labels, and there are none; {to_label}")
    return kept_store(
        lambda writer: fill_any_store(writer, source, build, name=source.name, described_as=where),
        where,
        out,
        overwrite,
    )
