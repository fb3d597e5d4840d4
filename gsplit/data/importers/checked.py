"""Checks of whole arrays, so that a message can name the file: ids, weights, features, vertex sets.

N vertices, E edges, D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import set_ids
from gsplit.errors import InputError

OF_LISTS = (
    "lists are no features: make a column of each number, as pandas.DataFrame(lists.tolist()) does, or leave them "
    "out by --columns NAME:skip"
)
"""Advice in messages about a column of lists of numbers."""


UNKNOWN = np.iinfo(np.int64).max
"""Bound of ids before the number of vertices is known."""


class NotNumbersError(InputError):
    """A value of a table that was read as a number, or as a time, is none."""


def as_ids(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Ids [n], also from [n, 1], in their own type where that is signed: they may be too many to copy.

    Raises:
        InputError: for other shapes and types.
    """
    values = _flat(values)
    if values.ndim != 1 or (values.dtype.kind not in "iu" and values.size):
        raise InputError(f"{what} must be integers in 1 dimension, not {values.dtype} of shape {values.shape}")
    return values if values.dtype.kind == "i" else values.astype(np.int64)


def as_edge_index(values: NDArray[Any], what: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and destinations [E] of an edge index [2, E].

    Raises:
        InputError: for other shapes and types.
    """
    if values.ndim != 2 or len(values) != 2:
        raise InputError(f"{what} must have the shape (2, E), not {values.shape}")
    return as_ids(values[0], what), as_ids(values[1], what)


def as_weights(values: NDArray[Any] | None, count: int, what: str) -> NDArray[Any] | None:
    """Weights [E], also from [E, 1]; None stays None.

    Raises:
        InputError: for other shapes and types.
    """
    if values is None:
        return None
    values = _flat(values)
    if values.shape != (count,) or values.dtype.kind not in "fiu":
        raise InputError(f"{what} must be {count} numbers, not {values.dtype} of shape {values.shape}")
    return values


def as_count(value: Any, what: str) -> int | None:
    """A number from 0 on, also as an array or a tensor of one; None stays None.

    Raises:
        InputError: for anything else.
    """
    if value is None:
        return None
    number = np.asarray(value.cpu() if hasattr(value, "cpu") else value)
    if number.size != 1 or number.dtype.kind not in "iu" or number.item() < 0:
        raise InputError(f"{what} must be one integer from 0 on, not {printable_line(repr(value))[:40]}")
    return int(number.item())


def check_indptr(indptr: NDArray[Any], count: int, what: str) -> None:
    """Check that bounds of rows [N + 1] are of one vertex at least, and ascend to the number of indices.

    Raises:
        InputError: where they do not.
    """
    if len(indptr) < 2:
        raise InputError(f"{what} has {len(indptr)} entries, so the graph has no vertices")
    if indptr[0] != 0 or indptr[-1] != count or (indptr[1:] < indptr[:-1]).any():
        raise InputError(f"{what} does not ascend from 0 to the {count} indices")


def as_features(values: NDArray[Any], n: int, what: str) -> NDArray[Any]:
    """Features [N, D], also from [N].

    Raises:
        InputError: for other shapes and types.
    """
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or len(values) != n or values.dtype.kind not in "fiub":
        raise InputError(f"{what} must be numbers of shape ({n}, D), not {values.dtype} of shape {values.shape}")
    return values


def as_vertex_set(values: NDArray[Any], n: int, what: str, *, mask: bool) -> NDArray[np.int64]:
    """The vertices of a set, from a mask [N] or a list of ids.

    Args:
        mask: ``values`` is a mask: booleans, or numbers 0 and 1, as DGL stores them.

    Raises:
        InputError: for a mask of another length, and ids out of range.
    """
    if mask:
        values = _flat(values)
        if not ((values == 0) | (values == 1)).all():
            raise InputError(f"{what} must be a mask of {n} booleans, but has other numbers")
        return set_ids(values.astype(np.bool_), what, n)
    ids = as_ids(values, what).astype(np.int64)
    bad = (ids < 0) | (ids >= n)
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(f"{what}[{at}] is {ids[at]}, outside the vertices 0 .. {n - 1}")
    return ids


def is_mask(key: str, values: NDArray[Any]) -> bool:
    """Return whether a tensor of this name is a mask, and no list of ids: by its type or by its name."""
    return values.dtype == np.bool_ or key.endswith("mask") or (values.dtype == np.uint8 and not key.endswith("idx"))


def printable_line(text: str) -> str:
    """Text out of a file, as a message may show it: a damaged file may have line ends and control characters."""
    return "".join(mark if mark.isprintable() else "?" for mark in " ".join(text.split()))


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def is_number(field: str) -> bool:
    """Return whether a text is a number."""
    return parses(field, float)


def parses(field: str, kind: type) -> bool:
    """Return whether a text is of a kind, and a whole number fits int64; an empty one is any but a whole number."""
    try:
        # Python takes 1_000 for a number, digits of other scripts, and marks of control before it; pyarrow takes +3
        # for no whole one.
        is_odd = not (field.isascii() and field.isprintable()) or "_" in field or (kind is int and field[:1] == "+")
        value = kind("no number" if is_odd else field) if field or kind is int else 0
    except ValueError:
        return False
    return kind is not int or -(2**63) <= value < 2**63
