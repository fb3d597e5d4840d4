"""Sentences about a graph, which the terminal and the page both have."""

from __future__ import annotations

import numpy as np

from gsplit.data.append import grown_from
from gsplit.data.graph import GraphArrays
from gsplit.data.inspect.described_columns import shortened
from gsplit.data.inspect.feature_columns import FeatureColumns
from gsplit.data.inspect.overview import Overview
from gsplit.data.inspect.render.cells import number, share
from gsplit.data.layout import Layout
from gsplit.data.links.supervision import link_facts
from gsplit.data.opened import OpenFolder
from gsplit.data.store import GraphStore


def counts(graph: GraphArrays) -> str:
    """The counts of a graph."""
    weights = "" if graph.typed or graph.edge_weight is None else "edge weights, "
    return f"{graph.in_words}, {targets(graph, weights)}" + ("" if graph.links is None else f", {pairs(graph)}")


def targets(graph: GraphArrays, weights: str = "") -> str:
    """The numbers of classes and of vertices in each set."""
    outputs = "outputs of a regression" if graph.regression else "classes"
    return (
        f"{graph.num_classes:,} {outputs}, {weights}train/valid/test {len(graph.train_idx):,}/"
        f"{len(graph.valid_idx):,}/{len(graph.test_idx):,}"
    )


def pairs(graph: GraphArrays) -> str:
    """The numbers of pairs of a graph with links."""
    assert graph.links is not None
    counts = graph.links.described(graph.num_edges)
    return f"pairs {counts['train']:,}/{counts['valid']:,}/{counts['test']:,}"


def links(seen: Overview) -> str:
    """Return which pairs there are, and how they came about; nothing where there are none."""
    of, there = seen.links, seen.graph.links
    if of is None or there is None:
        return ""
    about = link_facts(seen.opened.description, str(seen.opened.path))
    split, removed = about.get("split"), about.get("removed", 0)
    trained = " (all edges)" if there.train is None else ""
    parts = [
        f"{of.pairs['train']:,} training pairs{trained}, {of.pairs['valid']:,} validation, {of.pairs['test']:,} test"
    ]
    parts += [f"{count:,} candidates for {name}" for name, count in of.candidates.items() if count]
    if there.train_weights is not None:
        parts.append("weights of training pairs")
    if there.hard_negatives is not None:
        parts.append(f"up to {there.hard_negatives.shape[1]:,} hard negatives a training pair")
    if isinstance(split, dict) and split.get("by") == "random":
        parts.append(f"drawn by shares {split.get('shares')} with seed {split.get('seed')}")
    if isinstance(split, dict) and split.get("by") == "time":
        parts.append(f"parted at the times {' and '.join(map(str, split.get('bounds', ())))}")
    if "supervision" in about:
        drawn = about["supervision"]
        parts.append(
            f"a share of {drawn['share']:g} of the training pairs, with seed {drawn['seed']}, is trained on and "
            "taken out of the edges"
        )
    if about.get("message") == "train":
        parts.append(
            "all other edges are training pairs" if "supervision" in about else "all edges are training pairs"
        )
    if removed:
        parts.append(f"{removed:,} edges taken out for them")
    return "; ".join(parts)


def title(opened: OpenFolder) -> str:
    """Return what was looked at, and where it is."""
    kind = "layout" if isinstance(opened, Layout) else "graph store"
    return f"{kind} {opened.name} ({opened.path}), checksum {opened.checksum[:16]}"


def ids(seen: Overview) -> str:
    """Return what vertices are called by; nothing where they have numbers alone."""
    if not seen.ids:
        return ""
    columns = "column" if len(seen.ids) == 1 else "columns"
    return f"vertices are called by their own ids ({columns} {', '.join(map(shortened, seen.ids))})"


def growth(seen: Overview) -> str:
    """Return what a store was grown from; nothing where it was made at once, and of layouts."""
    before = grown_from(seen.opened.description, str(seen.opened.path)) if isinstance(seen.opened, GraphStore) else ()
    steps = f"{len(before)} step{'s' * (len(before) > 1)}"
    return f"grown from {before[-1][:16]}, in {steps}" if before else ""


def edges(seen: Overview) -> str:
    """Return what kind of edges there are."""
    structure = seen.structure
    if not seen.graph.num_edges:
        return "none"
    return ", ".join(
        [
            "every one has its reverse" if structure.both_ways else "not every one has its reverse",
            _none_or(structure.self_loops, "self-loop"),
            _none_or(structure.repeated, "repeated edge"),
            "weighted" if seen.graph.edge_weight is not None else "no weights",
        ]
    )


def components(seen: Overview) -> str:
    """Return how the graph hangs together when directions are left aside."""
    structure = seen.structure
    if structure.components == 1:
        return "1 weak component: the graph is connected, when directions are left aside"
    of = f"{structure.largest_component:,} vertices ({share(structure.largest_component, seen.graph.num_vertices)})"
    count = len(structure.isolated)
    alone = "none is" if not count else "1 is" if count == 1 else f"{count:,} are"
    return f"{structure.components:,} weak components; the largest has {of}, {alone} a single vertex"


def degrees(seen: Overview) -> str:
    """The in-degrees in a few numbers."""
    structure = seen.structure
    return (
        f"mean {structure.mean_degree:.1f}, median {structure.median_degree:g}, largest "
        f"{structure.largest_degree:,} (vertex {seen.names.vertex(structure.largest_at)}), "
        f"without in-edges {structure.without_in_edges:,}"
    )


def labels(seen: Overview) -> str:
    """Return how many vertices have a label, and are in no set."""
    of = seen.labels
    unlabelled = seen.graph.num_vertices - of.labelled
    return f"{of.labelled:,} vertices labelled, {unlabelled:,} not; {of.in_no_set:,} in no set"


def features(seen: Overview, of: FeatureColumns) -> str:
    """Return what kinds of columns there are, and how many of their values are 0 or missing."""
    flags, constant = int(of.of_0_and_1.sum()), len(of.constant)
    whole = int(np.delete(of.whole, of.constant).sum()) - flags
    others = of.count - flags - whole - constant
    kinds = {"of 0 and 1": flags, "of whole numbers": whole, "of numbers": others, "constant": constant}
    values = seen.graph.num_vertices * of.count
    missing, zeros = int(of.missing.sum()), int(of.zeros.sum())
    parts = [
        ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count) or "none",
        f"{share(zeros, values)} of the values are 0",
        f"{missing:,} ({share(missing, values)}) are NaN or infinite" if missing else "all are finite",
    ]
    return "; ".join(parts)


def ranges(of: FeatureColumns) -> str:
    """Ranges over all columns; nothing where no value is finite."""
    there = np.isfinite(of.mean)
    if not there.any():
        return ""
    means, deviations = of.mean[there], of.deviation[there]
    return (
        f"values from {number(of.least[there].min())} to {number(of.most[there].max())}; means of the columns from "
        f"{number(means.min())} to {number(means.max())}, deviations from {number(deviations.min())} to "
        f"{number(deviations.max())}"
    )


def partition(opened: Layout) -> str:
    """Return how a layout was made."""
    about = opened.description
    return (
        f"{opened.parts} parts, method {about['method']}, weights {about['weights']}, seed {about['seed']}, "
        f"hottest by {about['hotness']}, of store {opened.store_checksum[:16]}"
    )


def _none_or(count: int, what: str) -> str:
    return f"no {what}s" if not count else f"{count:,} {what}{'s' if count > 1 else ''}"
