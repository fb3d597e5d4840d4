"""The inputs of a graph store, opened: a source, files beside it, and what is added to it."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from gsplit.data.append.grow import from_store
from gsplit.data.build_options import BuildOptions
from gsplit.data.importers import check_of_kind, edge_table, kind_of, load_source
from gsplit.data.importers.attached.attach import attach
from gsplit.data.importers.attached.link_files import NO_LINKS, LinkFiles, with_links
from gsplit.data.importers.attached.unconnected import add_by_id, with_unconnected
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.edge_list import edge_times
from gsplit.data.importers.keys import Keys
from gsplit.data.importers.named_edges import IdOptions, load_named_edges
from gsplit.data.importers.source import GraphSource, TypedSource
from gsplit.data.importers.tables import databases
from gsplit.data.importers.tables.table_files import TableFile
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.typed_build import check_of_one_type
from gsplit.errors import InputError


def open_inputs(
    source: str | TableFile | GraphSource,
    *,
    root: Path | None = None,
    add: str | TableFile | None = None,
    files: VertexFiles,
    keys: Keys,
    ids: IdOptions,
    build: BuildOptions,
    folder: Path,
    links: LinkFiles = NO_LINKS,
) -> tuple[GraphSource, BuildOptions]:
    """Open a source with the files beside it, and with what is added to it.

    Args:
        source: what the user named, a table of edges that was in no file, or a graph of arrays.
        add: likewise, for a store that grows.
        folder: for what is kept until the new store is written; the caller removes it.
        links: files of pairs of vertices.

    Returns:
        The whole graph, and how it is built.

    Raises:
        InputError: for what is missing, damaged, or does not go together.
    """
    if files.split_by and len(build.split) != 2:
        raise InputError(
            f"--split-by {files.split_by} needs two bounds, such as --split 2024-01-01,2024-07-01: vertices before "
            "the first train, those from the second on test"
        )
    if isinstance(source, str):
        check_of_kind(source, root=root, keys=keys)
        if isinstance(add, str):
            add, files = _queried(add, files, folder)
        elif add is None:
            source, files = _queried(source, files, folder)
    kept = None
    _check_edge_time(source, ids, build, growing=add is not None)
    if isinstance(source, str) and (add is not None or kind_of(source)[0] == "store"):
        stored = from_store(source, add, files=files, ids=ids, build=build, folder=folder, links=links)
        found, named, files, build, kept = stored
    elif ids.ids == "any":
        table = None if isinstance(source, GraphSource) else edge_table(source)
        if table is None:
            where = source.where if isinstance(source, GraphSource) else source
            raise InputError(f"--ids any is for edge lists in text or Parquet, and {where} is none; drop it")
        if build.num_vertices is not None:
            raise InputError("--num-vertices is for ids that are whole numbers; with --ids any it has no meaning")
        found, named = load_named_edges(table, ids, files.id_column, folder)
        add_by_id(named, files)
        if ids.id_order == "sorted":
            named.sort()
        found = replace(found, num_vertices=named.num_vertices)
    else:
        if ids.prefix_flag:
            raise InputError(f"{ids.prefix_flag} is for ids of any kind; add --ids any or drop it")
        if not TextRules.current().header or ids.id_order != "appearance":
            flag = "--id-order" if TextRules.current().header else "--no-header"
            raise InputError(f"{flag} is for ids of any kind; add --ids any or drop it")
        if isinstance(source, GraphSource):
            found = source
        else:
            regression = build.task == "regression"
            found = load_source(source, seed=build.seed, root=root, regression=regression, keys=keys, ends=ids.ends)
        if isinstance(found, TypedSource):
            for given in (files, ids, links):
                check_of_one_type(found.where, given, [field.name for field in fields(given)])
            return found, build
        found, named = with_unconnected(found, files, folder), None
    if found.num_vertices is None:
        found = replace(found, num_vertices=build.num_vertices)
    if ids.edge_time is not None:
        assert not isinstance(source, GraphSource)
        table = edge_table(source)
        assert table is not None
        found = replace(found, edge_times=edge_times(table, ids.edge_time, named=ids.ids == "any"))
    return with_links(attach(found, files.settled, named, kept), links, ids.ends, named), build


def _check_edge_time(
    source: str | TableFile | GraphSource, ids: IdOptions, build: BuildOptions, *, growing: bool
) -> None:
    """Raise InputError where times of edges are asked for and there are none, or no bounds."""
    if ids.edge_time is None:
        return
    if growing or isinstance(source, GraphSource) or edge_table(source) is None:
        where = source.where if isinstance(source, GraphSource) else source
        raise InputError(
            f"--edge-time is for an edge list in text or Parquet that is split, and {where} is none; drop it"
        )
    if len(build.edge_split) != 2:
        raise InputError(
            f"--edge-time {ids.edge_time} needs two bounds, such as --edge-split 2024-01-01,2024-07-01: edges before "
            "the first are those of the graph, pairs that are new from the second on test"
        )


def _queried(source: str, files: VertexFiles, folder: Path) -> tuple[str | TableFile, VertexFiles]:
    """The edges of a database, and the files with its other tables; what is no database stays as it is."""
    kind, place = kind_of(source)
    queries = files.queries
    if kind not in databases.KINDS:
        if queries:
            raise InputError(f"{next(iter(queries))} is for a database, and {source} is none; drop it")
        return source, files
    place = source if kind.startswith("postgres") else place.removeprefix("///")  # SQLAlchemy writes sqlite:///PATH
    if files.edges_query is None:
        raise InputError(
            f"{databases.shown_source(place)} is a database; say what its edges are, such as "
            "--edges-query 'SELECT buyer AS src, item AS dst FROM sales'"
        )
    for flag, other in (("--labels-query", "labels"), ("--split-query", "split_file")):
        if flag in queries and getattr(files, other) is not None:
            raise InputError(f"{flag} gives what --{other.replace('_', '-')} does; drop one of them")
    found = databases.query_tables(kind, place, queries, folder)
    features = (found[flag] for flag in ("--features-query",) if flag in found)
    return found["--edges-query"], replace(
        files,
        edges_query=None,
        features_query=None,
        labels_query=None,
        split_query=None,
        features=(*files.features, *features),
        labels=found.get("--labels-query", files.labels),
        split_file=found.get("--split-query", files.split_file),
    )
