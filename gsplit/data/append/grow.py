"""A graph store as a source, alone or with what is added to it (``gsplit import STORE --add EDGES``)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from gsplit.config.fields import flag_of
from gsplit.data.adjacency import check_num_vertices
from gsplit.data.append.added_table import Adding
from gsplit.data.append.grown_features import added_tables, grown_features
from gsplit.data.append.grown_labels import grown_labels
from gsplit.data.append.grown_sets import grown_sets
from gsplit.data.append.growth import Growth, attach_in_order
from gsplit.data.append.lineage import grown_from
from gsplit.data.append.named_rows import names_vertices
from gsplit.data.append.new_edges import joined_edges, named_ids, read_new_edges
from gsplit.data.build import BuildOptions
from gsplit.data.edge_history import history_of
from gsplit.data.ids.named_ids import NamedIds
from gsplit.data.ids.prefixes import prefixes_of
from gsplit.data.ids.vertex_ids import WholeIds
from gsplit.data.importers import kind_of
from gsplit.data.importers.gaps import WORDS
from gsplit.data.importers.graph_store import kept_gaps, store_source
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.unconnected import add_by_id, reach, reaches_of
from gsplit.data.importers.vertex_files import VertexFiles, places_of
from gsplit.data.store import FILE, GraphStore, open_store
from gsplit.errors import InputError

OF_THE_STORE = ("columns", "standardize")
"""Fields of VertexFiles that the store has answered: features are made as those there were."""


@dataclass(frozen=True, kw_only=True)
class FromStore:
    """A store as a source, and what is left to be done with it."""

    source: GraphSource
    ids: NamedIds | None
    """Ids of the vertices in the files that are left; None: 0 .. N-1."""
    files: VertexFiles
    """Files that are to be attached: none where the store has grown by them."""
    build: BuildOptions


def is_store(source: str) -> bool:
    """Return whether a source is a graph store.

    Raises:
        InputError: for a source that does not exist or is of no known kind.
    """
    return kind_of(source)[0] == "store"


def from_store(
    source: str, add: str | None, *, files: VertexFiles, ids: IdOptions, build: BuildOptions, folder: Path
) -> FromStore:
    """Open a graph store, and add to it what there is to add.

    Args:
        source: the store, as the user named it.
        add: an edge list, likewise; None: the store is taken as it is.
        files: tables of vertices: of new and old ones with ``add``, of all without.
        ids: how the tables name vertices.
        build: what is made of the source.
        folder: for what is kept until the new store is written; the caller removes it.

    Raises:
        InputError: for what is no store, or cannot be added to it.
    """
    if not is_store(source):
        raise InputError(f"--add adds to a graph store, and {source} is none; gsplit import {source} makes one first")
    store = open_store(kind_of(source)[1])
    _check_ids(store, add, ids, build)
    build = _with_task(store, build, replaced=add is None and files.labels is not None)
    build = _with_dtype(store, build, replaced=add is None and bool(files.features))
    if add is not None:
        return FromStore(
            source=_grown(store, add, files, ids, build, folder), ids=None, files=VertexFiles(), build=build
        )
    if files.vertices or files.unknown == "add":
        flag = "--vertices" if files.vertices else "--unknown add"
        raise InputError(f"{flag} makes vertices of a new graph, or with --add EDGES; {store.path} has its own")
    named = named_ids(store, folder) if any(files.given) else None
    return FromStore(source=store_source(store), ids=named, files=files, build=build)


def _check_ids(store: GraphStore, add: str | None, ids: IdOptions, build: BuildOptions) -> None:
    named = "ids" in store.description
    if ids.ids == "any" and not named:
        raise InputError(f"the vertices of {store.path} are called 0, 1, 2, ...; drop --ids any")
    if ids.id_order != "appearance":
        raise InputError("--id-order is for a new graph: the vertices of a store keep their numbers; drop it")
    if not ids.header and not (named and add):
        raise InputError("--no-header is for edges with ids of any kind; drop it")
    flag = ids.prefix_flag
    if flag and (not named or add is None or not prefixes_of(store.description["ids"], str(store.path)).described()):
        raise InputError(f"{flag} is for a new graph, and the ids of {store.path} keep what they have; drop it")
    if add is None and ids.source_column is not None:
        raise InputError(f"--source-column is for edge lists in text or Parquet, and {store.path} is none; drop it")
    if named and build.num_vertices is not None:
        raise InputError("--num-vertices is for ids that are whole numbers, and those of the store are not; drop it")


def _with_task(store: GraphStore, build: BuildOptions, *, replaced: bool) -> BuildOptions:
    """The options with the task of the store, unless all labels are replaced."""
    if replaced:
        return build
    if store.graph.regression:
        return replace(build, task="regression")
    if build.task == "regression" and store.graph.num_classes:
        raise InputError(f"the labels of {store.path} are classes; drop --task regression")
    return build


def _with_dtype(store: GraphStore, build: BuildOptions, *, replaced: bool) -> BuildOptions:
    """The options with the type of the store's features, unless they are replaced, or another is asked for."""
    features = store.graph.features
    if features is None or replaced or build.feature_dtype is not None:
        return build
    return replace(build, feature_dtype=str(features.dtype))


def _completed(files: VertexFiles, where: str, kept: tuple[str, ...] | None, *, named: bool) -> VertexFiles:
    """The files with those that hold the labels and the sets, where a column of another is named.

    Args:
        files: as given.
        where: the store, for messages.
        kept: the gaps of its tables, where they are not the usual ones.
        named: whether ids are of any kind.

    Raises:
        InputError: for flags that do not go with ``--add``, and columns that are not there.
    """
    if files.gaps not in (WORDS, kept):
        raise InputError(
            f"--gaps {','.join(files.gaps)} with --add: those of the tables of {where} hold, "
            f"{','.join(WORDS if kept is None else kept)}; drop it"
        )
    for field in fields(VertexFiles):
        if field.name in OF_THE_STORE and getattr(files, field.name) != field.default:
            raise InputError(
                f"{flag_of(field.name)} does not go with --add, which makes features as those of {where} were made; "
                "drop it, or import all at once"
            )
    if files.split_by is not None:
        raise InputError(
            "--split-by does not go with --add, where vertices keep their sets; say those of new ones by "
            "--split-file, --split-column, --train, --valid or --test"
        )
    if files.missing != "refuse" and not files.features:
        raise InputError(f"--missing {files.missing} is for --features; there is none")
    if files.id_column is not None and not any(files.tables):
        raise InputError(f"--id-column {files.id_column} is for a table of --features, --labels or --split-file")
    labels, split_file, _ = places_of(files, named=named)
    return replace(files, labels=labels, split_file=split_file, gaps=WORDS if kept is None else kept)


def _grown(
    store: GraphStore, add: str, files: VertexFiles, options: IdOptions, build: BuildOptions, folder: Path
) -> GraphSource:
    """All of a store, and after it what is added."""
    graph, where = store.graph, str(store.path)
    named = named_ids(store, folder)
    kept = kept_gaps(store.description, str(store.path / FILE))
    files = _completed(files, where, kept, named=named is not None)
    adding = Adding(
        where=where,
        named=named is not None,
        id_column=files.id_column,
        missing=files.missing,
        unknown=files.settled.unknown,
        gaps=files.all_gaps,
        skip=files.columns_beside_features,
    )
    tables = added_tables(store, files.features, adding)
    new, bound = read_new_edges(add, options, named, folder)
    edges = joined_edges(store, new, build.duplicates or "first")
    labels = None  # a table whose rows are those of the new vertices
    n = max(graph.num_vertices, bound)
    if named is not None:
        add_by_id(named, files)
        n = named.num_vertices
    else:
        n = reach(n, list(reaches_of(files)))
        n = max(n, build.num_vertices or 0, *(table.reach(graph.num_vertices) for table in tables))
        if files.labels is not None and not names_vertices(files.labels, files.id_column):
            labels = attach_in_order(where, files, "labels")
            n = n if graph.features is not None else max(n, graph.num_vertices + _rows(labels.labels))
        check_num_vertices(n, where)
    files = files.settled
    growth = Growth(graph=graph, where=where, ids=named or WholeIds(n), named=named is not None)
    known = grown_labels(growth, files, labels, build.task)
    grown = grown_features(growth, store, tables, adding, folder, build.feature_dtype)
    called = {name: str(path) for name in ("labels", "train", "valid", "test") if (path := getattr(files, name))}
    if files.features:
        called["features"] = ", ".join(map(str, files.features))
    return GraphSource(
        name=store.name,
        edges=edges,
        num_vertices=n,
        features=grown.features,
        labels=known.labels,
        num_classes=known.num_classes,
        classes=known.classes,
        vertex_sets=grown_sets(growth, files),
        where=where,
        called=called,
        columns=grown.columns,
        ids=named,
        gaps=kept,
        edge_history=history_of(store.description, str(store.path / FILE)),
        grown_from=(*grown_from(store.description, str(store.path / FILE)), store.checksum),
    )


def _rows(array: object) -> int:
    """Rows of features or labels, 0 of what has none."""
    shape = getattr(array, "shape", ())
    return int(shape[0]) if shape else 0
