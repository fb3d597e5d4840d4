"""A graph as lines for a terminal: sentences, small tables, with bars of an overview, and at the end what is odd."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from gsplit.data.graph import Adjacency
from gsplit.data.inspect.concerns import Concern, class_concerns, unreached_types
from gsplit.data.inspect.label_counts import label_counts
from gsplit.data.inspect.overview import Overview
from gsplit.data.inspect.render import cells, sentences
from gsplit.data.layout import Layout, TypedLayout
from gsplit.data.opened import OpenFolder
from gsplit.data.typed_graph import TypedGraph
from gsplit.units import binary

BAR = 30
"""Characters of the longest bar."""
BLOCK, THIN = "\N{FULL BLOCK}", "\N{LEFT ONE EIGHTH BLOCK}"
ASCII = str.maketrans({BLOCK: "#", THIN: "."})
"""Characters in place of blocks where the output cannot show them."""


def bars(counts: Sequence[int]) -> list[str]:
    """A bar for each count; the largest is the longest, and what is not 0 can be seen."""
    most = max(counts, default=0) or 1
    return [BLOCK * round(BAR * count / most) or (THIN if count else "") for count in counts]


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> Iterator[str]:
    """Lines of a table, two spaces in; a head without words is left out.

    Args:
        right: the columns that stand to the right.
    """
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        cells = [
            text.rjust(width) if at in right else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        if line := "  ".join(cells).rstrip():
            yield f"  {line}"


def for_output(line: str) -> str:
    """A line in the characters that standard output can show."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        line = line.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return line


SHOWN = 12
"""Rows of a table at most: classes, features, columns of tables."""
FEATURES = 5
"""Features that are shown where there are many, and they have no names."""
TASKS = {"labels": "multi-label", "classes": "multi-class", "regression": "regression"}


def lines(seen: Overview, *, verified: bool = False) -> Iterator[str]:
    """All lines about a graph; ``verified`` is whether the checksums of its arrays were compared."""
    graph = seen.graph
    features = "none" if graph.features is None else f"{graph.features.dtype}, {binary(graph.features.nbytes)}"
    kind = TASKS[graph.task] if graph.num_classes else "no"
    yield sentences.title(seen.opened) + (", verified" if verified else "")
    yield f"  {sentences.counts(graph)}"
    yield f"  features {features}; indices {graph.indices.dtype}; {kind} labels"
    if seen.ids:
        yield f"  {sentences.ids(seen)}"
    if text := sentences.growth(seen):
        yield f"  {text}"
    yield from ("", f"edges: {sentences.edges(seen)}", f"  {sentences.components(seen)}")
    yield f"  in-degree: {sentences.degrees(seen)}"
    degrees = cells.degree_table(seen.structure, graph.num_vertices)
    yield from _lines_of(degrees, [each.vertices for each in seen.structure.degrees])
    if text := sentences.links(seen):
        yield from ("", f"links: {text}")
    if graph.num_classes:
        yield from ("", f"labels: {sentences.labels(seen)}")
        if seen.labels.outputs is not None:
            yield from _lines_of(cells.output_table(seen.labels.outputs, graph.num_vertices, SHOWN))
        else:
            counts = seen.labels.counts[cells.class_places(seen.labels, SHOWN)].tolist()
            yield from _lines_of(cells.class_table(graph, seen.labels, SHOWN), counts)
    if seen.features is not None:
        yield from ("", f"features: {sentences.features(seen, seen.features)}")
        if text := sentences.ranges(seen.features):
            yield f"  {text}"
        few = seen.features.count <= SHOWN or seen.columns
        yield from _lines_of(cells.feature_table(seen, seen.features, SHOWN if few else FEATURES))
    if seen.columns:
        yield from ("", "columns of tables")
        yield from _lines_of(cells.column_table(seen.columns, SHOWN), right=())
    if isinstance(seen.opened, Layout):
        yield from ("", f"partition: {sentences.partition(seen.opened)}")
        yield from _lines_of(cells.quality_table(seen.opened), right=())
    yield ""
    if seen.leaks.left_out:
        yield f"features that give the label away were not looked for: {seen.leaks.left_out}"
    yield from odd_things(seen.concerns)


def odd_things(found: Sequence[Concern]) -> Iterator[str]:
    """The lines of what is odd."""
    if not found:
        yield "nothing odd was found"
        return
    yield f"{len(found)} odd thing{'s' if len(found) > 1 else ''}:"
    yield from (f"  ! {concern.text}" for concern in found)


def _lines_of(
    table: cells.PrintedTable, counts: Sequence[int] | None = None, right: Sequence[int] | None = None
) -> Iterator[str]:
    """The lines of a table, with a bar behind each row for its count."""
    head, rows = list(table.head), [list(row) for row in table.rows]
    right = range(1, len(head)) if right is None else right
    if counts is not None:
        head, rows = [*head, ""], [[*row, bar] for row, bar in zip(rows, bars(counts), strict=True)]
    if rows:
        yield from text_table(head, rows, right)
    if table.left_out:
        yield f"  ... {table.left_out}"


def typed_lines(opened: OpenFolder, *, verified: bool = False) -> Iterator[str]:
    """All lines about a graph of several types; ``verified`` is whether checksums were compared."""
    graph = opened.graph
    assert isinstance(graph, TypedGraph)
    schema, hops = graph.schema, graph.schema.hops_to(graph.target)
    yield sentences.title(opened) + (", verified" if verified else "")
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
    yield from ("", f"labels: {sentences.targets(graph)}")
    if isinstance(opened, TypedLayout):
        yield from ("", f"partition: {sentences.partition(opened)}")
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
