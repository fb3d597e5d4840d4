"""An overview of a graph, as lines for a terminal: sentences, small tables with bars, and at the end what is odd."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence

from gsplit.data.inspect.concerns import Concern
from gsplit.data.inspect.overview import Overview
from gsplit.data.inspect.render import cells, sentences
from gsplit.data.layout import Layout
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
