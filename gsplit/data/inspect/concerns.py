"""Concerns about a graph that is to be trained on, a line each: what is odd, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays
from gsplit.data.inspect.feature_columns import FeatureColumns
from gsplit.data.inspect.label_counts import LabelCounts
from gsplit.data.inspect.leaks import Leak, Leaks
from gsplit.data.inspect.link_counts import LinkCounts
from gsplit.data.inspect.negative_weights import WeightSigns
from gsplit.data.inspect.structure import Structure
from gsplit.data.labels.class_names import listed

SHOWN = 8
"""Vertices or features that a line names at most."""
SET_NAMES = {"train": "training", "valid": "validation", "test": "test"}


@dataclass(frozen=True, kw_only=True)
class Concern:
    """Something odd."""

    kind: str
    """Name, a word or two, by which tests and programs know it."""
    text: str
    """The line."""


@dataclass(frozen=True, kw_only=True)
class NamesInLines:
    """Names of vertices and features in lines."""

    vertex: Callable[[int], str]
    feature: Callable[[int, int], str]
    """Function of the first feature and the number of them: a column of a table may have become several."""


def concerns(
    graph: GraphArrays,
    structure: Structure,
    labels: LabelCounts,
    features: FeatureColumns | None,
    leaks: Leaks,
    names: NamesInLines,
    links: LinkCounts | None = None,
) -> list[Concern]:
    """All that is odd: what spoils results first, then what costs some of them."""
    found = [*_of_leaks(leaks, graph, names), *([] if links is None else _of_links(links))]
    found += [*_of_sets(graph, labels), *_of_structure(graph, structure, names)]
    return [*found, *([] if features is None else _of_features(features, names))]


def _of_leaks(leaks: Leaks, graph: GraphArrays, names: NamesInLines) -> Iterator[Concern]:
    kinds = dict.fromkeys(leak.kind for leak in leaks.found)
    for kind in kinds:
        those = [leak for leak in leaks.found if leak.kind == kind]
        words = [names.feature(leak.column, leak.width) + _target(leak, graph) for leak in those]
        plural = "s" if len(those) > 1 else ""
        does = {
            "is the class": ("is the class itself", "are the class itself"),
            "tells the class": ("alone tells the class", "alone tell the class, each of them"),
            "is a class": ("is a class: 1 there, 0 elsewhere", "are classes: 1 there, 0 elsewhere"),
            "marks a class": (
                "alone tells whether a vertex is of a class",
                "alone tell whether a vertex is of a class",
            ),
            "follows an output": (
                "is what is to be predicted, but for unit and zero",
                "are what is to be predicted, but for unit and zero",
            ),
        }[kind][len(those) > 1]
        yield Concern(kind=f"leak: {kind}", text=f"feature{plural} {_some(words)} {does}; is it known beforehand?")


def _target(leak: Leak, graph: GraphArrays) -> str:
    if leak.target is None:
        return ""
    if graph.regression:
        return f" (output {leak.target})"
    return f" (class {listed([leak.target], graph.classes)})"


def _of_links(links: LinkCounts) -> Iterator[Concern]:
    for name, count in links.leaks.items():
        if count:
            yield Concern(
                kind="leaking pairs",
                text=f"{_counted(count, f'{SET_NAMES[name]} pair is', f'{SET_NAMES[name]} pairs are')} among the "
                "edges, in one direction or the other, and so known beforehand; --leaks drop of gsplit import takes "
                "such edges out",
            )
    for (first, second), count in links.shared.items():
        yield Concern(
            kind="pairs in two sets",
            text=f"{_counted(count, f'{SET_NAMES[first]} pair is', f'{SET_NAMES[first]} pairs are')} in the "
            f"{SET_NAMES[second]} set, too, and so known beforehand; --leaks drop of gsplit import takes such pairs "
            "out of one",
        )
    for (first, second), count in links.reversed.items():
        if count:
            yield Concern(
                kind="pairs both ways",
                text=f"of {_counted(count, f'{SET_NAMES[first]} pair', f'{SET_NAMES[first]} pairs')} the reverse is "
                f"in the {SET_NAMES[second]} set; where a score has no direction, that gives them away",
            )
    for name, count in links.positives.items():
        if count:
            yield Concern(
                kind="positive candidates",
                text=f"{count:,} of the {links.candidates[name]:,} candidates of the {SET_NAMES[name]} pairs are "
                "edges or pairs of a set themselves, and ranks take them for wrong",
            )


def _of_sets(graph: GraphArrays, labels: LabelCounts) -> Iterator[Concern]:
    for (first, second), count in labels.shared.items():
        yield Concern(
            kind="shared vertices",
            text=f"{_counted(count, 'vertex is', 'vertices are')} in both the {SET_NAMES[first]} and the "
            f"{SET_NAMES[second]} set; scores of the {SET_NAMES[second]} set say less than they seem to",
        )
    if labels.unknown:
        yield Concern(
            kind="unknown classes",
            text=f"{_counted(labels.unknown, 'vertex has a label that is', 'vertices have labels that are')} none of "
            f"the {graph.num_classes:,} classes; they are in no set, and count as unlabelled",
        )
    if not graph.num_classes:
        return
    if not len(graph.train_idx):
        if not len(graph.valid_idx) and not len(graph.test_idx) and graph.links is not None:
            return  # links are what is trained on
        yield Concern(kind="no training", text="no vertex is in the training set, so nothing can be trained")
    elif not graph.regression:
        yield from class_concerns(graph, labels)


def class_concerns(graph: GraphArrays, labels: LabelCounts) -> Iterator[Concern]:
    """What is odd about classes: all labels are one, some have no vertex, or none to train on."""
    there = labels.counts > 0
    if np.count_nonzero(there) == 1 and graph.labels.ndim == 1:
        one = listed(labels.numbers[there].tolist(), graph.classes)
        yield Concern(kind="one class", text=f"all labels are class {one}, so there is nothing to learn")
    known = labels.numbers[there & (labels.in_sets[:, 0] == 0)]
    if len(known):
        what = _counted(len(known), "class has", "classes have")
        yield Concern(
            kind="untrained classes",
            text=f"{what} labelled vertices, but none to train on, so nothing can learn to predict "
            f"{'it' if len(known) == 1 else 'them'}: {listed(known.tolist(), graph.classes)}",
        )
    empty = graph.num_classes - int(np.count_nonzero(there))
    if empty:
        numbers = labels.numbers[~there].tolist()
        which = f": {listed(numbers, graph.classes)}" if len(numbers) == empty else ""
        yield Concern(
            kind="empty classes", text=f"{_counted(empty, 'class has', 'classes have')} no vertex at all{which}"
        )


def unreached_types(graph: GraphArrays) -> Iterator[Concern]:
    """Types that no path of relations leads from to the target."""
    schema = graph.schema
    hops = schema.hops_to(graph.target)
    unreached = [name for name, hop in zip(schema.type_names, hops, strict=True) if hop is None]
    if unreached:
        yield Concern(
            kind="unreached types",
            text=f"no path of relations leads from {' and '.join(unreached)} to {schema.type_names[graph.target]}, "
            "which has the labels, so they are never sampled; --reverse of gsplit import adds a reverse relation for "
            "each",
        )


def _of_structure(graph: GraphArrays, structure: Structure, names: NamesInLines) -> Iterator[Concern]:
    deaf = structure.train_without_in_edges
    hint = "" if structure.both_ways else "; --undirected of gsplit import would add the reverse of every edge"
    if len(deaf):
        of = f"{len(deaf):,} of {_counted(len(graph.train_idx), 'training vertex', 'training vertices')}"
        yield Concern(
            kind="training without in-edges",
            text=f"{of} {'has' if len(deaf) == 1 else 'have'} no in-edge, and so no neighbours to learn from: "
            f"{_some_vertices(deaf, names)}{hint}",
        )
    if structure.signs is not None:
        yield from _of_weights(structure.signs, names)
    alone = structure.isolated
    if len(alone):
        yield Concern(
            kind="isolated",
            text=f"{_counted(len(alone), 'isolated vertex', 'isolated vertices')}, without an edge to or from "
            f"another: {_some_vertices(alone, names)}",
        )


def _of_weights(signs: WeightSigns, names: NamesInLines) -> Iterator[Concern]:
    """Yield what formulas that divide by weights cannot take, or make nothing of."""
    if signs.negative:
        bad = signs.not_positive()
        sums = f"; of {_counted(len(bad), 'vertex', 'vertices')} they leave a sum of 0 or less: "
        yield Concern(
            kind="negative weights",
            text=f"{_counted(signs.negative, 'edge has a weight', 'edges have weights')} below 0, into "
            f"{_counted(len(signs.vertices), 'vertex', 'vertices')}; GCN can take them over all in-edges alone "
            f"(--fan-out -1){sums + _some_vertices(bad, names) if len(bad) else ''}",
        )
    zero = signs.weightless
    if len(zero):
        yield Concern(
            kind="weightless",
            text=f"{_counted(len(zero), 'vertex has in-edges, all', 'vertices have in-edges, all')} of weight 0, and "
            f"so nothing to learn from where weights count: {_some_vertices(zero, names)}",
        )


def _of_features(features: FeatureColumns, names: NamesInLines) -> Iterator[Concern]:
    missing = np.flatnonzero(features.missing)
    if len(missing):
        entries = _counted(int(features.missing.sum()), "value is", "values are")
        yield Concern(
            kind="missing values",
            text=f"{entries} NaN or infinite, in {_features(missing, names)}; replace them before training",
        )
    constant = features.constant
    if len(constant):
        one = len(constant) == 1
        yield Concern(
            kind="constant features",
            text=f"{_features(constant, names)} {'is' if one else 'are'} the same for all vertices, and "
            f"{'tells' if one else 'tell'} nothing",
        )
    if features.repeats:
        words = [f"{names.feature(column, 1)} of {names.feature(first, 1)}" for column, first in features.repeats]
        one = len(words) == 1
        yield Concern(
            kind="repeated features",
            text=f"{_counted(len(words), 'feature repeats', 'features repeat')} another: {_some(words)}",
        )


def _features(numbers: NDArray[np.int64], names: NamesInLines) -> str:
    words = [names.feature(number, 1) for number in numbers[: SHOWN + 1].tolist()]
    if len(numbers) == 1:
        return f"feature {words[0]}"
    return f"{len(numbers):,} features ({_some(words, len(numbers))})"


def _some_vertices(vertices: NDArray[np.int64], names: NamesInLines) -> str:
    return _some([names.vertex(vertex) for vertex in vertices[: SHOWN + 1].tolist()], len(vertices))


def _some(words: Sequence[str], count: int | None = None) -> str:
    """The first of some words, and that there are more."""
    count = len(words) if count is None else count
    more = ["..."] if count > SHOWN else []
    return ", ".join([*words[:SHOWN], *more])


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
