"""An overview of a graph, as a page of HTML that needs no network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gsplit.atomic_folder import OUTPUTS
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.inspect.feature_columns import FeatureColumns
from gsplit.data.inspect.overview import Overview
from gsplit.data.inspect.render import cells, sentences
from gsplit.data.layout import Layout
from gsplit.errors import InputError
from gsplit.files import check_form, check_writable, replace_file
from gsplit.pages.drawing import grouped, series, stacked
from gsplit.pages.rendering import printable, render
from gsplit.units import binary

WRITER, PACKAGE = "gsplit.data.inspect", "gsplit.data.inspect.render"
CLASSES_DRAWN, FEATURES, ROWS = 30, 12, 1000
"""Classes that are drawn, features that stand in sight, and rows of a table, at most."""


def check_page_free(out: Path, *, overwrite: bool) -> None:
    """Raise InputError where a page cannot be written, or something is there; ``overwrite`` allows a file."""
    OUTPUTS.recover(out)
    check_form(out, (".html", ".htm"), "a page", "--html")
    check_writable(out, "--html")
    if os.path.lexists(out) and not overwrite:
        raise InputError(f"--html {out} exists already; choose another file or add --overwrite")


def write_page(seen: Overview, out: Path, *, overwrite: bool = False) -> int:
    """Write the page of a graph to a file; its size in bytes."""
    content = page(seen).encode()
    check_page_free(out, overwrite=overwrite)  # another process may have been faster
    replace_file(out, content)
    return len(content)


def page(seen: Overview) -> str:
    """The page of a graph; InputError where Jinja or Matplotlib is not installed."""
    graph, opened = seen.graph, seen.opened
    degrees = cells.degree_table(seen.structure, graph.num_vertices)
    ids = f"; {sentences.ids(seen)}" if seen.ids else ""
    return render(
        PACKAGE,
        "graph.html.j2",
        writer=WRITER,
        title=printable(opened.name),
        subtitle=printable(f"{sentences.title(seen.opened)}{ids}"),
        cards=_cards(seen),
        concerns=[printable(concern.text) for concern in seen.concerns],
        left_out=seen.leaks.left_out,
        edges=[
            ["edges", sentences.edges(seen)],
            ["components", sentences.components(seen)],
            ["in-degree", printable(sentences.degrees(seen))],
            *([["links", printable(sentences.links(seen))]] if seen.links is not None else []),
        ],
        picture_of_degrees=grouped(
            {str(each): [each.vertices] for each in seen.structure.degrees},
            {"vertices": series(0)},
            "Vertices by in-degree",
            "vertices",
            lambda count: f"{count:,.0f}",
        ),
        degrees=degrees,
        most_in_sight=CLASSES_DRAWN,
        labels=_labels(seen) if graph.num_classes else None,
        features=None if seen.features is None else _features(seen, seen.features),
        columns=cells.column_table(seen.columns, ROWS) if seen.columns else None,
        partition={"note": sentences.partition(opened), "table": cells.quality_table(opened)}
        if isinstance(opened, Layout)
        else None,
    )


def _cards(seen: Overview) -> list[dict[str, str]]:
    graph = seen.graph
    shown = [
        (f"{graph.num_vertices:,}", "vertices", f"{len(seen.structure.isolated):,} isolated"),
        (f"{graph.num_edges:,}", "directed edges", f"{seen.structure.mean_degree:.1f} a vertex"),
    ]
    if graph.features is not None:
        shown.append(
            (f"{graph.num_features:,}", "features", f"{graph.features.dtype}, {binary(graph.features.nbytes)}")
        )
    if graph.num_classes:
        what = {"classes": "classes", "labels": "labels, several a vertex", "regression": "outputs of a regression"}
        note = f"{seen.labels.labelled:,} vertices labelled"
        shown.append((f"{graph.num_classes:,}", what[graph.task], note))
        sizes = [len(graph.vertex_set(name)) for name in VERTEX_SETS]
        share = cells.share(sizes[0], graph.num_vertices)
        shown.append((f"{sizes[0]:,}", f"training vertices, {share}", f"{sizes[1]:,} valid, {sizes[2]:,} test"))
    cards = zip(shown, range(len(shown)), strict=True)
    return [{"value": value, "of": of, "note": note, "colour": series(at)} for (value, of, note), at in cards]


def _labels(seen: Overview) -> dict[str, Any]:
    graph, labels = seen.graph, seen.labels
    if labels.outputs is not None:
        table = cells.output_table(labels.outputs, graph.num_vertices, ROWS)
        return {"note": sentences.labels(seen), "picture": None, "table": table}
    drawn = cells.class_places(labels, CLASSES_DRAWN)
    rows = {
        cells.class_name(graph, int(labels.numbers[at])): {
            **dict(zip(("training", "validation", "test"), labels.in_sets[at].tolist(), strict=True)),
            "in no set": int(max(0, labels.counts[at] - labels.in_sets[at].sum())),
        }
        for at in drawn
    }
    title = "Vertices by class" if len(drawn) == len(labels.numbers) else f"The {len(drawn)} largest classes"
    picture = stacked(rows, title, "vertices", lambda count: f"{count:,.0f}", first=1)
    return {"note": sentences.labels(seen), "picture": picture, "table": cells.class_table(graph, labels, ROWS)}


def _features(seen: Overview, features: FeatureColumns) -> dict[str, Any]:
    note = "; ".join(filter(None, (sentences.features(seen, features), sentences.ranges(features))))
    first = cells.feature_table(seen, features, FEATURES)
    return {
        "note": note,
        "first": first,
        "table": cells.feature_table(seen, features, ROWS) if first.left_out else None,
    }
