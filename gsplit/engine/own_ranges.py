"""Which vertices are a trainer's own where nothing is split: it evaluates them, and copies or trains their rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.parallel import Member


def bounds_of(layout: Layout, trainers: int) -> NDArray[np.int64]:
    """[P + 1] bounds of the layout ids of the trainers.

    They are their parts, or, where those cannot be dealt out evenly, runs of equal length: what one vertex needs of
    another is read where it lies, so nothing asks for whole parts here.
    """
    return bounds_by_parts(layout.offsets, trainers)


def bounds_by_parts(offsets: NDArray[np.int64], trainers: int) -> NDArray[np.int64]:
    """[trainers + 1] bounds of the trainers, for parts with such offsets [parts + 1]."""
    parts = len(offsets) - 1
    if parts % trainers == 0:
        return offsets[:: parts // trainers]
    return np.linspace(0, offsets[-1], trainers + 1).astype(np.int64)


def own_range(layout: Layout, member: Member, type_: int = 0) -> tuple[int, int]:
    """Begin and end of the layout ids of a type, by its number, that a trainer evaluates."""
    bounds = bounds_by_parts(layout.offsets_by_type[type_], member.world)
    return int(bounds[member.rank]), int(bounds[member.rank + 1])
