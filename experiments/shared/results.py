"""What experiments write and print alike: the graph, and ``--json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gsplit.data import Layout
from gsplit.files import replace_file


def write_json(path: Path, result: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Write what an experiment found, indented; a file that is there is replaced at once."""
    replace_file(path, json.dumps(result, indent=2).encode() + b"\n")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: str = ".3f") -> str:
    """A table in Markdown; null is ``-``, and fractions are shown as ``numbers`` says."""

    def text(cell: Any) -> str:
        return "-" if cell is None else format(cell, numbers) if isinstance(cell, float) else str(cell)

    lines = [head, ["---"] * len(head), *(list(map(text, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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


def dataset_text(dataset: dict[str, Any]) -> str:
    """What :func:`about` says, in a line."""
    generator = dataset["generator"]
    made = (
        "a layout folder"
        if generator is None
        else "generator: {preset}, version {version}, seed {seed}".format(**generator)
    )
    return (
        f"{dataset['name']}: {dataset['vertices']:,} vertices, {dataset['edges']:,} edges, {dataset['parts']} parts, "
        f"{dataset['training_targets']:,} training targets; {made}"
    )


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
