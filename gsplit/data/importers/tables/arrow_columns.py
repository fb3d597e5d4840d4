"""Columns of Parquet read as a table of text has them: texts that are numbers, whole floats, truth values, lists.

As a text a value is what pandas writes to CSV: ``3.0``, ``True``, ``['a', 'b']``, and nothing for a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gsplit.data.importers.tables.gaps import Gaps


def value_type(type_: Any) -> Any:
    """Return the type of the values of a column, which a dictionary may hold."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def is_text(type_: Any) -> bool:
    """Return whether values may be texts; those of a column of nulls are empty ones."""
    of, is_ = value_type(type_), pa.types
    return bool(is_.is_string(of) or is_.is_large_string(of) or is_.is_string_view(of) or is_.is_null(of))


def is_number(type_: Any) -> bool:
    """Return whether values are numbers; truth values are none."""
    of, is_ = value_type(type_), pa.types
    return bool(is_.is_integer(of) or is_.is_floating(of) or is_.is_decimal(of))


def is_writable(type_: Any) -> bool:
    """Return whether values are written as texts, as structs and bytes are not."""
    of, is_ = value_type(type_), pa.types
    if is_.is_list(of) or is_.is_large_list(of) or is_.is_fixed_size_list(of):
        return is_writable(of.value_type)
    has_words = is_.is_boolean(of) or (is_.is_temporal(of) and not is_.is_duration(of))
    return is_text(of) or is_number(of) or bool(has_words)


def plain(column: Any) -> Any:
    """A column of pyarrow without a dictionary.

    Raises:
        pyarrow.ArrowInvalid: for texts that are no UTF-8, as a file may say of what is none.
    """
    if is_text(column.type):
        column.validate(full=True)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def written(column: Any) -> Any:
    """Values of a plain column as texts, ``large_string`` [n], "" where there is none."""
    of, text = column.type, pa.large_string()
    if pa.types.is_nested(of):
        rows = [None if row is None else str(row) for row in column.to_pylist()]
        return pa.array(rows, text).fill_null("")
    if pa.types.is_boolean(of):
        return pc.if_else(column, pa.scalar("True", text), pa.scalar("False", text)).fill_null("")
    if not pa.types.is_floating(of):
        return column.cast(text).fill_null("")
    values, at = np.unique(_floats(column), return_inverse=True)
    words = pa.array(np.where(np.isnan(values), "", values.astype(str)).tolist(), text)
    return words.take(pa.array(at.ravel()))


def ids_of(column: Any) -> tuple[Any, int | None]:
    """Ids of a plain column as texts, whole floats as digits; and the first number that is no whole one."""
    if pa.types.is_decimal(column.type):
        whole = pa.decimal256(76, 0) if pa.types.is_decimal256(column.type) else pa.decimal128(38, 0)
        try:
            return written(column.cast(whole)), None
        except pa.ArrowInvalid:
            return column, first_that_fails(column, whole)
    if not pa.types.is_floating(column.type):
        return written(column), None
    numbers, bad = whole_numbers(column)
    texts = pa.array(numbers).cast(pa.large_string())
    return pc.if_else(gaps_of(column), pa.scalar("", pa.large_string()), texts), bad


def wanted_whole(column: Any, at: int) -> str:
    """What messages say that a value of a plain column is not, which is no id: a whole number, or one not rounded."""
    of = column.type
    if not pa.types.is_floating(of) or not float(column[at].as_py()).is_integer():
        return "a whole number"
    return f"a whole number below {_exact_below(of.to_pandas_dtype()):,}, from where on those of {of} are rounded"


def whole_numbers(column: Any) -> tuple[NDArray[np.int64], int | None]:
    """Values of a plain column as int64 [n], 0 at gaps; and the first that is no whole number of 64 bits.

    Floats may have been rounded from where on not all whole numbers are floats, and are not taken from there on.
    """
    gaps = gaps_of(column).to_numpy(zero_copy_only=False)
    try:
        if is_text(column.type):
            words = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
            good = pc.match_substring_regex(words, "^-?[0-9]+$").fill_null(False).to_numpy(zero_copy_only=False)
            bad = ~good & ~gaps
            if bad.any():
                return np.zeros(len(column), np.int64), int(np.argmax(bad))
            column = words
        elif pa.types.is_floating(column.type):
            floats = _floats(column)
            values = floats.astype(np.float64)
            bad = ~gaps & ((values != np.floor(values)) | (np.abs(values) >= _exact_below(floats.dtype)))
            if bad.any():
                return np.zeros(len(column), np.int64), int(np.argmax(bad))
            return np.where(gaps, 0, values).astype(np.int64), None
        return column.cast(pa.int64()).fill_null(0).to_numpy(), None
    except pa.ArrowInvalid:
        return np.zeros(len(column), np.int64), first_that_fails(column, pa.int64())


def gaps_of(column: Any) -> Any:
    """Where a plain column has no value or NaN, as truth values of pyarrow."""
    halves = pa.types.is_float16(column.type)  # older versions of pyarrow do not look for NaN in them
    return (column.cast(pa.float32()) if halves else column).is_null(nan_is_null=True)


def numbers_of(column: Any, type_: Any, gaps: Gaps) -> tuple[Any, int | None]:
    """Numbers of a plain column in a type of floats, null at gaps of a text; and the first text that is none."""
    if is_text(column.type):
        column = gaps.cleared(pc.utf8_trim_whitespace(column.cast(pa.large_string())))
        column = pc.if_else(pc.equal(column, ""), None, column)
    elif pa.types.is_decimal(column.type):  # a direct cast is off by a little
        column = column.cast(pa.large_string())
    try:
        return column.cast(type_, safe=False), None
    except pa.ArrowInvalid:
        return column, first_that_fails(column, type_)


def first_that_fails(column: Any, type_: Any) -> int:
    """The first value of a column, of which one at least cannot be cast, that cannot."""
    return first_failing(len(column), lambda begin, end: column.slice(begin, end - begin).cast(type_))


def first_failing(count: int, cast: Callable[[int, int], Any]) -> int:
    """The first of some values, of which one at least cannot be cast, that cannot: by halves, of millions.

    Args:
        count: number of values.
        cast: casts those from one number up to another.
    """
    begin, end = 0, count
    while end - begin > 1:
        middle = (begin + end) // 2
        try:
            cast(begin, middle)
            begin = middle
        except pa.ArrowInvalid:
            end = middle
    return begin


def _floats(column: Any) -> NDArray[np.floating[Any]]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _exact_below(dtype: Any) -> int:
    return 1 << int(np.finfo(dtype).nmant) + 1
