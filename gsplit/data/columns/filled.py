"""Features without gaps: what is missing filled by the rule that was asked for, numbers standardised.

Means and deviations are those of the values that are there among the training vertices, or among all where nobody
trains; deviations divide by their count, as scikit-learn's ``StandardScaler`` does. They are taken in a pass of their
own over the files, in float64, so that what is written is written once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import Assembled, Block, FeatureColumn
from gsplit.data.columns.moments import Moments
from gsplit.errors import InputError

VALUES_AT_ONCE = 1 << 22
"""Features looked at at once, in float64; an array may have thousands of columns."""
ROWS_AT_ONCE = 1 << 16
COLUMNS_SHOWN = 20

logger = logging.getLogger(__name__)


class Filled:
    """The finished rows of features, and what was done to each column.

    Args:
        features: as read.
        training: ids of the training vertices; empty: all vertices count.

    Raises:
        InputError: where a column has no value that a mean or deviation could be taken of.
    """

    def __init__(self, features: Assembled, training: NDArray[np.int64]) -> None:
        self._features = features
        self._training = training
        self._moments: list[Moments] | None = None
        if features.takes_moments:
            self._moments = [self._moments_of(block) for block in features.blocks]
        self._lacking = [np.zeros(len(block.columns), np.int64) for block in features.blocks]
        self._without_row = [0] * len(features.blocks)

    def pieces(self) -> Iterator[tuple[NDArray[np.int64], slice, NDArray[Any]]]:
        """Vertices [n], the features that are theirs, and the values [n, width]; together all of the matrix.

        Raises:
            InputError: for a value that is missing where none may be.
        """
        first = 0
        for number, block in enumerate(self._features.blocks):
            features = slice(first, first + block.width)
            first += block.width
            seen = np.zeros(self._features.num_vertices, np.bool_)
            for begin, vertices, piece in _kept(block):
                seen[vertices[vertices >= 0]] = True
                piece = self._finished(number, begin, vertices, piece)
                yield vertices[vertices >= 0], features, piece
            without = np.flatnonzero(~seen)
            self._without_row[number] = len(without)
            if len(without) and self._features.missing == "refuse":
                raise InputError(
                    f"{block.path} has no row for vertex {without[0]}, nor for {len(without) - 1} others; add them, "
                    "or --missing zero or mean fills them in"
                )
            at_once = _rows_at_once(block)
            for at in range(0, len(without), at_once):
                vertices = without[at : at + at_once]
                yield vertices, features, self._finished_fill(number)[None].repeat(len(vertices), axis=0)

    def _finished(self, number: int, begin: int, vertices: NDArray[np.int64], piece: NDArray[Any]) -> NDArray[Any]:
        """The rows of a block that are kept, filled and scaled."""
        block = self._features.blocks[number]
        kept = vertices >= 0
        _check_infinite(block, begin, vertices, piece)
        gaps = np.isnan(piece) if piece.dtype.kind == "f" else np.zeros(piece.shape, np.bool_)
        gaps &= kept[:, None]
        if gaps.any():
            if self._features.missing == "refuse":
                raise InputError(
                    f"{_first_place(block, begin, gaps)} has no value; --missing zero or mean fills it in"
                )
            self._lacking[number] += [
                int(gaps[:, at : at + column.width].any(axis=1).sum()) for column, at in _columns(block)
            ]
            piece = np.where(gaps, self._fill(number), piece)
        return self._scaled(number, piece if kept.all() else piece[kept])

    def _fill(self, number: int) -> NDArray[np.float64]:
        """What stands for a missing value of each feature, float64 [width], before it is scaled."""
        block = self._features.blocks[number]
        if self._moments is None or self._features.missing != "mean":
            return np.zeros(block.width)
        codes = [column.kind == "code" for column, _ in _columns(block) for _ in range(column.width)]
        return np.where(codes, 0.0, self._moments[number].mean)

    def _finished_fill(self, number: int) -> NDArray[Any]:
        return self._scaled(number, self._fill(number)[None])[0]

    def _scaled(self, number: int, piece: NDArray[Any]) -> NDArray[Any]:
        if not self._features.standardize:
            return piece
        mean, deviation = self._scale(number)
        return (piece - mean) / deviation

    def _scale(self, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What is taken from each feature and what divides it, float64 [width]."""
        assert self._moments is not None
        block, moments = self._features.blocks[number], self._moments[number]
        scaled = np.repeat([column.is_scaled for column in block.columns], [c.width for c in block.columns])
        deviation = moments.deviation
        return np.where(scaled, moments.mean, 0.0), np.where(scaled & (deviation > 0), deviation, 1.0)

    def _moments_of(self, block: Block) -> Moments:
        moments = Moments(block.width)
        counts = np.zeros(self._features.num_vertices, np.bool_)
        counts[self._training if len(self._training) else slice(None)] = True
        for begin, vertices, piece in _kept(block):
            _check_infinite(block, begin, vertices, piece)
            moments.add(piece[counts[vertices] & (vertices >= 0)])
        needed = [self._takes_moments(column) for column, _ in _columns(block) for _ in range(column.width)]
        lacking = (moments.count == 0) & np.array(needed, np.bool_)
        if lacking.any():
            at = int(np.argmax(lacking))
            column, _ = _column_at(block, at)
            among = "training vertex" if len(self._training) else "vertex"
            raise InputError(
                f"{block.path}: column {column.name or at + 1} has no value of any {among} to take a mean of; drop "
                "the column, or --missing mean and --standardize"
            )
        return moments

    def _takes_moments(self, column: FeatureColumn) -> bool:
        """Whether the mean or deviation of a column is used; codes are filled with 0 and not scaled."""
        return (self._features.standardize and column.is_scaled) or (
            self._features.missing == "mean" and column.kind != "code"
        )

    def described(self) -> list[dict[str, Any]]:
        """What was made of each column, for the description of the store; after :meth:`pieces`."""
        said = []
        first = 0
        for number, block in enumerate(self._features.blocks):
            fill = self._fill(number)
            for index, (column, at) in enumerate(_columns(block)):
                lacking = int(self._lacking[number][index]) + self._without_row[number]
                entry: dict[str, Any] = {
                    "table": column.table,
                    "column": column.name,
                    "kind": column.kind,
                    "features": [first + at, first + at + column.width],
                }
                if column.categories:
                    entry["categories"] = list(column.categories)
                if lacking:
                    entry["missing"] = lacking
                    entry["filled_with"] = fill[at : at + column.width].tolist()
                if self._features.standardize and column.is_scaled:
                    mean, deviation = self._scale(number)
                    entry["mean"] = mean[at : at + column.width].tolist()
                    entry["deviation"] = deviation[at : at + column.width].tolist()
                said.append(entry)
            first += block.width
        return said


def say(columns: list[dict[str, Any]]) -> None:
    """Print what was made of the columns that are not just numbers as they stood, a line each."""
    told = [line for entry in columns if (line := _told(entry))]
    for line in told[:COLUMNS_SHOWN]:
        logger.info("%s", line)
    if len(told) > COLUMNS_SHOWN:
        logger.info("... and %s other columns; graph.json lists them all", len(told) - COLUMNS_SHOWN)


def _told(entry: dict[str, Any]) -> str:
    parts = []
    if "categories" in entry:
        categories = len(entry["categories"])
        parts.append(
            f"{categories:,} categories, a feature each"
            if entry["kind"] == "category"
            else f"codes of {categories:,} categories, from 1 on"
        )
    elif entry["kind"] in ("bool", "time"):
        parts.append({"bool": "1 for true and 0 for false", "time": "days since 1970-01-01"}[entry["kind"]])
    one = len(entry.get("filled_with", ())) == 1
    if "missing" in entry:
        filled = f" filled with {entry['filled_with'][0]:.4g}" if one else " filled"
        parts.append(f"{entry['missing']:,} missing values{filled}")
    if "mean" in entry:
        one = len(entry["mean"]) == 1
        parts.append(
            f"standardised (mean {entry['mean'][0]:.4g}, deviation {entry['deviation'][0]:.4g})"
            if one
            else "standardised"
        )
    what = f"column {entry['column']}" if entry["column"] else "the array"
    return f"{entry['table']}: {what}: {', '.join(parts)}" if parts else ""


def _kept(block: Block) -> Iterator[tuple[int, NDArray[np.int64], NDArray[Any]]]:
    """The number of the first row, the vertices and the values, some rows at a time."""
    begin, at_once = 0, _rows_at_once(block)
    for chunk in block.chunks():
        for at in range(0, len(chunk), at_once):
            piece = chunk[at : at + at_once]
            rows = np.arange(begin, begin + len(piece))
            yield begin, rows if block.vertices is None else block.vertices[rows], piece
            begin += len(piece)


def _rows_at_once(block: Block) -> int:
    return max(1, min(ROWS_AT_ONCE, VALUES_AT_ONCE // max(1, block.width)))


def _check_infinite(block: Block, begin: int, vertices: NDArray[np.int64], piece: NDArray[Any]) -> None:
    """Refuse what is infinite in rows that are kept; a table's numbers are float32 by now.

    Raises:
        InputError: naming the first place.
    """
    if piece.dtype.kind == "f" and (infinite := np.isinf(piece)).any():
        infinite &= (vertices >= 0)[:, None]
        if infinite.any():
            raise InputError(
                f"{_first_place(block, begin, infinite)} is infinite, or too large for float32; replace it first"
            )


def _first_place(block: Block, begin: int, marked: NDArray[np.bool_]) -> str:
    """File, row and column of the first feature that is marked, of the rows from ``begin`` on."""
    row, at = (int(each[0]) for each in np.nonzero(marked))
    column, _ = _column_at(block, at)
    return f"{block.path}, {block.place(begin + row)}: column {column.name or at + 1}"


def _columns(block: Block) -> Iterator[tuple[FeatureColumn, int]]:
    """Each column and its first feature."""
    first = 0
    for column in block.columns:
        yield column, first
        first += column.width


def _column_at(block: Block, feature: int) -> tuple[FeatureColumn, int]:
    """The column that a feature is of, and its first feature."""
    return next((column, at) for column, at in _columns(block) if at <= feature < at + column.width)
