"""A partition of the user's own: a file with the part of each vertex.

A ``.npy`` of integers [N], or one column of text or Parquet, which is what METIS writes beside a graph as
``GRAPH.part.P``. The rows stand in the order of the vertices, and parts count from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import integers, read_npy
from gsplit.data.importers.tables.table import open_table
from gsplit.errors import InputError


def read_parts(path: Path, num_vertices: int, parts: int | None) -> tuple[NDArray[np.int32], int]:
    """Part of each vertex, int32 [N], and P.

    Args:
        path: the file.
        num_vertices: N, as many numbers as it must have.
        parts: P, where that was asked for; None: one more than the largest number in the file.

    Raises:
        InputError: for a file that is missing or damaged, of another length, or with a number that is no part.
    """
    part_N, place = _numbers(path)
    if len(part_N) != num_vertices:
        raise InputError(f"{path} has {len(part_N):,} parts; there must be one for each of {num_vertices:,} vertices")
    limit = num_vertices if parts is None else parts
    bad = (part_N < 0) | (part_N >= limit)
    if bad.any():
        at = int(np.argmax(bad))
        why = "parts count from 0"
        if part_N[at] > 0:
            why = f"there are {num_vertices:,} vertices" if parts is None else f"--parts is {parts}; drop --parts"
        raise InputError(f"{path}, {place(at)}: {part_N[at]} is no part; {why}")
    found = int(part_N.max()) + 1
    if parts is not None and parts != found:
        raise InputError(f"--parts is {parts}, but {path} has the parts 0 .. {found - 1}; drop --parts")
    return part_N.astype(np.int32), found


def _numbers(path: Path) -> tuple[NDArray[np.int64], Callable[[int], str]]:
    """The numbers in a file, and what messages call the place of each."""
    if path.suffix == ".npy":
        array = read_npy(path)
        column = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        return integers(column, str(path)), "entry {}".format
    table = open_table(path)
    if table.num_columns != 1:
        raise InputError(f"{path} has {table.num_columns} columns; a partition is one, the part of each vertex")
    chunks = [numbers for (numbers,) in table.read([0], [int])]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64), table.place
