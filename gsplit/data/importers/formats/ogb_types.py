"""Graphs of several types in the layout of OGB's ogbn-mag, from the raw files as they are downloaded.

A folder with

- ``raw/num-node-dict.csv.gz``: names of the types, below them their numbers of vertices,
- ``raw/triplet-type-list.csv.gz``: a relation a line, source type, name and destination type,
- ``raw/relations/A___r___B/edge.csv.gz`` of each, and perhaps ``num-edge-list.csv.gz``,
- ``raw/node-feat/T/node-feat.csv.gz`` of the types that have features, ``raw/node-label/T/node-label.csv.gz`` of one,
- ``split/NAME/T/{train,valid,test}.csv.gz`` of that type.

What else OGB has there, such as ``node_year`` and ``edge_reltype``, is not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsplit.data.importers.checked import parses, printable_line
from gsplit.data.importers.formats.ogb_files import text_edges, text_vertices
from gsplit.data.importers.source import GraphSource, TypedSource
from gsplit.data.importers.tables.content import UNREADABLE, open_text
from gsplit.data.schema import Relation
from gsplit.errors import InputError

TYPES, RELATIONS = "num-node-dict.csv.gz", "triplet-type-list.csv.gz"
LONGEST = 1 << 24
"""Bytes that tables of names may have."""


def load_ogb_folder(folder: Path, *, num_classes: int | None = None) -> TypedSource:
    """Read a folder of several types; its name is that of the graph.

    Args:
        folder: with ``raw``.
        num_classes: of the labels; None: one more than the largest.

    Raises:
        InputError: for files that are missing or damaged, and numbers that do not fit each other; what is wrong far
            down in edges or features, when those are read.
    """
    raw = folder / "raw"
    names, *counts = _fields(raw / TYPES)
    if len(counts) != 1 or len(counts[0]) != len(names) or not all(parses(each, int) for each in counts[0]):
        raise InputError(f"{raw / TYPES} must have two lines, names of types and as many numbers of vertices")
    sizes = dict(zip(names, map(int, counts[0]), strict=True))
    if len(sizes) < len(names) or min(sizes.values()) < 0:
        raise InputError(f"{raw / TYPES} has a name twice, or a negative number")
    relations = {}
    for line, triplet in enumerate(_fields(raw / RELATIONS), start=1):
        if len(triplet) != 3 or "/" in "".join(triplet):
            raise InputError(f"{raw / RELATIONS}, line {line}: {len(triplet)} names, or one with a /, not three")
        if Relation(*triplet) in relations:
            raise InputError(f"{raw / RELATIONS}, line {line}: the relation {Relation(*triplet)} stands there twice")
        relations[Relation(*triplet)] = text_edges(raw / "relations" / "___".join(triplet))
    where = str(folder)
    return TypedSource(
        name=folder.resolve().name,
        where=where,
        types={name: _vertices(folder, name, count, num_classes, where) for name, count in sizes.items()},
        relations=relations,
    )


def _vertices(folder: Path, name: str, count: int, num_classes: int | None, where: str) -> GraphSource:
    """The vertices of a type: features, labels and sets where it has some."""
    if "/" in name or name in ("", ".", ".."):
        raise InputError(f"{folder / 'raw' / TYPES}: {name!r} is no name of a folder, which each type has")
    features, labels = (folder / "raw" / of / name / f"{of}.csv.gz" for of in ("node-feat", "node-label"))
    splits = [split / name for split in sorted(folder.glob("split/*")) if (split / name).is_dir()]
    if len(splits) > 1:
        raise InputError(f"{where}: type {name} has several splits: {', '.join(map(str, splits))}; leave one")
    return text_vertices(
        features,
        labels if labels.is_file() else None,
        splits[0] if splits else None,
        count,
        num_classes,
        name=folder.name,
        where=f"{where}: type {name}",
    )


def _fields(path: Path) -> list[list[Any]]:
    """The fields of the lines of a small table of names, one line at least."""
    try:
        with open_text(path) as file:
            text = file.read(LONGEST).decode()
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except UNREADABLE as error:
        raise InputError(f"{path} is damaged: {printable_line(str(error))}") from None
    lines = [line.strip().split(",") for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path} has no line")
    return lines
