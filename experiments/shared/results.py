"""What experiments write and print alike: the graph, tables, and ``--json``."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from gsplit.data import Layout
from gsplit.files import replace_file
from gsplit.units import binary

Found = dict[str, Any] | list[dict[str, Any]]
"""What an experiment found: values by name, or rows."""


def write_json(path: Path, result: Found) -> None:
    """Write what an experiment found, indented; a file that is there is replaced at once."""
    replace_file(path, json.dumps(result, indent=2).encode() + b"\n")


def printed(row: dict[str, Any]) -> dict[str, Any]:
    """Print a row in a line when it is there, as experiments take long; give it back."""
    print(cell_of("", {key: value for key, value in row.items() if not _is_rows(value)}), flush=True)
    return row


def markdown(found: Mapping[str, Any] | Sequence[Mapping[str, Any]], title: str = "") -> str:
    """What an experiment found, for readers: each list of rows as a table, other values in lines.

    Args:
        found: as ``--json`` has it.
        title: of the table where ``found`` is a list of rows.
    """
    head = f"## {title}\n\n" if title else ""
    if not isinstance(found, Mapping):
        if any(map(_has_rows, found)):
            return "\n\n".join(markdown(row, title) for row in found)
        keys = list(dict.fromkeys(key for row in found for key in row))
        return head + markdown_table(keys, [[cell_of(key, row.get(key)) for key in keys] for row in found])
    values = {key: value for key, value in found.items() if not _has_rows(value)}
    lines = [f"{key}: {cell_of(key, value)}" for key, value in values.items() if isinstance(value, Mapping)]
    if rest := {key: value for key, value in values.items() if not isinstance(value, Mapping)}:
        lines.append(cell_of("", rest))
    parts = [head + "\n".join(lines)] if lines else []
    return "\n\n".join(parts + [markdown(value, key) for key, value in found.items() if key not in values])


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown of a head and cells, which :func:`cell_of` shows."""
    lines = [list(head), ["---"] * len(head), *([cell_of("", cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell_of(key: str, value: Any) -> str:
    """A value as a table shows it: null is ``-``, bytes have a unit, fractions four digits."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {cell_of(str(name), each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(cell_of(key, each) for each in value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and key.endswith("bytes"):
        return binary(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "/")


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _has_rows(value: Any) -> bool:
    """Whether a value is a list of rows, or has one in it."""
    return _is_rows(value) or (isinstance(value, Mapping) and any(map(_has_rows, value.values())))


def about(layout: Layout, generator: dict[str, Any] | None) -> dict[str, Any]:
    """The graph as ``--json`` names it; ``generator`` as in :class:`experiments.shared.datasets.Dataset`."""
    return {
        "name": layout.name,
        "vertices": layout.graph.num_vertices,
        "edges": layout.graph.num_edges,
        "parts": layout.parts,
        "training_targets": len(layout.graph.train_idx),
        "store_checksum": layout.store_checksum,
        "generator": generator,
    }


def versions(*packages: str) -> dict[str, str | None]:
    """Versions of Python and of packages, by the name that they are imported by; null where one is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name.replace("_", "-"))
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


PAPER_GRAPHS = {"products": "products", "papers100M": "papers100M", "papers": "papers100M", "amazon": "amazon"}
"""Ours -> the paper's."""


def paper_graph(name: str) -> str:
    """Which of the paper's graphs (its table 3) to show beside the one of this name; products where it is none."""
    plain = name.removeprefix("synthetic-").removeprefix("ogbn-").partition("-scale")[0]
    return PAPER_GRAPHS.get(plain, "products")


def records(run: Path, kind: str = "epoch") -> list[dict[str, Any]]:
    """The lines of a run's ``metrics.jsonl`` of a kind; none where it has written no such file."""
    path = run / "metrics.jsonl"
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return [record for record in lines if record["kind"] == kind]
