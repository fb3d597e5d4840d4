"""Rows of a .csv with ids of the user's own, quoted so that they are read back as they are."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.kept_ids import KeptIds


@contextmanager
def csv_rows(path: Path, header: Sequence[str]) -> Iterator[Callable[[Sequence[Any], NDArray[Any]], None]]:
    """A new file with a first line; yields what writes rows: ids in columns [n] and numbers as texts [n, columns]."""
    with path.open("w", newline="", encoding="utf-8") as file:
        plain = csv.writer(file, lineterminator="\n")
        quoting = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        plain.writerow(header)

        def write(called: Sequence[Any], rows: NDArray[Any]) -> None:
            names = list(zip(*called, strict=True))
            # Before Python 3.13 CR, which ends a line, is not quoted unless all is.
            writer = quoting if any("\r" in str(part) for name in names for part in name) else plain
            writer.writerows([*name, *row] for name, row in zip(names, rows.tolist(), strict=True))

        yield write


def called(vertices: NDArray[np.int64], ids: KeptIds | None) -> list[list[Any]]:
    """What vertices [n] are called, column by column; by default by their global ids."""
    return [vertices.tolist()] if ids is None else ids.of(vertices)
