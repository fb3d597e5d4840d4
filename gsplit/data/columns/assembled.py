"""A matrix of features put together from the columns of tables and arrays, before it is written.

N vertices, D features. Values that are not there are NaN until they are filled (:mod:`gsplit.data.columns.filled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["number", "category", "code", "bool", "time"]
"""What a column of a table holds: numbers; texts that become a feature each, or one number, from 1 on; true and
false; times, which become days since 1970-01-01 UTC."""
Missing = Literal["refuse", "zero", "mean"]


@dataclass(frozen=True, kw_only=True)
class FeatureColumn:
    """One column of a table and the features that it becomes; or a whole array."""

    table: str
    """The file."""
    name: str = ""
    """What the column is called: its number, from 1 on, without a header; empty for an array."""
    kind: Kind | Literal["array"] = "number"
    categories: tuple[str, ...] = ()
    """Texts of the categories: of a category, one a feature; of codes, those of 1, 2, ... ."""
    columns: int = 1
    """Number of columns of an array."""

    closed: bool = False
    """Whether texts that are no category are refused; else no value stands there."""

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.categories) if self.kind == "category" else self.columns

    @property
    def is_scaled(self) -> bool:
        """Whether standardising changes it: categories, codes and truth values stay."""
        return self.kind in ("number", "time", "array")


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What the features of a block are filled with and scaled by, each float64 [width]."""

    fill: NDArray[np.float64]
    """What stands for a value that is not there, before it is scaled."""
    mean: NDArray[np.float64]
    """What is taken from each feature; 0 where nothing is."""
    deviation: NDArray[np.float64]
    """What divides it then; 1 where nothing does."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """The features out of one file."""

    path: str
    """What messages call it."""
    columns: tuple[FeatureColumn, ...]
    chunks: Callable[[], Iterator[NDArray[Any]]]
    """Function that reads the rows from the beginning, [n, width] at a time, NaN where there is no value."""
    vertices: NDArray[np.int64] | None = None
    """[rows], the vertex of each row, none twice; -1: the row is left out. None: rows are those of all vertices, in
    order."""
    place: Callable[[int], str] = "row {}".format
    """What messages call the i-th row, counted from 0."""
    statistics: Statistics | None = None
    """What is known of before; None: it is taken of the values."""

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """Features out of several files, side by side."""

    num_vertices: int
    """N."""
    blocks: tuple[Block, ...]
    missing: Missing = "refuse"
    """What stands for a value that is not there, also of a vertex without a row: nothing does, zero, or the mean."""
    standardize: bool = False
    """Whether numbers and times get mean 0 and standard deviation 1 over the training vertices."""
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))

    @property
    def takes_moments(self) -> bool:
        """Whether means and deviations are needed."""
        return self.standardize or self.missing == "mean"

    @property
    def shape(self) -> tuple[int, int]:
        """N and D."""
        return self.num_vertices, sum(block.width for block in self.blocks)
