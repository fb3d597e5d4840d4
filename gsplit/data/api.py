"""Graph stores made from Python: ``gsplit.import_graph``, and what others like it share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from gsplit.config.fields import check_options
from gsplit.data.build_options import BuildOptions
from gsplit.data.folders import FolderWriter, writing_folder
from gsplit.data.importers.attached.link_files import LinkFiles
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.tables.databases import shown_source
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.inputs import open_inputs
from gsplit.data.memory.temporary import Temporary
from gsplit.data.store import GraphStore, open_store
from gsplit.data.typed_build import fill_any_store
from gsplit.errors import InputError, one_line_errors
from gsplit.files import as_path

T = TypeVar("T")

GROUPS: dict[str, Any] = {
    "files": VertexFiles,
    "links": LinkFiles,
    "keys": Keys,
    "ids": IdOptions,
    "texts": TextRules,
    "build": BuildOptions,
}
"""Arguments of :func:`make_store` that have the options for their fields."""


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
            ``synthetic:PRESET``; ``KIND:PATH`` says what a path is. Or a graph store, open or its folder; or a
            database of DuckDB or SQLite, or ``postgresql://...``, with ``edges_query``.
        out: the folder to write.
        name: what to call the graph; by default the name of the source.
        root: where OGB's datasets are.
        overwrite: replace the folder if it is there.
        add: an edge list, or a database likewise; ``source`` is a graph store then, and ``out`` that store with these
            edges and their new vertices, whose features, labels and sets come as options. The old store is not
            changed.
        options: the flags of ``gsplit import`` with ``_`` for ``-``, such as ``features="features.csv"`` or
            ``undirected=True``: the fields of ``VertexFiles``, ``LinkFiles``, ``Keys``, ``IdOptions``, ``TextRules``
            and ``BuildOptions`` in :mod:`gsplit.data`.

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
    check_options(options, *GROUPS.values(), where="gsplit.import_graph")
    return make_store(
        os.fspath(source),
        Path(out),
        name=name,
        root=None if root is None else Path(root),
        overwrite=overwrite,
        add=None if add is None else str(add),
        **{group: options_of(cls, options) for group, cls in GROUPS.items()},
    )


def options_of(cls: type[T], options: dict[str, Any]) -> T:
    """Return the dataclass that some of the options are fields of."""
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
    links: LinkFiles,
    keys: Keys,
    ids: IdOptions,
    texts: TextRules,
    build: BuildOptions,
) -> GraphStore:
    """Make a graph store of a source, of files beside it and of what is added to it, and open it."""
    with writing_folder(out, overwrite=overwrite) as writer, texts.applied():
        folder = writer.path.parent
        opened, build = open_inputs(
            source, root=root, add=add, files=files, keys=keys, ids=ids, build=build, folder=folder, links=links
        )
        described_as = shown_source(source if add is None else f"{source} --add {add}")
        fill_any_store(writer, opened, build, name=name or opened.name, described_as=described_as)
    return open_store(out, typed=True)


def kept_store(
    fill: Callable[[FolderWriter], None], where: str, out: str | os.PathLike[str] | None, overwrite: bool
) -> GraphStore:
    """The store that a function writes, in ``out`` or in a temporary folder."""
    if out is not None:
        folder = as_path(out, f"{where}: out", "a folder")
        with writing_folder(folder, overwrite=overwrite) as writer:
            fill(writer)
        return open_store(folder, typed=True)
    temporary = Temporary()
    try:
        with writing_folder(temporary.path / "graph") as writer:
            fill(writer)
        return replace(open_store(temporary.path / "graph", typed=True), temporary=temporary)
    except BaseException:
        temporary.close()  # not when the traceback goes, which notebooks keep
        raise


def check_name(name: Any, where: str) -> None:
    """Raise InputError for a name of a graph that is no line of text."""
    if not isinstance(name, str) or not name.isprintable():
        raise InputError(f"{where}: name must be a line of text, not {name!r}")
