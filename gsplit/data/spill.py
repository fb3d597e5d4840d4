"""Arrays and edges on disk while a store is built; edges first as they come, then sorted into ranges of destinations.

All files are in the temporary folder of the store and go with it. Pairs are [E, 2]: source, destination.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

INT32_VERTICES = 2**31
"""Vertices up to which a graph has int32 ids."""


class ArraySpill:
    """Arrays in a file, read back in the order in which they were added.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("wb")
        self._kinds: list[tuple[tuple[int, ...], np.dtype[Any]]] = []

    def add(self, array: NDArray[Any]) -> None:
        """Append an array."""
        self._file.write(np.ascontiguousarray(array).data)
        self._kinds.append((array.shape, array.dtype))

    def arrays(self) -> Iterator[NDArray[Any]]:
        """All arrays; none can be added any more."""
        self.close()
        with self._path.open("rb") as file:
            for shape, dtype in self._kinds:
                yield np.fromfile(file, dtype, math.prod(shape)).reshape(shape)

    def close(self) -> None:
        """Close the file: nothing can be added any more."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file, which gives the space back."""
        self.close()
        self._path.unlink()


class EdgeSpill:
    """Pieces of an edge list, read back in the order in which they were added."""

    def __init__(self, folder: Path) -> None:
        self._pairs, self._weights = ArraySpill(folder / "pairs"), ArraySpill(folder / "weights")
        self._pieces: list[tuple[bool, bool]] = []
        """Whether each piece has weights, and whether it was added."""

    def add(self, pairs: NDArray[Any], weight: NDArray[Any] | None, largest: int, *, added: bool = False) -> None:
        """Append edges; int32 is written where it holds ``largest``, an upper bound of the ids."""
        self._pairs.add(pairs.astype(np.int32 if largest < INT32_VERTICES else np.int64, copy=False))
        if weight is not None:
            self._weights.add(weight)
        self._pieces.append((weight is not None, added))

    def pieces(self, *, added: bool = False) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Pairs [n, 2] and weights [n] (or None) of each piece that was ``added`` before, or of each other one.

        Nothing can be added any more.
        """
        all_pairs, weights = self._pairs.arrays(), self._weights.arrays()
        for (is_weighted, are_added), pairs in zip(self._pieces, all_pairs, strict=True):
            weight = next(weights) if is_weighted else None
            if are_added == added:
                yield pairs, weight

    def close(self) -> None:
        """Close the files: nothing can be added any more."""
        self._pairs.close()
        self._weights.close()

    def remove(self) -> None:
        """Remove the files, which gives the space back."""
        self._pairs.remove()
        self._weights.remove()


class Buckets:
    """Edges sorted by range of destinations, each range in the order in which its edges were added.

    Args:
        folder: where the files go.
        bounds: [B + 1] vertices; bucket b has the destinations ``bounds[b] .. bounds[b + 1]``.
        sizes: [B] edges that will be added to each bucket.
        dtype: of the ids.
        weights: type of the weights; None: there are none.
    """

    def __init__(
        self, folder: Path, bounds: NDArray[np.int64], sizes: NDArray[np.int64], dtype: Any, *, weights: Any
    ) -> None:
        self.bounds = bounds
        self.dtype = np.dtype(dtype)
        self._weights = None if weights is None else np.dtype(weights)
        self._begins = np.concatenate([[0], np.cumsum(sizes)])
        self._next = self._begins[:-1].copy()
        self._paths = folder / "bucket-pairs", folder / "bucket-weights"
        self._files = [path.open("w+b") for path in self._paths]

    @property
    def filled(self) -> NDArray[np.int64]:
        """[B] edges added to each bucket so far."""
        return self._next - self._begins[:-1]

    def add(self, pairs: NDArray[Any], weight: NDArray[Any] | None) -> None:
        """Append edges, pairs [n, 2] and weights [n], each to its bucket."""
        bucket = np.searchsorted(self.bounds[1:-1], pairs[:, 1], side="right")
        counts = np.bincount(bucket, minlength=len(self._next))
        if len(counts) > 1:
            # A stable sort of 16-bit keys is a radix sort.
            order = np.argsort(bucket.astype(np.uint16 if len(counts) < 2**16 else np.int64), kind="stable")
            pairs = pairs[order]
            weight = None if weight is None else weight[order]
        begin = 0
        for b in np.flatnonzero(counts):
            end = begin + counts[b]
            self._write(0, int(self._next[b]) * 2 * self.dtype.itemsize, pairs[begin:end].astype(self.dtype))
            if weight is not None:
                self._write(1, int(self._next[b]) * weight.itemsize, weight[begin:end])
            self._next[b] += counts[b]
            begin = end

    def _write(self, file: int, at_bytes: int, array: NDArray[Any]) -> None:
        self._files[file].seek(at_bytes)
        self._files[file].write(np.ascontiguousarray(array).data)

    def read(self, b: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Pairs [2 * n], flat, and weights [n] (or None) of bucket b."""
        begin, count = int(self._begins[b]), int(self._begins[b + 1] - self._begins[b])
        for file in self._files:
            file.flush()
        pairs = np.fromfile(self._paths[0], self.dtype, 2 * count, offset=begin * 2 * self.dtype.itemsize)
        if self._weights is None:
            return pairs, None
        return pairs, np.fromfile(self._paths[1], self._weights, count, offset=begin * self._weights.itemsize)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()
