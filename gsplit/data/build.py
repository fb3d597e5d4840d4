"""From a source to a graph store, in bounded memory.

Checks what is cheap first (features, labels), then builds the adjacency (:mod:`gsplit.data.adjacency`), then checks
the vertex sets. Nothing is left of a store that fails anywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.adjacency import Cleaning, Tally, check_num_vertices, write_adjacency
from gsplit.data.build_options import BuildOptions
from gsplit.data.columns.written import write_features
from gsplit.data.edge_history import KEY as HISTORY
from gsplit.data.edge_history import EdgeHistory
from gsplit.data.folders import FolderWriter
from gsplit.data.graph import VERTEX_SETS, GraphArrays, Labelled, check_ids, check_vertex_sets
from gsplit.data.ids import kept_ids
from gsplit.data.ids.named_ids import IDS_AT_ONCE
from gsplit.data.importers.arrays import check_class_count, clean_labels, entry_of, integers, numbers_to_regress
from gsplit.data.importers.source import EdgeChunks, GraphSource
from gsplit.data.inspect.concerns import class_concerns, unreached_types
from gsplit.data.inspect.label_counts import label_counts
from gsplit.data.labels.class_names import checked_names
from gsplit.data.labels.vertex_sets import check_bounds, random_sets, sets_by_time
from gsplit.data.links.edge_sets import Links, check_ends, check_links, check_pairs, check_rows
from gsplit.data.links.hard_negatives import matched_rows, write_hard_negatives
from gsplit.data.links.held_out import HeldOut, Outcome, Withheld
from gsplit.data.links.random_edges import Hashes, RandomEdges, hashes_of_ids, hashes_of_numbers
from gsplit.data.links.supervision import Share, Supervised
from gsplit.data.links.time_edges import TimedEdges
from gsplit.data.repeats import OUTCOMES, counted, resolved
from gsplit.data.store import FILE, FORMAT, describe, save_labelled, save_links
from gsplit.errors import InputError

LEVELS = {"unreached types": logging.WARNING, "one class": logging.WARNING, "empty classes": logging.INFO}
"""Levels of what is said when a store is made, by the kind of concern."""

logger = logging.getLogger(__name__)


def fill_store(
    writer: FolderWriter, source: GraphSource, options: BuildOptions, *, name: str, described_as: str
) -> None:
    """Write a source of one type; arguments and errors as of :func:`gsplit.data.typed_build.fill_any_store`."""
    edges, rule = edges_by_rule(source.edges, options.duplicates or ("keep" if source.as_is else "first"))
    source = replace(source, edges=edges)
    n = _num_vertices(source, options)
    check_split(source, options)
    if options.reverse:
        raise InputError(f"{source.where} has one type of vertices, and --reverse is for several; give --undirected")
    if options.edge_split and source.links is not None:
        raise InputError(f"{source.where} has links already; drop --edge-split")
    labelled = None
    if n is not None:
        check_num_vertices(n, source.where)
        check_features(source, n)
        labelled = labelled_of(source, n, options)
    training = np.empty(0, np.int64) if labelled is None else labelled.train_idx
    columns = [*source.columns, *write_features_of(writer, source, training, options)]
    ids_described = None if source.ids is None else source.ids.write(writer.path / kept_ids.FILE)
    withheld = _withheld(source, options, writer.path, ids_described)
    cleaning = Cleaning(
        undirected=options.undirected, self_loops=options.self_loops, duplicates=rule, withheld=withheld
    )
    edges_written, tally = write_adjacency(writer, source, n, cleaning)
    indptr, indices = edges_written.indptr, edges_written.indices
    links, outcome = None, None
    if withheld is not None:
        if source.links is not None:
            check_ends(source.links, len(indptr) - 1, source.row)
        outcome = withheld.outcome(source.where)
        links = _with_rows(outcome.links, source, indptr, indices)
    if source.maybe_header is not None and options.num_vertices is None:
        _check_header(source.maybe_header, indptr, indices)
    labelled = labelled or labelled_of(source, len(indptr) - 1, options)
    save_labelled(writer, labelled)
    graph = GraphArrays(
        **vars(edges_written),
        features=None if source.features is None else writer.mapped("features"),
        links=links,
        **vars(labelled),
    )
    if links is not None:
        check_links(links, graph.num_vertices, graph.num_edges, source.where)
        save_links(writer, graph)
        if source.hard_pairs is not None:
            check_pairs(source.hard_pairs, graph.num_vertices, partial(source.row, "hard_negatives"))
            trained = graph.indices if links.train is None else links.train[:, 0]
            write_hard_negatives(writer, source.hard_pairs, trained, graph.num_vertices)
    check_vertex_sets(graph, graph.num_vertices, source.where, source.entry, shown_by(source))
    header = {"format": FORMAT, **describe(graph), "name": name, "source": described_as}
    if outcome is not None:
        facts, before = outcome.facts, source.link_facts
        header["links"] |= {**before, **facts}
        if options.message_edges == "all":
            header["links"].pop("message", None)
        if removed := before.get("removed", 0) + facts.get("removed", 0):
            header["links"]["removed"] = removed
    if ids_described is not None:
        header["ids"] = ids_described
    if columns:
        header["columns"] = columns
    if source.edge_history is not None:
        then = source.edge_history.then(rule, repeated=tally.repeated, reverses=tally.reverses, loops=tally.loops)
        header[HISTORY] = asdict(then)
    header |= source.table_rules.described()
    if source.grown_from:
        header["grown_from"] = list(source.grown_from)
    writer.describe(FILE, header)
    report(source, tally, cleaning, outcome)
    remark(graph, source.where)


def edges_by_rule(edges: EdgeChunks, rule: str) -> tuple[EdgeChunks, str]:
    """The edges with the weights that a rule of ``--duplicates`` needs, and the rule that is applied."""
    rule = resolved(rule, weighted=edges.weighted)
    if edges.counts:
        return edges, "count"
    return (counted(edges) if rule == "count" else edges), rule


def check_split(source: GraphSource, options: BuildOptions) -> None:
    """Raise InputError where vertex sets are to be drawn, and there are some."""
    if options.split and source.vertex_sets and source.times is None:
        raise InputError(
            f"{source.where} has vertex sets already ({', '.join(source.vertex_sets)}); drop --split"
            + (" and --stratify" if options.stratify else "")
        )


def _withheld(
    source: GraphSource, options: BuildOptions, folder: Path, ids_described: dict[str, Any] | None
) -> Withheld | None:
    """Return which edges are pairs to be predicted; None where there are no links."""
    train = None if source.links is None else source.links.train
    share, before = _share(source, options, train), source.link_facts.get("supervision")
    if options.message_edges == "train" and (train is None or before is not None):
        raise InputError(
            f"--message-edges train: {'all' if train is None else 'no'} edges of {source.where} are training pairs; "
            "give --train-edges FILE or drop it"
        )
    if not (options.edge_split or share or source.links is not None or source.hard_pairs is not None):
        return None
    hashes: Hashes = hashes_of_numbers
    if ids_described is not None and (options.edge_split or share):
        assert source.num_vertices is not None
        kept = kept_ids.KeptIds(folder, ids_described, source.num_vertices)
        hashes = hashes_of_ids(kept.pieces(IDS_AT_ONCE))
    withheld = _held_out(source, options, hashes)
    return withheld if share is None else Supervised(withheld, share, hashes, train, undirected=options.undirected)


def _share(source: GraphSource, options: BuildOptions, train: NDArray[np.int64] | None) -> Share | None:
    """Return which training pairs are taken out of the message edges, now or as before."""
    before = source.link_facts.get("supervision")
    if options.supervision is None:
        return None if before is None else Share(**before)
    if before is not None:
        raise InputError(f"{source.where} has a share of training pairs apart already; drop --supervision")
    return Share(share=options.supervision, seed=options.seed, of="edges" if train is None else "pairs")


def _held_out(source: GraphSource, options: BuildOptions, hashes: Hashes) -> Withheld:
    if not options.edge_split:
        train_alone = options.message_edges == "train"
        return HeldOut(source.links or Links.empty(), options.leaks, train_alone=train_alone, shown=shown_by(source))
    if source.edge_times is None and len(options.edge_split) == 2:
        raise InputError(
            f"--edge-split {','.join(map(str, options.edge_split))}: two bounds need --edge-time COLUMN; shares are "
            "three, such as 0.85,0.05,0.1"
        )
    if source.edge_times is not None:
        bounds = check_bounds(options.edge_split, source.edge_times, "--edge-split", "--edge-time")
        return TimedEdges(source.edge_times, bounds, options.edge_split, source.edges.chunks)
    return RandomEdges([float(share) for share in options.edge_split], options.seed, hashes)


def _with_rows(links: Links, source: GraphSource, indptr: NDArray[np.int64], indices: NDArray[Any]) -> Links:
    """The links with rows of hard negatives of edges at the training pairs that these have become."""
    rows = links.hard_negatives
    if rows is None or (source.links is not None and source.links.train is not None):
        return links
    chunks = (source.row_edges or source.edges).chunks()
    of = np.concatenate([np.empty((0, 2), np.int64), *(np.stack([c.source, c.destination], 1) for c in chunks)])
    check_rows(rows, len(of), source.call("hard_negatives"), "edges")
    pairs = links.train
    if pairs is None:
        pairs = np.stack([indices, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))], axis=1)
    return replace(links, hard_negatives=matched_rows(rows, of, pairs))


def labelled_of(source: GraphSource, n: int, options: BuildOptions) -> Labelled:
    """Labels and vertex sets of a source of n vertices, as in a store."""
    labels, num_classes, classes = _labels(source, n, options.task)
    found = _vertex_sets(source, labels, options)
    sets = {key: integers(found.get(key, np.empty(0, np.int64)), source.call(key)) for key in VERTEX_SETS}
    for key, ids in sets.items():
        check_ids(ids, n, f"{key}_idx", partial(source.entry, key))
    return Labelled(
        labels=labels,
        num_classes=num_classes,
        regression=options.task == "regression",
        classes=classes,
        **{f"{key}_idx": ids for key, ids in sets.items()},
    )


def _vertex_sets(source: GraphSource, labels: NDArray[Any], options: BuildOptions) -> dict[str, NDArray[np.int64]]:
    """The vertex sets of the source, or those that ``--split`` makes."""
    some = options.task == "regression"
    if source.times is not None:
        if options.stratify:
            raise InputError("--stratify draws at random, and --split-by does not; drop one of them")
        return sets_by_time(labels, source.times, options.split, some=some, kept=source.vertex_sets)
    if len(options.split) == 2:
        shown = ",".join(map(str, options.split))
        raise InputError(
            f"--split takes the shares of train, valid and test, not {shown}; two bounds need --split-by"
        )
    if options.split:
        shares = [float(share) for share in options.split]
        return random_sets(labels, shares, options.seed, source.where, some=some, stratify=options.stratify)
    if source.vertex_sets and source.labels is None:
        raise InputError(f"{source.where}: the {next(iter(source.vertex_sets))} set needs labels; give --labels FILE")
    return source.vertex_sets


def _num_vertices(source: GraphSource, options: BuildOptions) -> int | None:
    """Number of vertices: as given, else as long as features or labels are; None: the edges will tell."""
    asked, found = options.num_vertices, source.num_vertices
    if asked is not None and found is not None and asked < found:
        raise InputError(f"{source.where} has {found} vertices; --num-vertices {asked} is fewer")
    n = found if asked is None else asked
    if n is None and source.features is not None:
        n = int(source.features.shape[0])
    if n is None and source.labels is not None:
        n = len(source.labels)
    if n is not None and n < 1:
        raise InputError(f"{source.where}: the graph has no vertices")
    return n


def _check_header(table: Path, indptr: NDArray[np.int64], indices: NDArray[Any]) -> None:
    """Raise InputError where a table whose first row reads 0, 1, ... has one row more than the edges have vertices.

    The row may be a header then, and all others those of the vertex before.
    """
    last = len(indptr) - 2
    others, own = indices[: indptr[last]], indices[indptr[last] :]
    if not (own != last).any() and others.max(initial=-1) < last and _has_edges(last - 1, indptr, indices):
        raise InputError(
            f"{table}: the first row reads 0, 1, .. as a header of pandas does, and the table has {last + 1} rows "
            f"with it, and the edges {last} vertices; remove it, or say --num-vertices {last + 1} "
            "if it is a row"
        )


def _has_edges(vertex: int, indptr: NDArray[np.int64], indices: NDArray[Any]) -> bool:
    return vertex >= 0 and (indptr[vertex] < indptr[vertex + 1] or bool((indices == vertex).any()))


def _labels(source: GraphSource, n: int, task: str) -> tuple[NDArray[Any], int, tuple[str, ...] | None]:
    """Labels as in a store, the number of classes or outputs, and the names of classes."""
    what, classes = source.call("labels"), source.classes
    shown = None if source.ids is None else source.ids.shown
    if task == "regression":  # numbers have no classes, whatever the source calls them
        if source.labels_are_names:
            raise InputError(f"{what} holds classes by name, and --task regression takes numbers; drop it")
        return *numbers_to_regress(source.labels, n, what, shown), None
    if source.labels_are_lists and source.labels is not None and source.labels.shape[1] < 2:
        raise InputError(f"{what} lists one class alone; a column of 0 and 1 says whether a vertex has it")
    named = None if classes is None or source.labels is None else len(classes)
    count = named if source.num_classes is None else source.num_classes

    def entry(vertex: int) -> str:
        place = source.entry("labels", vertex) if "labels" in source.places else what
        return entry_of(place, vertex, shown) if shown or place == what else place

    labels, count = clean_labels(source.labels, n, count, what, entry)
    if classes is None:
        if source.num_classes is None and count > source.least_classes:
            check_class_count(labels, count, what)
        return labels, max(count, source.least_classes), None
    classes = checked_names(classes, count, what)
    if labels.ndim == 1 and labels.max(initial=-1) >= count:
        at = int(np.argmax(labels >= count))
        raise InputError(f"{entry(at)} is {labels[at]}, but there are names of the classes 0 .. {count - 1} alone")
    return labels, count, classes


def shown_by(source: GraphSource) -> Callable[[int], str]:
    """What messages call a vertex of a source."""
    return str if source.ids is None else source.ids.shown


def check_features(source: GraphSource, n: int) -> None:
    """Check the shape of features, before the edges are read."""
    features = source.features
    if features is not None and (
        len(features.shape) != 2 or features.shape[0] != n or features.dtype.kind not in "fiub"
    ):
        raise InputError(
            f"{source.call('features')} must be numbers of shape ({n}, D), not {features.dtype} of "
            f"shape {tuple(features.shape)}"
        )


def write_features_of(
    writer: FolderWriter, source: GraphSource, training: NDArray[np.int64], options: BuildOptions
) -> list[dict[str, Any]]:
    """Write the features of a source, if it has some; what a description says of their columns."""
    if source.features is None:
        return []
    return write_features(
        writer,
        source.features,
        dtype=options.feature_dtype,
        training=training,
        called=source.called.get("features", source.where),
        shown=shown_by(source),
    )


def report(source: GraphSource, tally: Tally, cleaning: Cleaning, outcome: Outcome | None = None) -> None:
    """Say what became of the edges."""
    where, before = source.where, source.edge_history or EdgeHistory()
    if tally.repeated:
        logger.info("%s: %s edges repeat others: %s", where, f"{tally.repeated:,}", OUTCOMES[cleaning.duplicates])
    if outcome is not None and outcome.words:
        logger.info("%s: %s", where, "; ".join(outcome.words))
    words = [f"dropped {tally.self_loops:,} self-loops (--self-loops drop)"] if tally.self_loops else []
    added = [
        (max(0, tally.reverses - before.reverses), "reverse edges (--undirected)"),
        (max(0, tally.loops - before.loops), "self-loops (--self-loops add)"),
    ]
    if any(count for count, _ in added):
        words.append("added " + " and ".join(f"{count:,} {what}" for count, what in added if count))
    if words:
        logger.info("%s: %s", where, "; ".join(words))
    elif (not tally.repeated or cleaning.duplicates == "keep") and (
        cleaning.undirected or cleaning.self_loops != "keep"
    ):
        logger.info("%s: there was nothing to drop or add", where)


def remark(graph: GraphArrays, where: str) -> None:
    """Say what is odd about classes and types, and whether there are neither vertices nor links to train on."""
    concerns = list(unreached_types(graph))
    if graph.num_classes and not graph.regression:
        concerns += class_concerns(graph, label_counts(graph))
    for concern in concerns:
        if (level := LEVELS.get(concern.kind)) is not None:
            logger.log(level, "%s: %s", where, concern.text)
    if any(len(graph.vertex_set(name)) for name in VERTEX_SETS):
        if not len(graph.train_idx):
            logger.warning("%s: no vertex is in the training set; --train FILE names some", where)
    elif graph.num_classes and graph.links is None:
        logger.warning(
            "%s: there are no training, validation and test vertices, so nothing can be trained yet; --split "
            "0.6,0.2,0.2 draws some, --split-file FILE or --train FILE names them",
            where,
        )
    elif graph.links is None:
        logger.info(
            "%s: there are no labels and no training vertices; to train, give --labels FILE, and --split "
            "0.6,0.2,0.2, --split-file FILE or --train FILE",
            where,
        )
