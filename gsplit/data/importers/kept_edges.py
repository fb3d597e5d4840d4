"""Edges that are read once and kept in a file, so that their vertices are known before other files are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gsplit.data.importers.source import EdgeChunk, GraphSource
from gsplit.data.spill import EdgeSpill
from gsplit.errors import InputError


def kept_edges(found: GraphSource, folder: Path) -> tuple[GraphSource, int]:
    """The source with its edges in a file, and one more than the largest vertex in them, 0 where there are no edges.

    Args:
        found: whose vertices are whole numbers.
        folder: for the file; the caller removes it.

    Raises:
        InputError: for ids below 0.
    """
    spill = EdgeSpill(folder)
    count, bound = 0, 0
    try:
        for chunk in found.edges.chunks():
            pairs = np.stack([chunk.source, chunk.destination], axis=1).astype(np.int64, copy=False)
            if not len(pairs):
                continue
            if pairs.min() < 0:
                at = int(np.argmax((pairs < 0).any(axis=1)))
                raise InputError(
                    f"{found.where}, {found.edges.place(count + at)}: {pairs[at, 0]} -> {pairs[at, 1]} names a "
                    "vertex below 0; ids count from 0"
                )
            largest = int(pairs.max())
            spill.add(pairs, chunk.weight, largest)
            bound = max(bound, largest + 1)
            count += len(pairs)
    finally:
        spill.close()

    def chunks() -> Iterator[EdgeChunk]:
        for pairs, weight in spill.pieces():
            yield EdgeChunk(source=pairs[:, 0], destination=pairs[:, 1], weight=weight)

    return replace(found, edges=replace(found.edges, chunks=chunks, count=count)), bound
