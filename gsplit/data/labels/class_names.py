"""Names of the classes of a graph, in the order of the class numbers."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError
from gsplit.pages.rendering import printable

SHOWN = 20
"""Most classes that a line names."""
UNUSABLE = ("Cc", "Cs")
"""Kinds of characters that no name has: control characters, line ends among them, and halves of a character."""


def checked_names(names: Any, count: int, what: str) -> tuple[str, ...]:
    """The names of ``count`` classes: texts, each another, not empty and without control characters.

    InputError, naming ``what`` and the class, for anything else.
    """
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"{what} must be a list of texts, a name for each class, not of type {type(names).__name__}")
    if len(names) != count:
        raise InputError(f"{what}: {len(names)} names of classes, but there are {count} classes")
    number_of: dict[str, int] = {}
    for number, name in enumerate(names):
        if not isinstance(name, str):
            raise InputError(f"{what}: the name of class {number} must be a text, not of type {type(name).__name__}")
        if not name.strip():
            raise InputError(f"{what}: the name of class {number} is empty")
        if any(unicodedata.category(mark) in UNUSABLE for mark in name):
            raise InputError(f"{what}: the name of class {number}, {name[:40]!r}, has a character that is no text")
        if (other := number_of.setdefault(name, number)) != number:
            raise InputError(f"{what}: the classes {other} and {number} are both called {name[:40]!r}")
    return tuple(str(name) for name in names)  # NumPy's texts are a kind of their own


def names_described(description: dict[str, Any], count: int, where: str) -> tuple[str, ...] | None:
    """The names of ``count`` classes in a description; None where it has none, InputError where it is damaged."""
    names = description.get("classes")
    if names is None:
        return None
    try:
        return checked_names(names, count, "classes")
    except InputError as error:
        raise InputError(f"{where} is damaged where it names the classes ({error})") from None


def texts_of(array: NDArray[Any], what: str) -> list[str]:
    """The texts of an array [n]; InputError for other types and shapes, and characters that there are not."""
    if array.ndim != 1 or array.dtype.kind != "U":
        raise InputError(f"{what} must be texts in 1 dimension, not {array.dtype} of shape {array.shape}")
    marks = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).view(np.uint32)
    if array.dtype.itemsize and (marks > sys.maxunicode).any():
        raise InputError(f"{what} is damaged: it holds characters that there are not")
    return [str(text) for text in array]


def listed(numbers: Sequence[int], names: Sequence[str] | None) -> str:
    """Classes in a line: their numbers, with the names where there are some; of many the first."""
    words = [str(number) if names is None else f"{number} ({printable(names[number])})" for number in numbers[:SHOWN]]
    return ", ".join([*words, *(["..."] if len(numbers) > SHOWN else [])])
