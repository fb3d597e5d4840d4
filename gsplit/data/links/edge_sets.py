"""The links of a graph: which pairs of vertices belong together, and what they are compared with.

All ids are global, in layouts, too, so that a partition changes nothing of them (docs/formats.md, "Links").

Shapes: N vertices, E message edges, M training pairs, m pairs of another set, K candidates, H hard negatives. A pair
is (source, destination).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.description import open_array
from gsplit.errors import InputError

EDGE_SETS = ("train", "valid", "test")
ROWS = {"train": "hard_negatives", "valid": "valid_candidates", "test": "test_candidates"}
"""Rows of vertices that go with the pairs of each set."""
PAIRS_AT_ONCE = 1 << 20
MOST_VERTICES = 1 << 32


def file_of(field: str) -> str:
    """Name of the file of a field of :class:`Links`."""
    return f"{field}_edges" if field in EDGE_SETS else field


@dataclass(frozen=True, kw_only=True)
class Links:
    """Pairs of vertices by set, in global ids.

    Examples:
        >>> cycle, held_out = [[0, 1, 2, 3], [1, 2, 3, 0]], [[0], [2]]
        >>> gsplit.from_arrays(cycle, test_edges=held_out).graph.links.test.tolist()
        [[0, 2]]
    """

    train: NDArray[np.int64] | None = None
    """[M, 2] sorted by (destination, source); None: all message edges, in the order of the store."""
    valid: NDArray[np.int64]
    """[m, 2] sorted by (destination, source)."""
    test: NDArray[np.int64]
    """[m, 2] sorted by (destination, source)."""
    valid_candidates: NDArray[np.int64] | None = None
    """[m, K] destinations that each validation pair is compared with, beside its own."""
    test_candidates: NDArray[np.int64] | None = None
    """[m, K] likewise for the test pairs."""
    valid_negatives: NDArray[np.int64] | None = None
    """[K, 2] pairs that all validation pairs are compared with."""
    test_negatives: NDArray[np.int64] | None = None
    """[K, 2] likewise for the test pairs."""
    hard_negatives: NDArray[np.int64] | None = None
    """[M, H] destinations that do not belong to the source of each training pair; -1 where there are fewer."""
    train_weights: NDArray[np.float32] | None = None
    """[M] what each of the pairs of ``train`` counts in the loss; None: 1."""

    @staticmethod
    def empty() -> Links:
        """No pairs but the message edges."""
        return Links(valid=np.empty((0, 2), np.int64), test=np.empty((0, 2), np.int64))

    def edge_set(self, name: str) -> NDArray[np.int64] | None:
        """The pairs of ``train``, ``valid`` or ``test``."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]

    def taken(self, name: str, places: NDArray[Any]) -> Links:
        """The links with those pairs of a set that stand at some places, or in a mask, and their candidates."""
        pairs, rows = self.edge_set(name), getattr(self, ROWS[name])
        assert pairs is not None
        beside = {ROWS[name]: rows[places]} if rows is not None and len(rows) == len(pairs) else {}
        weights = self.train_weights if name == "train" else None
        if weights is not None and len(weights) == len(pairs):
            beside["train_weights"] = weights[places]
        return replace(self, **{name: pairs[places], **beside})

    def sorted(self) -> Links:
        """The same links in the order of stores, from pairs in any order with their rows of candidates."""
        links = self
        for name in EDGE_SETS:
            if (pairs := links.edge_set(name)) is not None:
                links = links.taken(name, pair_order(pairs))
        return links

    def arrays(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """All arrays that there are, each with the name of its file."""
        for field in fields(self):
            array = getattr(self, field.name)
            if array is not None:
                yield file_of(field.name), array

    def described(self, num_edges: int) -> dict[str, Any]:
        """Return what a description says of them: numbers of pairs."""
        train = num_edges if self.train is None else len(self.train)
        return {"train": train, "valid": len(self.valid), "test": len(self.test)}


FILES: dict[str, tuple[str, tuple[int | None, ...]]] = {
    **{f"{name}_edges": (name, (2,)) for name in EDGE_SETS},
    **{f"{name}_candidates": (name, (None,)) for name in EDGE_SETS[1:]},
    **{f"{name}_negatives": ("", (2,)) for name in EDGE_SETS[1:]},
    "hard_negatives": ("train", (None,)),
    "train_weights": ("train", ()),
}
"""All files of links: the set for each of whose pairs they have a row, if for one, and the shape of a row."""


def links_of_files(arrays: Mapping[str, Any], where: str) -> Links | None:
    """Links out of arrays with the names and shapes of their files; None where none is of them.

    InputError, naming ``where`` and the array, for one of another type or shape.
    """
    found: dict[str, Any] = {}
    for field in fields(Links):
        name = file_of(field.name)
        if name not in arrays:
            continue
        array = np.asarray(arrays[name])
        if name == "train_weights":
            found[name] = weights_of(array, f"{where}: {name}")
            continue
        (width,) = FILES[name][1]
        if array.ndim != 2 or array.dtype.kind not in "iu" or width not in (None, array.shape[1]):
            shape = "(M, 2)" if width else "(M, K)"
            raise InputError(f"{where}: {name} must be integers of shape {shape}, not {array.dtype} {array.shape}")
        found[field.name] = array.astype(np.int64)
    return replace(Links.empty(), **found) if found else None


def weights_of(array: NDArray[Any], name: str, place: Callable[[int], str] | None = None) -> NDArray[np.float32]:
    """Weights [M] of pairs as stores have them; ``place`` is what messages call the i-th, else ``name[i]``.

    Raises:
        InputError: for another shape or type, and for one that is below 0, not finite, or too small for float32,
            by whose sum a loss could not be divided.
    """
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be numbers of shape (M,), not {array.dtype} {array.shape}")
    with np.errstate(over="ignore"):
        weights = array.astype(np.float32)
    least = np.finfo(np.float32).tiny
    if len(wrong := np.flatnonzero(~(np.isfinite(weights) & ((weights >= least) | (array == 0))))):
        at = f"{name}[{wrong[0]}]" if place is None else f"{name}, {place(int(wrong[0]))}"
        raise InputError(
            f"{at}: the weight of a pair is {array[wrong[0]]}; it must be 0, or at least {least:.2g} and finite"
        )
    return weights


def pair_order(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places [M] of pairs [M, 2] in the order of (destination, source); equal ones keep theirs."""
    return np.lexsort((pairs[:, 0], pairs[:, 1]))


def pair_keys(pairs: NDArray[Any]) -> NDArray[np.uint64]:
    """A number [M] for each pair [M, 2] of ids below 2^32, which ascends with (destination, source)."""
    return pairs[:, 1].astype(np.uint64) << np.uint64(32) | pairs[:, 0].astype(np.uint64)


def open_links(folder: Path, description: dict[str, Any]) -> Links | None:
    """Map the links of a store or layout, with dtypes and shapes checked; None where there are none."""
    if "links" not in description:
        return None
    try:
        counts = {name: int(description["links"][name]) for name in EDGE_SETS}
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{folder}: the description lacks the numbers of links") from None
    found = {}
    for field in fields(Links):
        file = file_of(field.name)
        if file in description["arrays"] or field.name in ("valid", "test"):
            rows_of, row = FILES[file]
            dtype = "float32" if file == "train_weights" else "int64"
            found[field.name] = open_array(folder, file, description, (dtype,), (counts.get(rows_of), *row))
    return Links(**found)


def check_links(links: Links, num_vertices: int, num_edges: int, where: str) -> None:
    """Raise InputError for ids out of range, rows that are missing, or another order than that of stores."""
    if num_vertices > MOST_VERTICES:
        raise InputError(f"{where} has {num_vertices:,} vertices, and links are for graphs of up to 2^32")
    check_ends(links, num_vertices, lambda name, row: f"{where}: {name}[{row}]")
    check_beside(links, num_edges, where)
    if links.train_weights is not None:
        weights_of(links.train_weights, f"{where}: train_weights")
    for name in EDGE_SETS:
        pairs_of_set = links.edge_set(name)
        if pairs_of_set is not None:
            _check_order(pairs_of_set, f"{where}: {name}_edges")


def check_beside(links: Links, num_edges: int | None, where: str) -> None:
    """Raise InputError unless there is a row and a weight for each pair that is to have one.

    Args:
        links: in any order.
        num_edges: E; None: not known yet, so rows of edges are not counted.
    """
    for pairs, name in ROWS.items():
        rows, of = getattr(links, name), links.edge_set(pairs)
        count = num_edges if of is None else len(of)
        if rows is not None and count is not None:
            check_rows(rows, count, f"{where}: {name}", f"{pairs} pairs")
    if (weights := links.train_weights) is not None:
        if links.train is None:
            raise InputError(f"{where}: train_weights are for train_edges, and all edges are trained on; give these")
        if len(weights) != len(links.train):
            raise InputError(
                f"{where}: train_weights has {len(weights):,} numbers, and there are {len(links.train):,} train "
                "pairs; give one for each"
            )


def check_rows(rows: NDArray[np.int64], count: int, name: str, pairs: str) -> None:
    """Raise InputError unless there is a row of vertices for each of some pairs."""
    if len(rows) != count:
        raise InputError(f"{name} has {len(rows):,} rows, and there are {count:,} {pairs}; give a row for each")


def pairs_in_two(links: Links) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Two sets that have pairs in common, and the places of these in the first; sets are in the order of stores."""
    for first, second in (("valid", "train"), ("test", "train"), ("valid", "test")):
        few, many = links.edge_set(first), links.edge_set(second)
        if few is not None and many is not None and len(both := common_pairs(few, many)):
            yield first, second, both


def check_ends(links: Links, num_vertices: int, at: Callable[[str, int], str]) -> None:
    """Raise InputError for the first end that is no vertex; ``at`` is what messages call a row of a file."""
    for name, ids in links.arrays():
        if name == "train_weights":
            continue
        check_pairs(ids, num_vertices, partial(at, name), least=-1 if name == "hard_negatives" else 0)


def check_pairs(ids: NDArray[np.int64], num_vertices: int, at: Callable[[int], str], *, least: int = 0) -> None:
    """Raise InputError for the first of ids [m, K] outside ``least`` .. N - 1; ``at`` is what messages call a row."""
    if ids.size and (ids.min() < least or ids.max() >= num_vertices):
        row, column = np.argwhere((ids < least) | (ids >= num_vertices))[0]
        raise InputError(f"{at(int(row))} names {ids[row, column]}, outside the vertices 0 .. {num_vertices - 1}")


def common_pairs(pairs: NDArray[np.int64], others: NDArray[Any]) -> NDArray[np.int64]:
    """Places, in pairs [m, 2], of those that are among others [M, 2], which are sorted by (destination, source)."""
    keys = pair_keys(pairs)
    found = np.zeros(len(keys), np.bool_)
    for begin in range(0, len(others), PAIRS_AT_ONCE):
        piece = pair_keys(others[begin : begin + PAIRS_AT_ONCE])
        within = np.flatnonzero((keys >= piece[0]) & (keys <= piece[-1]))
        at = np.searchsorted(piece, keys[within])
        found[within] |= piece[at] == keys[within]
    return np.flatnonzero(found)


def _check_order(pairs: NDArray[np.int64], what: str) -> None:
    for begin in range(0, len(pairs), PAIRS_AT_ONCE):
        keys = pair_keys(pairs[begin : begin + PAIRS_AT_ONCE + 1])
        falls = keys[1:] < keys[:-1]
        if falls.any():
            raise InputError(
                f"{what} is not sorted by destination and source at row {begin + 1 + int(np.argmax(falls))}"
            )
