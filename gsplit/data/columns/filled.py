"""Features without gaps: what is missing filled by the rule that was asked for, numbers standardised."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import Assembled, column_of_feature, columns_of, first_place, rows_at_once, rows_of
from gsplit.data.columns.rounding import WAY_OUT, Rounding, log_rounded
from gsplit.data.columns.statistics import statistics_of
from gsplit.data.graph import BOUNDED_BY, cast
from gsplit.data.inspect.described_columns import done_to
from gsplit.errors import InputError

COLUMNS_SHOWN = 20

logger = logging.getLogger(__name__)


class Filled:
    """The finished rows of features, and what was done to each column.

    Args:
        features: as read.
        training: ids of the training vertices; empty: all vertices count.
        dtype: of the rows.

    Raises:
        InputError: where a column has no value that a mean or deviation could be taken of.
    """

    def __init__(self, features: Assembled, training: NDArray[np.int64], dtype: str) -> None:
        self._features, self._dtype = features, dtype
        self._statistics = [statistics_of(features, block, training) for block in features.blocks]
        self._lacking = [np.zeros(len(block.columns), np.int64) for block in features.blocks]
        self._without_row = [0] * len(features.blocks)
        self._rounding = [
            Rounding(
                np.repeat(
                    [column.kind == "time" and not features.standardize for column in block.columns],
                    [column.width for column in block.columns],
                )
            )
            for block in features.blocks
        ]

    def pieces(self) -> Iterator[tuple[NDArray[np.int64], slice, NDArray[Any]]]:
        """Vertices [n], the features that are theirs, and the values [n, width].

        Together they are all of the matrix, but for vertices of a store that grows that have no row in a file.

        Raises:
            InputError: for a value that is missing where none may be, or too large for the type.
        """
        first = 0
        for number, block in enumerate(self._features.blocks):
            features = slice(first, first + block.width)
            first += block.width
            seen = np.zeros(self._features.num_vertices, np.bool_)
            if self._features.kept is not None:
                seen[: len(self._features.kept.rows)] = True
            for begin, vertices, piece in rows_of(block):
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
            fill = self._fill(number)
            at_once = rows_at_once(block)
            for at in range(0, len(without), at_once):
                vertices = without[at : at + at_once]
                exact = fill.repeat(len(vertices), axis=0)
                rows = cast(exact, self._dtype)
                self._rounding[number].add(exact, rows)
                yield vertices, features, rows

    def _finished(self, number: int, begin: int, vertices: NDArray[np.int64], piece: NDArray[Any]) -> NDArray[Any]:
        """The rows of a block that are kept, filled, scaled and cast."""
        block = self._features.blocks[number]
        kept = vertices >= 0
        gaps = np.isnan(piece) if piece.dtype.kind == "f" else np.zeros(piece.shape, np.bool_)
        gaps &= kept[:, None]
        if gaps.any():
            if self._features.missing == "refuse":
                place = first_place(block, begin, gaps)
                raise InputError(f"{place} has no value; --missing zero or mean fills it in")
            self._lacking[number] += [
                int(gaps[:, at : at + column.width].any(axis=1).sum()) for column, at in columns_of(block)
            ]
        exact = self._scaled(number, piece if kept.all() else piece[kept])
        if gaps.any():
            exact = np.where(gaps[kept], self._fill(number), exact)
        rows = cast(exact, self._dtype)
        if not (finite := np.isfinite(rows)).all():
            large = np.zeros(piece.shape, np.bool_)
            large[kept] = ~finite
            raise InputError(
                f"{first_place(block, begin, large)} is {exact[~finite][0]:.6g}, too large for "
                f"{BOUNDED_BY[self._dtype]}; replace it first"
                + (", or give --standardize" if self._features.may_be_scaled else "")
            )
        self._rounding[number].add(exact, rows)
        return rows

    def _scaled(self, number: int, piece: NDArray[Any]) -> NDArray[Any]:
        if not self._features.standardize:
            return piece
        statistics = self._statistics[number]
        off = piece - statistics.mean
        return (off - statistics.rest if statistics.rest.any() else off) / statistics.deviation

    def _fill(self, number: int) -> NDArray[Any]:
        """What is stored in place of missing values, before it is cast, [1, width]; of means that are scaled 0."""
        statistics = self._statistics[number]
        scaled = self._scaled(number, statistics.fill[None])
        return np.where(statistics.fill == statistics.mean, 0.0, scaled) if self._features.standardize else scaled

    def log_rounded(self) -> None:
        """Warn of each column whose numbers the type does not hold, after :meth:`pieces`."""
        for block, rounding in zip(self._features.blocks, self._rounding, strict=True):
            way_out = WAY_OUT if self._features.kept is None else ", as before"
            log_rounded(block.path, rounding, partial(column_of_feature, block), way_out)

    def described(self) -> list[dict[str, Any]]:
        """Return what was made of each column, for the description of the store; after :meth:`pieces`."""
        entries = []
        first = 0
        for number, block in enumerate(self._features.blocks):
            statistics = self._statistics[number]
            for index, (column, at) in enumerate(columns_of(block)):
                lacking = int(self._lacking[number][index]) + self._without_row[number]
                entry: dict[str, Any] = {
                    "table": column.table,
                    "column": column.name,
                    "kind": column.kind,
                    "features": [first + at, first + at + column.width],
                }
                if column.form:
                    entry["form"] = column.form
                if column.categories:
                    entry["categories"] = list(column.categories)
                if lacking:
                    entry["missing"] = lacking
                    entry["filled_with"] = statistics.fill[at : at + column.width].astype(np.float64).tolist()
                if self._features.standardize and column.is_scaled:
                    entry["mean"] = statistics.mean[at : at + column.width].tolist()
                    if (rest := statistics.rest[at : at + column.width]).any():
                        entry["mean_rest"] = rest.tolist()
                    entry["deviation"] = statistics.deviation[at : at + column.width].tolist()
                entries.append(entry)
            first += block.width
        return entries if self._features.kept is None else _counted(self._features.kept.columns, entries)


def _counted(kept: Sequence[dict[str, Any]], made: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a store says of its columns, with the values that were filled in now."""
    counted = [dict(entry) for entry in kept]
    for entry, now in zip(counted, made, strict=bool(kept)):
        if "missing" in now:
            entry["missing"] = entry.get("missing", 0) + now["missing"]
            entry["filled_with"] = now["filled_with"]
    return counted


def log_columns(columns: list[dict[str, Any]]) -> None:
    """Print what was made of the columns that are not just numbers as they stood, a line each."""
    lines = [line for entry in columns if (line := _line_of(entry))]
    for line in lines[:COLUMNS_SHOWN]:
        logger.info("%s", line)
    if len(lines) > COLUMNS_SHOWN:
        logger.info("... and %s other columns; graph.json lists them all", len(lines) - COLUMNS_SHOWN)


def _line_of(entry: dict[str, Any]) -> str:
    count = f"{len(entry.get('categories', ())):,}"
    made = {
        "category": f"{count} categories, a feature each",
        "code": f"codes of {count} categories, from 1 on",
        "bool": "1 for true and 0 for false",
        "time": "days since 1970-01-01" + (f" out of time({entry['form']})" if "form" in entry else ""),
    }.get(entry["kind"], "")
    parts = [part for part in (made, done_to(entry)) if part]
    what = f"column {entry['column']}" if entry["column"] else "the array"
    return f"{entry['table']}: {what}: {'; '.join(parts)}" if parts else ""
