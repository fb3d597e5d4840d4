"""Arrays as importers find them, made what a store holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.rounding import Rounding, log_rounded
from gsplit.data.npy import DAMAGE, map_array
from gsplit.errors import InputError

Shown = Callable[[int], str] | None
"""Name of a vertex in messages, where that is not its number."""


MANY_CLASSES, MANY_TIMES = 1000, 10
"""More classes than both, the second times the labelled vertices, are no classes."""
MOST_LABEL = 2.0**63
"""Numbers from this on are no int64."""


def integers(array: NDArray[Any], what: str) -> NDArray[np.int64]:
    """An array [n] of integers as int64.

    Raises:
        InputError: naming ``what``, where it has other dimensions or no integers.
    """
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InputError(f"{what} must be integers in 1 dimension, not {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)


def as_labels(y: NDArray[Any], n: int, what: str) -> NDArray[Any]:
    """Labels as they were found, [N] or [N, C]; [N, 1], the shape that OGB gives one class a vertex, becomes [N].

    Raises:
        InputError: naming ``what``, for other shapes and for texts.
    """
    if y.ndim not in (1, 2) or len(y) != n or y.dtype.kind not in "fiub":
        raise InputError(f"{what} must be numbers of shape ({n},) or ({n}, C), not {y.dtype} of shape {y.shape}")
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def numbers_to_regress(
    y: NDArray[Any] | None, n: int, what: str, shown: Shown = None
) -> tuple[NDArray[np.float32], int]:
    """Labels of a regression as in a store, float32 [N, C], and C: each number as it is, NaN where unlabelled.

    Raises:
        InputError: naming ``what``, for other shapes, texts, numbers that are infinite as float32, and None.
    """
    if y is None:
        raise InputError(f"{what}: there are none, and --task regression needs some; give --labels FILE")
    with np.errstate(over="ignore"):
        labels = as_labels(y, n, what).astype(np.float32)
    labels = labels[:, None] if labels.ndim == 1 else labels
    if not labels.shape[1]:
        raise InputError(f"{what} has no column; a regression has one for each output")
    infinite = np.isinf(labels).any(axis=1)
    if infinite.any():
        entry = entry_of(what, int(np.argmax(infinite)), shown)
        raise InputError(f"{entry} is infinite as float32; NaN is for what is unlabelled")
    exact, rounding = y.reshape(labels.shape), Rounding(np.zeros(labels.shape[1], np.bool_))
    for at in range(labels.shape[1]):
        there = ~np.isnan(labels[:, at])
        rounding.add(exact[there, at : at + 1], labels[there, at : at + 1], slice(at, at + 1))
    log_rounded(
        what, rounding, lambda at: f"column {at + 1}", "; subtract a constant, or divide by one, to keep differences"
    )
    return labels, labels.shape[1]


def clean_labels(
    y: NDArray[Any] | None, n: int, num_classes: int | None, what: str, entry: Shown = None
) -> tuple[NDArray[Any], int]:
    """Labels as in a store, and the number of classes (by default one more than the largest).

    [N] or [N, 1] numbers become int64 [N], with -1 for NaN; [N, C] becomes float32; None is -1 everywhere.

    Args:
        y: the labels as they were found.
        n: number of vertices.
        num_classes: number of classes, where it is known.
        what: name of the labels in messages.
        entry: name in messages of the label of a vertex; by default its index.

    Raises:
        InputError: naming ``what`` or the entry, for other shapes, texts, fractions, negative numbers other than -1,
            and of [N, C] for numbers other than 0, 1 and NaN.
    """
    entry = entry or partial(entry_of, what, shown=None)
    if y is None:
        return np.full(n, -1, np.int64), 0
    y = as_labels(y, n, what)
    if y.ndim == 2:
        _check_marks(y, entry)
        return y.astype(np.float32), y.shape[1]
    if y.dtype.kind == "f":
        whole = np.isnan(y) | (np.isfinite(y) & (y == np.floor(y)))
        if not whole.all():
            at = int(np.argmin(whole))
            raise InputError(f"{entry(at)} is {y[at]}, not a class; --task regression takes any numbers")
        huge = np.abs(y) >= MOST_LABEL
        if huge.any():
            raise InputError(f"{what}[{int(np.argmax(huge))}] is {y[np.argmax(huge)]}, too large for a class")
        y = np.where(np.isnan(y), -1, y)
    elif y.dtype.kind == "u" and y.size and y.max() >= MOST_LABEL:
        raise InputError(f"{what}[{int(np.argmax(y))}] is {y.max()}, too large for a class")
    labels = y.astype(np.int64)
    if labels.min(initial=-1) < -1:
        at = int(np.argmax(labels < -1))
        raise InputError(
            f"{entry(at)} is {labels[at]}, and classes count from 0; -1, NaN or in a table an empty field stands for "
            f"no label, or there a number that --unlabelled {labels[at]} names; --task regression takes any numbers"
        )
    return labels, int(labels.max(initial=-1)) + 1 if num_classes is None else num_classes


def _check_marks(y: NDArray[Any], entry: Callable[[int], str]) -> None:
    """Check that labels [N, C] are 0, 1 or NaN."""
    bad = ~((y == 0) | (y == 1) | np.isnan(y))
    if bad.any():
        at = int(np.argmax(bad.any(axis=1)))
        column = int(np.argmax(bad[at]))
        hint = "; --task regression takes any numbers" if np.isfinite(y[at, column]) else ""
        raise InputError(
            f"{entry(at)} has {y[at, column]:g} in column {column + 1}, and labels of several columns "
            f"are 0 and 1, or nothing{hint}"
        )


def check_class_count(labels: NDArray[Any], count: int, what: str) -> None:
    """Check that a number of classes that the largest label gave is not far above that of labelled vertices.

    Raises:
        InputError: where labels [N] are ids, years or codes rather than classes, as they would make as many logits.
    """
    labelled = int(np.count_nonzero(labels >= 0))
    if labels.ndim == 1 and count > max(MANY_CLASSES, MANY_TIMES * labelled):
        raise InputError(
            f"{what} would make {count:,} classes for {labelled:,} labelled vertices, as the largest label is "
            f"{count - 1}; number the classes from 0 on, or give their names as texts"
        )


def entry_of(what: str, vertex: int, shown: Shown) -> str:
    """Return what messages call the label of a vertex."""
    return f"{what}[{vertex}]" if shown is None else f"{what}: the label of {shown(vertex)}"


def set_ids(array: NDArray[Any], what: str, n: int | None = None) -> NDArray[np.int64]:
    """Ids of vertices, from a list of them or from a mask of all ``n`` (any length where that is None).

    Raises:
        InputError: naming ``what``, for anything else.
    """
    if array.dtype != np.bool_:
        return integers(array, what)
    if array.ndim != 1 or (n is not None and len(array) != n):
        raise InputError(
            f"{what} must be a mask of the {n if n is not None else 'N'} vertices, not of shape {array.shape}"
        )
    return np.flatnonzero(array).astype(np.int64)


def read_npy(path: Path) -> NDArray[Any]:
    """The array of a ``.npy``, memory-mapped unless small.

    Raises:
        InputError: where the file is missing, damaged or holds Python objects.
    """
    try:
        return map_array(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except DAMAGE as error:
        if "pickle" in str(error):  # what NumPy takes anything for that it does not know
            error = ValueError("it is none, or holds Python objects, which are never read")
        raise InputError(f"{path} is not a readable .npy file: {error}") from None
