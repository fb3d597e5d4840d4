"""Pictures of docs/results, drawn from docs/results/data/*.json by :mod:`tools.results`.

A page describes a picture in a comment, in TOML:

    <!-- picture NAME.TABLE
    file = "by-cache.svg"                            # in docs/results/pictures
    x = "cache_percent"
    y = "epoch"
    by = "system"                                    # a line for each
    where = { dataset = "amazon_computers" }         # rows that have these values; all where it is left out
    over = { x = "seconds", system = "gsplit" }      # divide x by the least of it of these rows; or leave it out
    xlabel = "..."
    ylabel = "..."
    alt = "What the picture shows, for who cannot see it."
    -->

Matplotlib draws. A new version of it may set a line elsewhere, so what is compared is not the drawing but a
fingerprint of rows and description, which stands in the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = "pictures"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gsplit",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
}
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa7700")
MARKS = ("o", "s", "^", "D")
KEYS = {"file", "x", "y", "by", "xlabel", "ylabel", "alt"}

Rows = Sequence[Mapping[str, Any]]


def lines_of(rows: Rows, spec: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """The points of each line, by what ``by`` names, in the order of x; rows without a value are left out.

    Raises:
        ValueError: for a description without its keys, and where no row is left.
    """
    if missing := KEYS - spec.keys():
        raise ValueError(f"a picture must have {', '.join(sorted(missing))}")
    wanted = spec.get("where", {})
    kept = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    kept = [row for row in kept if row[spec["x"]] is not None and row[spec["y"]] is not None]
    if not kept:
        raise ValueError(f"{spec['file']}: no row has {wanted}")
    unit = 1.0
    if of := dict(spec.get("over", {})):
        unit = min(row[of["x"]] for row in kept if row[spec["by"]] == of[spec["by"]])
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in kept:
        lines.setdefault(str(row[spec["by"]]), []).append((row[spec["x"]] / unit, row[spec["y"]]))
    return {name: sorted(points) for name, points in lines.items()}


def fingerprint(rows: Rows, spec: Mapping[str, Any]) -> str:
    """What tells a picture of these rows from that of others."""
    return hashlib.sha256(json.dumps([lines_of(rows, spec), dict(spec)]).encode()).hexdigest()[:16]


def is_drawn(path: Path, rows: Rows, spec: Mapping[str, Any]) -> bool:
    """Whether a file is the picture of these rows."""
    found = re.search(r"<!-- drawn from ([0-9a-f]+) -->", path.read_text()) if path.is_file() else None
    return found is not None and found[1] == fingerprint(rows, spec)


def draw(path: Path, rows: Rows, spec: Mapping[str, Any]) -> None:
    """Write the picture."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained", facecolor="white")
        axes = figure.subplots()
        lines = lines_of(rows, spec)
        for (name, points), colour, mark in zip(lines.items(), COLOURS, MARKS, strict=False):
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, marker=mark, markersize=4, color=colour, label=name)
        axes.set(xlabel=spec["xlabel"], ylabel=spec["ylabel"])
        axes.set_ylim(0, 1.08 * max(y for points in lines.values() for _, y in points))
        axes.legend(frameon=False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    begin = svg.index("<svg")
    path.parent.mkdir(exist_ok=True)
    text = "\n".join(line.rstrip() for line in svg[begin:].splitlines())
    path.write_text(f"<!-- drawn from {fingerprint(rows, spec)} -->\n{text}\n")
