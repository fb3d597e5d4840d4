"""A graph of several types as lines for a terminal: its types, its relations, labels, parts, and what is odd."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gsplit.data.graph import Adjacency
from gsplit.data.inspect.concerns import class_concerns, unreached_types
from gsplit.data.inspect.label_counts import label_counts
from gsplit.data.inspect.render.lines import odd_things, text_table
from gsplit.data.inspect.render.sentences import partition, targets, title
from gsplit.data.layout import TypedLayout
from gsplit.data.opened import OpenFolder
from gsplit.data.typed_graph import TypedGraph


def typed_lines(opened: OpenFolder, *, verified: bool = False) -> Iterator[str]:
    """All lines about a graph of several types; ``verified`` is whether checksums were compared."""
    graph = opened.graph
    assert isinstance(graph, TypedGraph)
    schema, hops = graph.schema, graph.schema.hops_to(graph.target)
    yield title(opened) + (", verified" if verified else "")
    yield f"  {graph.in_words}"
    yield from ("", f"types: labels are of {schema.types[graph.target].name}")
    yield from text_table(
        ["", "vertices", "features", "hops to the labels"],
        [
            [
                each.name,
                f"{each.num_vertices:,}",
                "none" if rows is None else f"{rows.shape[1]:,} {rows.dtype}",
                "no path" if hop is None else str(hop),
            ]
            for each, rows, hop in zip(schema.types, graph.features_by_type, hops, strict=True)
        ],
        right=(1, 2, 3),
    )
    yield from ("", "relations, and in-degrees by them")
    yield from text_table(
        ["", "edges", "weights", "mean", "median", "largest", "without"],
        [
            [f"{each.source} {each.name} {each.destination}", *_degrees(edges)]
            for each, edges in zip(schema.relations, graph.adjacencies, strict=True)
        ],
        right=range(1, 7),
    )
    yield from ("", f"labels: {targets(graph)}")
    if isinstance(opened, TypedLayout):
        yield from ("", f"partition: {partition(opened)}")
        yield from _quality(opened)
    yield ""
    yield from odd_things([*class_concerns(graph, label_counts(graph)), *unreached_types(graph)])


def _degrees(edges: Adjacency) -> list[str]:
    """Edges, weights, and the in-degrees of the destinations of a relation, in words."""
    degrees = np.diff(edges.indptr)
    weights = "no" if edges.edge_weight is None else "yes"
    if not len(degrees):
        return ["0", weights, "", "", "", "0"]
    return [
        f"{len(edges.indices):,}",
        weights,
        f"{degrees.mean():.1f}",
        f"{np.median(degrees):g}",
        f"{degrees.max():,}",
        f"{np.count_nonzero(degrees == 0):,}",
    ]


def _quality(layout: TypedLayout) -> Iterator[str]:
    """The quality of the parts, all together, by type and by relation."""
    quality = layout.description["quality"]
    yield (
        f"  local edges {quality['local_edges']:.4f}; largest part over the mean: edges "
        f"{quality['balance_edges']:.3f}, training targets {quality['balance_train_targets']:.3f}"
    )
    yield from text_table(
        ["", "largest over the mean", "vertices by part"],
        [
            [name, f"{of['balance_vertices']:.3f}", ", ".join(f"{count:,}" for count in of["vertices_per_part"])]
            for name, of in quality["types"].items()
        ],
        right=(1,),
    )
    yield from text_table(
        ["", "edge cut", "local edges"],
        [[name, f"{of['edge_cut']:,}", f"{of['local_edges']:.4f}"] for name, of in quality["relations"].items()],
        right=(1, 2),
    )
