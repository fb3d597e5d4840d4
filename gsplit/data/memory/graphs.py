"""Graph stores of graphs that lie in memory: the same importers and the same builder as for files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsplit.config.fields import check_options
from gsplit.data.build import BuildOptions, build_store
from gsplit.data.importers.in_memory import arrays_source
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.source import GraphSource
from gsplit.data.memory.temporary import Temporary
from gsplit.data.store import GraphStore, open_store
from gsplit.errors import InputError
from gsplit.files import as_path
from gsplit.processes import check_no_trainer

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
    num_vertices: int | None = None,
    num_classes: int | None = None,
    name: str = "graph",
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> GraphStore:
    """Make a graph store of NumPy's arrays or PyTorch's tensors, which are copied; those on a GPU, too.

    Args:
        edge_index: integers [2, E], or a pair of [E]: sources and destinations. Ids count from 0. A vertex aggregates
            from the sources of its in-edges.
        x: features [N, D] or [N], finite numbers, stored as float32, or float16 if they are that.
        y: labels: one class a vertex, integers [N] (-1 or NaN: unlabelled), or 0 and 1 for each class, [N, C]; with
            ``task="regression"`` numbers [N] or [N, C], NaN where one is not known.
        edge_weight: [E] finite numbers.
        train, valid, test: the vertex sets, each a mask [N] of booleans or a list of ids; their vertices are
            labelled.
        num_vertices: N; by default what ``x``, ``y`` or masks tell, or the largest id.
        num_classes: C; by default one more than the largest label.
        name: of the graph.
        out: a folder that keeps the store. By default it lies in a temporary one, which goes with the store.
        overwrite: replace the store that is in ``out``.
        options: the other fields of :class:`gsplit.data.build.BuildOptions`: ``undirected``, ``self_loops``,
            ``duplicates`` (the first of equal edges stays by default; ``"sum"`` adds up their weights),
            ``split=(0.6, 0.2, 0.2)`` with ``seed``, ``task``, ``feature_dtype``.

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
        >>> store.close()
    """
    where = "gsplit.from_arrays"
    check_no_trainer(where)
    source = arrays_source(
        edge_index,
        x,
        y,
        edge_weight=edge_weight,
        vertex_sets={"train": train, "valid": valid, "test": test},
        num_vertices=num_vertices,
        num_classes=num_classes,
        name=name,
        where=where,
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
        data: a homogeneous graph, on any device; of a dataset ``dataset[0]``.
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
    if not isinstance(name := source.name, str) or not name.isprintable():
        raise InputError(f"{where}: name must be a line of text, not {name!r}")
    build = BuildOptions(**options)
    if source.labels is None:
        for what, asked in (
            ("split", build.split),
            ("task='regression'", build.task == "regression"),
            (f"the {next(iter(source.vertex_sets), '')} set", source.vertex_sets),
        ):
            if asked:
                raise InputError(f"{where}: {what} needs labels, and there are none; {to_label}")
    if out is not None:
        folder = as_path(out, f"{where}: out", "a folder")
        build_store(source, folder, build, name=source.name, described_as=where, overwrite=overwrite)
        return open_store(folder)
    temporary = Temporary()
    try:
        folder = temporary.path / "graph"
        build_store(source, folder, build, name=source.name, described_as=where)
        return replace(open_store(folder), temporary=temporary)
    except BaseException:
        temporary.close()  # not when the traceback goes, which notebooks keep
        raise
