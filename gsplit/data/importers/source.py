"""What an importer hands over: edges in chunks, rows in chunks, labels and splits.

An importer only reads. Cleaning edges, building the adjacency and writing the store are the same for all of them
(:mod:`gsplit.data.build`), and neither edges nor features have to fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class EdgeChunk:
    """Some edges, in the order of the source."""

    source: NDArray[Any]
    """[n] int32 or int64 global ids"""
    destination: NDArray[Any]
    """[n]"""
    weight: NDArray[np.float32] | None = None
    """[n], or None"""


@dataclass(frozen=True, kw_only=True)
class Edges:
    """Directed edges that can be read more than once."""

    chunks: Callable[[], Iterator[EdgeChunk]]
    """Starts from the beginning at each call; raises InputError naming file and position of a bad edge."""
    weighted: bool = False
    count: int | None = None
    """How many, where that is known before reading (for the progress bar)."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A matrix read from top to bottom, for features too large for memory."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunks: Callable[[], Iterator[NDArray[Any]]]
    """[n, D] each; the chunks' rows add up to the shape's."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A graph as an importer found it, in global ids."""

    name: str
    edges: Edges
    num_vertices: int | None
    """None: one more than the largest id in the edges."""
    features: NDArray[Any] | Rows | None = None
    """[N, D] numbers; an array may be memory-mapped."""
    labels: NDArray[Any] | None = None
    """[N] numbers (-1 or NaN: unlabelled) or [N, C] (multi-label)."""
    num_classes: int | None = None
    """None: one more than the largest label."""
    splits: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """train, valid, test -> vertices; empty where the source has none."""
    where: str = ""
    """How messages call the source: its path."""
