"""Scores and neighbours as arrays of a .npz, and as lines of a .csv, a pair each (docs/formats.md, "Predictions").

Legend: M pairs or vertices that were asked for, k neighbours of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.kept_ids import KeptIds, as_array
from gsplit.predict.csv_rows import called, csv_rows

PAIRS_AT_ONCE = 1 << 14
END_NAMES = ("source", "destination")


def pair_arrays(
    what: str, asked: NDArray[np.int64], values: NDArray[Any], ids: KeptIds | None, where: str
) -> dict[str, Any]:
    """The arrays of a .npz.

    Args:
        what: scores or neighbours.
        asked: [M, 2] pairs, or [M] vertices.
        values: [M] scores, or [M, k] neighbours and scores.
        ids: of the user's own, if there are any.
        where: what messages call the file.
    """
    if what == "scores":
        arrays: dict[str, Any] = {"pairs": asked, "scores": values}
        columns = dict(zip(END_NAMES, asked.T, strict=True))
    else:
        arrays = {"vertices": asked, "neighbours": values["neighbour"], "scores": values["score"]}
        columns = {"": asked}
    for end, vertices in {} if ids is None else columns.items():
        assert ids is not None
        for name, of_column in zip(ids.names, ids.of(vertices), strict=True):
            key = "_".join(part for part in ("ids", end, name) if part)
            arrays[key] = as_array(of_column, where, "choose an --out of .csv")
    return arrays


def write_pairs_csv(
    path: Path, what: str, asked: NDArray[np.int64], values: NDArray[Any], ids: KeptIds | None
) -> None:
    """Write a line for each pair; its first columns are those of an edge list.

    Args:
        path: the file.
        what: scores or neighbours.
        asked: [M, 2] pairs, or [M] vertices.
        values: [M] scores, NaN where there is none, or [M, k] neighbours and scores.
        ids: of the user's own, if there are any.
    """
    names = [""] if ids is None or len(ids.names) == 1 else [f"_{name}" for name in ids.names]
    header = [f"{end}{name}" for end in END_NAMES for name in names]
    of_pairs = _scored(asked, values) if what == "scores" else _neighbours(asked, values)
    with csv_rows(path, [*header, *(("score",) if what == "scores" else ("rank", "score"))]) as write:
        for pairs, numbers, scores in of_pairs:
            texts = scores.astype(str)  # in NumPy: the shortest that reads back as the same number
            texts[np.isnan(scores)] = ""
            ends = [column for end in pairs.T for column in called(end, ids)]
            write(ends, np.column_stack([*numbers, texts]))


def _scored(
    pairs: NDArray[np.int64], values: NDArray[Any]
) -> Iterator[tuple[NDArray[np.int64], list[NDArray[Any]], NDArray[Any]]]:
    for begin in range(0, len(pairs), PAIRS_AT_ONCE):
        yield pairs[begin : begin + PAIRS_AT_ONCE], [], np.asarray(values[begin : begin + PAIRS_AT_ONCE])


def _neighbours(
    vertices: NDArray[np.int64], values: NDArray[Any]
) -> Iterator[tuple[NDArray[np.int64], list[NDArray[Any]], NDArray[Any]]]:
    """Pairs of vertices and the neighbours that there are, their ranks from 1 on, and their scores."""
    at_once = max(1, PAIRS_AT_ONCE // values.shape[1])
    for begin in range(0, len(vertices), at_once):
        piece = np.asarray(values[begin : begin + at_once])
        of, rank = np.nonzero(piece["neighbour"] >= 0)
        found = piece[of, rank]
        pairs = np.stack([vertices[begin + of], found["neighbour"]], axis=1)
        yield pairs, [(rank + 1).astype(str)], found["score"]
