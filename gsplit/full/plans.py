"""Plans: how the sums over the whole graph are laid over the trainers.

Every plan is a grid R x K x F: rows of the adjacency, its columns, and the features of the rows that are summed.

| algorithm | grid | what moves |
|---|---|---|
| ``1d`` | P x 1 x 1 | all rows to all trainers (CAGNET, section IV.A) |
| ``1d-sparse`` | P x 1 x 1 | the rows that are needed (Mukhopadhyay et al., ICPP 2024) |
| ``shared`` | P x 1 x 1 | nothing: rows are read where they lie |
| ``1.5d`` | P/c x c x 1 | rows within columns, partial sums within rows (CAGNET, section IV.B) |
| ``2d`` | R x 1 x F | rows within columns of the grid, and rows to features and back (CAGNET, section IV.C) |
| ``3d`` | R x K x F | all of these (CAGNET, section IV.D) |
| ``columns`` | 1 x 1 x P | rows to features and back (RDM, NeutronTP) |
| ``rotate`` | X x Y x Z | sums and gradients of planes, whose axes take turns (Plexus; :mod:`gsplit.full.rotation`) |

Where F > 1 the graph may move, too (``--graph move``, as in CAGNET's 2D and 3D; :mod:`gsplit.full.moving`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gsplit.config.parallel import Algorithm
from gsplit.errors import InputError
from gsplit.nn.slices import slices
from gsplit.parallel import Grid

ROWS = "rows"
"""Axis of the rows of the adjacency; along it rows are gathered."""
COLUMNS = "columns"
"""Axis of the columns of the adjacency; along it partial sums are added up."""
FEATURES = "features"
"""Axis of the features; along it rows become columns and columns rows."""
TURNING = ("x", "y", "z")
"""Axes of ``rotate``, each for rows, columns and features in turn."""
SENDS_ROWS = ("1d", "1d-sparse")
"""Algorithms by which trainers send each other rows as they are."""
OF_ALL_SOURCES = ("shared", *SENDS_ROWS)
"""Algorithms that bring a layer all the rows that its edges come from, as attention and models of users need."""
LARGEST_PRIME = 3
"""The largest prime number of trainers for which 2d and 3d may be 1d under another name."""


@dataclass(frozen=True, kw_only=True)
class GridPlan:
    """An algorithm and the grid that it lays the trainers out on."""

    algorithm: Algorithm
    """One of the table's, never ``auto``."""
    sizes: tuple[int, int, int]
    """R, K and F."""
    graph_moves: bool = False
    """Whether each of the trainers along the features holds its share of their edges, and these move in stages."""

    @property
    def grid(self) -> Grid:
        """The trainers along rows, columns and features, or x, y and z; the last varies fastest."""
        return Grid(TURNING if self.algorithm == "rotate" else (ROWS, COLUMNS, FEATURES), self.sizes)

    @property
    def of_all_sources(self) -> bool:
        """True where a layer is brought all the rows that its edges come from."""
        return self.algorithm in OF_ALL_SOURCES

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a configuration that ask for it."""
        if self.of_all_sources:
            return {"algorithm": self.algorithm}
        fields = {"algorithm": "rotate"} if self.algorithm == "rotate" else {}
        return fields | {"grid": self.sizes} | ({"graph": "move"} if self.graph_moves else {})

    def widths(self, width: int, *, in_slices: bool) -> list[int]:
        """Columns of the rows that move around sums one after another.

        Args:
            width: columns of the rows that are summed.
            in_slices: whether they go in slices, where they move and the graph does not (:mod:`gsplit.nn.slices`).
        """
        sliced = in_slices and not (self.algorithm == "shared" or self.graph_moves)
        return slices(width, self.sizes[2]) if sliced else [width]

    def __str__(self) -> str:
        return f"{self.algorithm} {'x'.join(map(str, self.sizes))}{' --graph move' * self.graph_moves}"


def plan_of(
    algorithm: Algorithm, trainers: int, *, grid: tuple[int, ...] | None = None, replication: int | None = None
) -> GridPlan:
    """The plan that flags ask for.

    Args:
        algorithm: one of the table's, or ``auto`` where ``grid`` says all.
        trainers: number of them, P.
        grid: R, K, F; None for what the algorithm takes by default.
        replication: trainers that share the sums of a row, of ``1.5d``.

    Raises:
        InputError: for a grid of another number of trainers or another algorithm, a replication that does not divide
            the trainers, or a prime number of trainers that ``2d`` and ``3d`` could only lay out as ``1d``.
    """
    if replication is not None and algorithm != "1.5d":
        raise InputError(f"--replication {replication} is of --algorithm 1.5d, not of {algorithm}; drop it")
    if grid is not None:
        sizes = (grid[0], grid[1], grid[2])
        if math.prod(sizes) != trainers:
            raise InputError(
                f"--grid {_text(sizes)} is for {math.prod(sizes)} trainers, but there are {trainers}; the grids are "
                + ", ".join(map(_text, grids_of(trainers)))
            )
        if algorithm == "auto":
            algorithm = _named(sizes)
        if not _fits(algorithm, sizes) or (replication is not None and replication != sizes[1]):
            raise InputError(
                f"--grid {_text(sizes)} is no grid of --algorithm {algorithm}"
                + (f" --replication {replication}" if replication is not None else "")
                + f": it is {_named(sizes)}'s; drop one of the flags"
            )
        return GridPlan(algorithm=algorithm, sizes=sizes)
    return GridPlan(algorithm=algorithm, sizes=_default_sizes(algorithm, trainers, replication))


def grids_of(trainers: int) -> Iterator[tuple[int, int, int]]:
    """All R, K, F whose product is the number of trainers."""
    for rows in _divisors(trainers):
        for columns in _divisors(trainers // rows):
            yield rows, columns, trainers // rows // columns


def _default_sizes(algorithm: str, trainers: int, replication: int | None) -> tuple[int, int, int]:
    if algorithm in OF_ALL_SOURCES:
        return trainers, 1, 1
    if algorithm == "columns":
        return 1, 1, trainers
    if algorithm == "1.5d":
        least = next((size for size in _divisors(trainers) if size > 1), 1)
        size = replication or least
        if trainers % size:
            divisors = ", ".join(map(str, _divisors(trainers)))
            raise InputError(f"--replication {size} does not divide the {trainers} trainers; use one of {divisors}")
        return trainers // size, size, 1
    if algorithm != "rotate" and trainers > LARGEST_PRIME and len(_divisors(trainers)) == 2:
        raise InputError(
            f"--algorithm {algorithm} of {trainers} trainers, a prime number, would be 1d; use --algorithm auto, 1d "
            "or columns, or another --gpus"
        )
    # As even as can be; of equally even ones, more rows.
    fitting = [sizes for sizes in grids_of(trainers) if algorithm != "2d" or sizes[1] == 1]
    return min(fitting, key=lambda sizes: (max(sizes) / min(sizes) if algorithm != "2d" else _skew(sizes), -sizes[0]))


def _skew(sizes: tuple[int, int, int]) -> float:
    return max(sizes[0], sizes[2]) / min(sizes[0], sizes[2])


def _named(sizes: tuple[int, int, int]) -> Algorithm:
    """The narrowest algorithm that has a grid."""
    names: tuple[Algorithm, ...] = ("1d", "columns", "1.5d", "2d", "3d")
    return next(name for name in names if _fits(name, sizes))


def _fits(algorithm: str, sizes: tuple[int, int, int]) -> bool:
    rows, columns, features = sizes
    return {"1.5d": features == 1, "2d": columns == 1, "columns": rows == columns == 1}.get(
        algorithm, algorithm in ("3d", "rotate") or columns == features == 1
    )


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _text(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))
