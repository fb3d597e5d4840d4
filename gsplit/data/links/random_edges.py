"""Random sets of pairs out of the edges of a source, the same for any order of its edges and of its vertices.

A pair is drawn by a hash of the seed and of what its two vertices are called. So both directions and all copies fall
into one set, and a graph that has grown keeps the sets of its old pairs. Shares hold on average, like tosses of a
coin; self-loops are always message edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.kept_ids import SEPARATOR
from gsplit.data.links.edge_sets import Links
from gsplit.data.links.held_out import Outcome, first_of_pairs, unordered_keys
from gsplit.errors import InputError

Hashes = Callable[[NDArray[Any]], NDArray[np.uint64]]
"""Function from vertices [...] to hashes [...] of what they are called."""


class RandomEdges:
    """Validation and test pairs, drawn and taken out of the message edges while these are read.

    Args:
        shares: of the training, validation and test pairs, 1 in all.
    """

    def __init__(self, shares: Sequence[float], seed: int, hashes: Hashes) -> None:
        self._shares, self._seed, self._hashes = shares, seed, hashes
        self._bounds = np.cumsum(shares)[:2]
        self._found = [(np.empty((0, 2), np.int64), np.zeros(0, np.bool_), np.zeros(0, np.bool_))]
        """Pairs, which are test pairs, and which stand in the direction that is taken where there are both."""
        self._removed = 0

    def withhold(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """As of :class:`gsplit.data.links.held_out.Withheld`."""
        source, destination = self._hashes(edges[:, 0]), self._hashes(edges[:, 1])
        drawn = pair_hashes(source, destination, self._seed)
        place = places_of(drawn)
        out = (place >= self._bounds[0]) & (edges[:, 0] != edges[:, 1])
        preferred = (source < destination)[out] == (drawn[out] & np.uint64(1)).astype(np.bool_)
        self._found.append((edges[out].astype(np.int64), place[out] >= self._bounds[1], preferred))
        self._removed += int(out.sum())
        return out

    def outcome(self, where: str) -> Outcome:
        """As of :class:`gsplit.data.links.held_out.Withheld`: each pair once, in a direction that an edge had."""
        pairs, test, preferred = (np.concatenate(pieces) for pieces in zip(*self._found, strict=True))
        first = first_of_pairs(unordered_keys(pairs), ~preferred)
        for name, share, count in (("valid", self._shares[1], (~test).sum()), ("test", self._shares[2], test.sum())):
            if share and not count:
                raise InputError(
                    f"{where}: --edge-split gives the {name} set {share:g} of the pairs, and that drew none of these "
                    "few; choose a larger share or another --seed"
                )
        return Outcome(
            links=Links(valid=pairs[first[~test[first]]], test=pairs[first[test[first]]]).sorted(),
            facts={
                "split": {"by": "random", "shares": list(self._shares), "seed": self._seed},
                "removed": self._removed,
            },
            words=[
                f"took out {self._removed:,} edges that are validation or test pairs or their reverses (--edge-split)"
            ],
        )


def pair_hashes(source: NDArray[np.uint64], destination: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Hashes [n] of pairs, the same for the reverse, by hashes of their ends [n]."""
    low, high = np.minimum(source, destination), np.maximum(source, destination)
    return mix64(mix64(low ^ mix64(np.uint64(seed % 2**64))) + high)


def places_of(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Hashes [n] as numbers in [0, 1)."""
    return (hashes >> np.uint64(11)) * 2.0**-53


def mix64(values: Any) -> NDArray[np.uint64]:
    """Numbers of 64 bits, mixed as SplitMix64 does (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        x = np.asarray(values, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def hashes_of_numbers(vertices: NDArray[Any]) -> NDArray[np.uint64]:
    """Hashes of vertices that are called by their numbers."""
    return mix64(vertices)


def hashes_of_ids(pieces: Iterable[Sequence[Any]]) -> Hashes:
    """Hashes of vertices by their ids, which come in pieces of columns of pyarrow, ``large_string``."""
    by_vertex = np.concatenate([np.empty(0, np.uint64), *map(_text_hashes, pieces)])
    return lambda vertices: by_vertex[vertices]


def _text_hashes(columns: Sequence[Any]) -> NDArray[np.uint64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = columns[0]
    if len(columns) > 1:
        texts = pc.binary_join_element_wise(*columns, pa.scalar(SEPARATOR, pa.large_string()))
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    marks = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]] if data is not None else np.empty(0, np.uint8)
    places = np.arange(len(marks)) - np.repeat(bounds[:-1] - bounds[0], np.diff(bounds))
    # The sum over the bytes of a text of a hash of each with its place.
    sums = np.concatenate([[np.uint64(0)], np.cumsum(mix64(places * 256 + marks))])
    return mix64(sums[bounds[1:] - bounds[0]] - sums[bounds[:-1] - bounds[0]])
