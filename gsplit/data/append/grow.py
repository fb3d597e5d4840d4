"""A graph store as a source, alone or with what is added to it (``gsplit import STORE --add EDGES``)."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from gsplit.data.append import grown_from
from gsplit.data.append.new_edges import joined_edges, named_ids, read_new_edges
from gsplit.data.build_options import BuildOptions, FeatureDtype
from gsplit.data.graph import GraphArrays
from gsplit.data.ids.named_ids import NamedIds
from gsplit.data.ids.prefixes import prefixes_of
from gsplit.data.importers import kind_of
from gsplit.data.importers.attached.link_files import NO_LINKS, LinkFiles
from gsplit.data.importers.attached.unconnected import add_by_id, reach, reaches_of
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.formats.graph_store import store_source
from gsplit.data.importers.named_edges import IdOptions
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.tables.gaps import WORDS
from gsplit.data.importers.tables.table_files import TableFile
from gsplit.data.importers.tables.text_rules import TableRules, TextRules
from gsplit.data.repeats import resolved
from gsplit.data.store import FILE, GraphStore, open_store
from gsplit.errors import InputError

logger = logging.getLogger(__name__)


class FromStore(NamedTuple):
    """A store as a source, with the edges that are added to it, and what is left to be done with it."""

    source: GraphSource
    ids: NamedIds | None
    """Ids of the vertices in the files that are left; None: 0 .. N-1."""
    files: VertexFiles
    """Files that are to be attached."""
    build: BuildOptions
    kept: GraphArrays | None
    """The store, where it grows."""


def from_store(
    source: str,
    add: str | TableFile | None,
    *,
    files: VertexFiles,
    ids: IdOptions,
    build: BuildOptions,
    folder: Path,
    links: LinkFiles = NO_LINKS,
) -> FromStore:
    """Open a graph store, and add to it what there is to add.

    Args:
        source: the store, as the user named it.
        add: an edge list, likewise, or a table that was in no file; None: the store is taken as it is.
        files: tables of vertices: of new and old ones with ``add``, of all without.
        ids: how the tables name vertices.
        build: what is made of the source.
        folder: for what is kept until the new store is written; the caller removes it.
        links: tables of pairs of its vertices.

    Raises:
        InputError: for what is no store, or cannot be added to it.
    """
    if kind_of(source)[0] != "store":
        raise InputError(f"--add adds to a graph store, and {source} is none; gsplit import {source} makes one first")
    store = open_store(kind_of(source)[1])
    _check_ids(store, ids, build, add=add is not None, edges=add is not None or bool(links.given))
    copied = store_source(store)
    build = _as_stored(
        store,
        build,
        new_labels=add is None and files.labels is not None,
        new_features=add is None and bool(files.features),
    )
    if add is not None:
        if "message" in copied.link_facts and build.message_edges is None and links.train_edges is None:
            raise InputError(
                f"the edges of {store.path} are its training pairs alone (--message-edges train); give --train-edges "
                "with the new ones among them, or --message-edges all"
            )
        _hold_texts(TableRules.of(store.description, str(store.path / FILE)), str(store.path))
        grown, named = _with_edges(store, copied, add, files, ids, build, folder)
        return FromStore(grown, named, _as_before(files, grown), build, store.graph)
    if files.vertices or files.unknown == "add":
        flag = "--vertices" if files.vertices else "--unknown add"
        raise InputError(f"{flag} makes vertices of a new graph, or with --add EDGES; {store.path} has its own")
    named = named_ids(store, folder) if any(files.given) or links.given else None
    if build.duplicates is not None and copied.edge_history is not None:
        copied.edge_history.check_next(resolved(build.duplicates, weighted=copied.edges.weighted), str(store.path))
    return FromStore(copied, named, files, build, None)


def _check_ids(store: GraphStore, ids: IdOptions, build: BuildOptions, *, add: bool, edges: bool) -> None:
    named = "ids" in store.description
    if ids.ids == "any" and not named:
        raise InputError(f"the vertices of {store.path} are called 0, 1, 2, ...; drop --ids any")
    if ids.id_order != "appearance":
        raise InputError("--id-order is for a new graph: the vertices of a store keep their numbers; drop it")
    if not TextRules.current().header and not (named and edges):
        raise InputError("--no-header is for edges with ids of any kind; drop it")
    flag = ids.prefix_flag
    if flag and (not named or not add or not prefixes_of(store.description["ids"], str(store.path)).described()):
        raise InputError(f"{flag} is for a new graph, and the ids of {store.path} keep what they have; drop it")
    if not edges and ids.ends.given:
        raise InputError(f"{ids.ends.given} is for edge lists in text or Parquet, and {store.path} is none; drop it")
    if named and build.num_vertices is not None:
        raise InputError("--num-vertices is for ids that are whole numbers, and those of the store are not; drop it")


def _as_stored(store: GraphStore, build: BuildOptions, *, new_labels: bool, new_features: bool) -> BuildOptions:
    """The options with the task of the store, and the type of its features, but where these are all replaced."""
    if not new_labels and store.graph.regression:
        build = replace(build, task="regression")
    elif not new_labels and build.task == "regression" and store.graph.num_classes:
        raise InputError(f"the labels of {store.path} are classes; drop --task regression")
    features = store.graph.features
    if features is None or new_features or build.feature_dtype is not None:
        return build
    return replace(build, feature_dtype=cast("FeatureDtype", str(features.dtype)))


def _as_before(files: VertexFiles, source: GraphSource) -> VertexFiles:
    """The files, to be read as those that a store was made of.

    Args:
        files: as given.
        source: the store.

    Raises:
        InputError: for flags that do not go with ``--add``.
    """
    where, gaps, unlabelled = source.where, source.table_rules.gaps, source.table_rules.unlabelled
    if files.gaps not in (WORDS, gaps):
        raise InputError(
            f"--gaps {','.join(files.gaps)} with --add: those of the tables of {where} hold, {','.join(gaps)}; "
            "drop it"
        )
    if files.columns:
        raise InputError(
            f"--columns does not go with --add, which makes features as those of {where} were made; drop it, or "
            "import all at once"
        )
    if files.standardize and not any("mean" in entry for entry in source.columns):
        raise InputError(
            f"--standardize with --add: the features of {where} are not standardised, and new ones are made as they "
            f"were; drop it, or import {where} with --standardize first, without --add"
        )
    if files.missing != "refuse" and not files.features:
        raise InputError(f"--missing {files.missing} is for --features; there is none")
    if known := set(files.unlabelled).intersection(source.classes or ()):
        raise InputError(
            f"--unlabelled {','.join(files.unlabelled)} with --add: {min(known)} is a class of {where}; drop it, or "
            "import all at once"
        )
    if files.labels or files.label_column:
        files = replace(files, unlabelled=tuple(dict.fromkeys((*unlabelled, *files.unlabelled))))
    return replace(files, gaps=gaps)


def _hold_texts(rules: TableRules, where: str) -> None:
    """Read the tables that are added by the rules of those of a store.

    Raises:
        InputError: where a flag says something else.
    """
    texts, usual = TextRules.current(), TableRules()
    if usual.quote not in (rules.quote, texts.quote) and rules.quote != texts.quote:
        raise InputError(
            f"--quote {texts.quote} with --add: the tables of {where} were read with --quote {rules.quote}; drop it"
        )
    if str(rules):
        logger.info("%s: its tables were read with %s, and so are those that are added", where, rules)
    quote = texts.quote if rules.quote == usual.quote else rules.quote
    replace(texts, quote=quote, strip=texts.strip or rules.strip).hold()


def _with_edges(
    store: GraphStore,
    copied: GraphSource,
    add: str | TableFile,
    files: VertexFiles,
    options: IdOptions,
    build: BuildOptions,
    folder: Path,
) -> tuple[GraphSource, NamedIds | None]:
    """All of a store with new edges after its own, and the ids of its vertices and the new ones."""
    named = named_ids(store, folder)
    new, bound = read_new_edges(add, options, named, folder)
    n = max(store.graph.num_vertices, bound)
    if named is None:
        n = max(reach(n, list(reaches_of(files))), build.num_vertices or 0)
    else:
        add_by_id(named, files)
        n = named.num_vertices
    source = replace(
        copied,
        edges=joined_edges(store, new, build.duplicates or "first"),
        num_vertices=n,
        ids=named,
        grown_from=(*grown_from(store.description, str(store.path / FILE)), store.checksum),
        as_is=False,
    )
    return source, named
