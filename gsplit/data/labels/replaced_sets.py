"""Vertex sets of a store that grows: those there were, and in their place those of the rows of files."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS

logger = logging.getLogger(__name__)


def replaced_sets(
    kept: Mapping[str, NDArray[np.int64]],
    found: Mapping[str, NDArray[np.int64]],
    named: NDArray[np.int64],
    old: int,
    path: str,
) -> dict[str, NDArray[np.int64]]:
    """Vertex sets: those of a store, and those of files; a vertex that a file names leaves the set it was in.

    Args:
        kept: those of the store.
        found: those of the files.
        named: the vertices that have a row in them.
        old: N0.
        path: the files, for messages.
    """
    nothing = np.empty(0, np.int64)
    sets = {}
    moved = [nothing]
    for name in VERTEX_SETS:
        was, new = kept.get(name, nothing), found.get(name, nothing)
        both = np.concatenate([was[~np.isin(was, named)], new])
        # What ascends stays so: then it does not show in how many steps a store was made.
        sets[name] = np.sort(both) if all((np.diff(part) > 0).all() for part in (was, new)) else both
        moved.append(np.setxor1d(both[both < old], was))
    if count := len(np.unique(np.concatenate(moved))):
        logger.info("%s: %s vertices that were there change their set", path, f"{count:,}")
    return {name: vertices for name, vertices in sets.items() if len(vertices)}
