"""``gsplit.import_graph``: make a graph store from Python, as ``gsplit import`` does."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from gsplit.config.fields import check_options
from gsplit.data.append.grow import from_store, is_store
from gsplit.data.build import BuildOptions, fill_store
from gsplit.data.folders import writing_folder
from gsplit.data.importers import TABLES, check_of_kind, kind_of, load_source
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions, load_named_edges
from gsplit.data.importers.text_rules import TextRules
from gsplit.data.importers.unconnected import add_by_id, with_unconnected
from gsplit.data.importers.vertex_files import VertexFiles, attach
from gsplit.data.store import GraphStore, open_store
from gsplit.errors import InputError, one_line_errors

T = TypeVar("T")


def import_graph(
    source: str | os.PathLike[str],
    out: Path | str,
    *,
    name: str | None = None,
    root: Path | str | None = None,
    overwrite: bool = False,
    add: Path | str | None = None,
    **options: Any,
) -> GraphStore:
    """Make a graph store of a source (docs/formats.md, "Importing"), and open it.

    Args:
        source: an edge list, a table, a matrix, arrays, a graph of PyG, DGL, OGB or GraphBolt, or
            ``synthetic:PRESET``; ``KIND:PATH`` says what a path is. Or a graph store, open or its folder.
        out: the folder to write.
        name: what to call the graph; by default the name of the source.
        root: where OGB's datasets are.
        overwrite: replace the folder if it is there.
        add: an edge list; ``source`` is a graph store then, and ``out`` that store with these edges and their new
            vertices, whose features, labels and sets come as options. The old store is not changed.
        options: the flags of ``gsplit import`` with ``_`` for ``-``, such as ``features="features.csv"`` or
            ``undirected=True``: the fields of ``VertexFiles``, ``Keys``, ``IdOptions``, ``TextRules`` and
            ``BuildOptions`` in :mod:`gsplit.data`.

    Returns:
        The store, for ``gsplit.partition``.

    Raises:
        InputError: for a source that is no valid graph, an option that there is not, or an ``out`` that exists;
            nothing is left then.

    Examples:
        >>> np.savetxt("edges.csv", [[0, 1], [1, 2], [2, 0]], fmt="%d", delimiter=",")
        >>> store = gsplit.import_graph("edges.csv", "triangle", undirected=True)
        >>> store.graph.num_vertices, store.graph.num_edges
        (3, 6)
    """
    one_line_errors()
    check_options(options, VertexFiles, Keys, IdOptions, TextRules, BuildOptions, where="gsplit.import_graph")
    return make_store(
        os.fspath(source),
        Path(out),
        name=name,
        root=None if root is None else Path(root),
        overwrite=overwrite,
        add=None if add is None else str(add),
        files=_of(VertexFiles, options),
        keys=_of(Keys, options),
        ids=_of(IdOptions, options),
        texts=_of(TextRules, options),
        build=_of(BuildOptions, options),
    )


def _of(cls: type[T], options: dict[str, Any]) -> T:
    """The dataclass that some of the options are fields of."""
    return cls(**{field.name: options[field.name] for field in fields(cls) if field.name in options})  # type: ignore[arg-type]


def make_store(
    source: str,
    out: Path,
    *,
    name: str | None,
    root: Path | None,
    overwrite: bool,
    add: str | None = None,
    files: VertexFiles,
    keys: Keys,
    ids: IdOptions,
    texts: TextRules,
    build: BuildOptions,
) -> GraphStore:
    """Make a graph store of a source, of files beside it and of what is added to it, and open it.

    Raises:
        InputError: for a source that is no valid graph, or an ``out`` that exists.
    """
    if files.split_by and len(build.split) != 2:
        raise InputError(
            f"--split-by {files.split_by} needs two bounds, such as --split 2024-01-01,2024-07-01: vertices before "
            "the first train, those from the second on test"
        )
    kept = None
    with writing_folder(out, overwrite=overwrite) as writer, texts.applied():
        if add is not None or is_store(source):
            check_of_kind(source, root=root, keys=keys)
            stored = from_store(source, add, files=files, ids=ids, build=build, folder=writer.path.parent)
            found, named, files, build, kept = stored
        elif ids.ids == "any":
            kind, rest = kind_of(source)
            if kind not in TABLES:
                raise InputError(f"--ids any is for edge lists in text or Parquet, and {source} is none; drop it")
            if build.num_vertices is not None:
                raise InputError("--num-vertices is for ids that are whole numbers; with --ids any it has no meaning")
            found, named = load_named_edges(Path(rest), ids, files.id_column, writer.path.parent)
            add_by_id(named, files)
            if ids.id_order == "sorted":
                named.sort()
            found = replace(found, num_vertices=named.num_vertices)
        else:
            if ids.prefix_flag:
                raise InputError(f"{ids.prefix_flag} is for ids of any kind; add --ids any or drop it")
            if not texts.header or ids.id_order != "appearance":
                flag = "--id-order" if texts.header else "--no-header"
                raise InputError(f"{flag} is for ids of any kind; add --ids any or drop it")
            regression = build.task == "regression"
            found = load_source(source, seed=build.seed, root=root, regression=regression, keys=keys, ends=ids.ends)
            found, named = with_unconnected(found, files, writer.path.parent), None
        if found.num_vertices is None:
            found = replace(found, num_vertices=build.num_vertices)
        opened = attach(found, files.settled, named, kept)
        fill_store(
            writer,
            opened,
            build,
            name=name or opened.name,
            described_as=source if add is None else f"{source} --add {add}",
        )
    return open_store(out)
