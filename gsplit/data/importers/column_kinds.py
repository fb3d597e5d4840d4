"""Kinds of columns of a table: each becomes a number, a column for each category, a code, a truth value, a time.

Values that are not there are NaN in every kind, so that one rule fills them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import FeatureColumn, Kind
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.gaps import Gaps
from gsplit.data.importers.tables import Table
from gsplit.errors import InputError

OTHERS = "*"
"""Name in ``--columns`` for all columns that it does not name."""
SKIP = "skip"
MOST_CATEGORIES = {"category": 1000, "code": 1 << 20}
"""Categories of a column at most: one column of features each, or one line of the description each."""
TRUE, FALSE = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")
KNOWN = "one of the categories that there were"
WANTED = {
    "bool": "true or false",
    "time": "a date or time such as 2024-07-31 or 2024-07-31 18:00",
    "category": KNOWN,
    "code": KNOWN,
}
SECONDS_A_DAY = 86_400
ZONED = r"\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$"
"""A time with a zone, as ISO 8601 writes it."""
OTHER_FORMS = (
    (r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3"),
    (r" ?(?:UTC|GMT)$", "Z"),
    (r"(:\d\d(?:\.\d+)?[+-]\d\d)$", r"\1:00"),
)
"""Times as others write them, such as PostgreSQL (+00), and what ISO 8601 writes for each."""
VALUES_AT_ONCE = 1 << 23
"""Features made at once; a column of a thousand categories is a thousand."""
EXACT = ("number", "time")
"""Kinds that stay doubles until they are filled and standardised; the others are small whole numbers."""
HINT = "say what a column holds by --columns, such as country:category joined:time note:skip"


def parse_columns(words: Sequence[str]) -> dict[str, str]:
    """The kind of each column by its name, in lower case, out of words such as ``age:number``.

    Raises:
        InputError: for other words, unknown kinds, and a column that is named twice.
    """
    kinds = (*get_args(Kind), SKIP)
    found: dict[str, str] = {}
    for word in words:
        name, colon, kind = word.rpartition(":") if isinstance(word, str) else ("", "", "")
        if not colon or not name.strip() or kind not in kinds:
            raise InputError(f"--columns takes NAME:KIND with KIND one of {', '.join(kinds)}, not {word!r}")
        if found.setdefault(name.strip().lower(), kind) != kind:
            raise InputError(f"--columns calls {name.strip()} both {found[name.strip().lower()]} and {kind}")
    return found


def column_of(table: Table, column: int, name: str, kind: Kind) -> FeatureColumn:
    """Return what becomes of a column; the texts of categories are read for it.

    Raises:
        InputError: where it has more categories than it may, or none.
    """
    if kind not in MOST_CATEGORIES:
        return FeatureColumn(table=str(table.path), name=name, kind=kind)
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.array([], pa.large_string())
    for (texts,) in table.texts([column]):
        new = pc.unique(pc.utf8_trim_whitespace(texts))
        found = pc.unique(pa.concat_arrays([found, new.filter(pc.invert(table.gaps.marked(new)))]))
        if len(found) > MOST_CATEGORIES[kind]:
            raise InputError(
                f"{table.path}: column {printable_line(name)} has over {MOST_CATEGORIES[kind]:,} categories"
                + (f"; --columns {printable_line(name)}:code makes one number of them" if kind == "category" else "")
            )
    categories = tuple(sorted(found.to_pylist()))
    if not categories:
        raise InputError(
            f"{table.path}: column {printable_line(name)} is empty; --columns {printable_line(name)}:skip drops it"
        )
    return FeatureColumn(table=str(table.path), name=name, kind=kind, categories=categories)


def read_columns(
    table: Table, columns: Sequence[int], made: Sequence[FeatureColumn]
) -> Iterator[NDArray[np.floating[Any]]]:
    """The features of a table, [n, width] at a time, NaN where there is no value; float64 with numbers or times.

    Args:
        columns: of the table.
        made: what becomes of each.

    Raises:
        InputError: naming file, line and column of a value that is not of its kind.
    """
    width = sum(each.width for each in made)
    at_once = max(1, VALUES_AT_ONCE // max(1, width))
    numbers = [column for column, each in zip(columns, made, strict=True) if each.kind == "number"]
    texts = [column for column, each in zip(columns, made, strict=True) if each.kind != "number"]
    begin = 0
    for of_numbers, of_texts in _both(table, numbers, texts):
        values = dict(zip([*numbers, *texts], [*of_numbers, *of_texts], strict=True))
        rows = len(next(iter(values.values())))
        for at in range(0, rows, at_once):
            some = [values[column][at : at + at_once] for column in columns]
            yield _features(table, begin + at, some, made)
        begin += rows


def _features(
    table: Table, begin: int, values: Sequence[Any], made: Sequence[FeatureColumn]
) -> NDArray[np.floating[Any]]:
    """The features [n, width] of the rows from ``begin`` on, of their numbers or texts."""
    dtype = np.float64 if any(each.kind in EXACT for each in made) else np.float32
    out = np.empty((len(values[0]), sum(each.width for each in made)), dtype)
    at = 0
    for column, each in zip(values, made, strict=True):
        encoded, bad = _ENCODERS[each.kind](column, each, table.gaps)
        if bad is not None:
            raise InputError(
                f"{table.path}, {table.place(begin + bad)}: {printable_line(str(column[bad]))[:40]!r} is not "
                f"{WANTED[each.kind]}, as column {printable_line(each.name)} should be{_OTHERWISE.get(each.kind, '')}"
            )
        out[:, at : at + each.width] = encoded.reshape(len(out), -1)
        at += each.width
    return out


def _both(
    table: Table, numbers: Sequence[int], texts: Sequence[int]
) -> Iterator[tuple[list[NDArray[Any]], list[Any]]]:
    """Columns of numbers and columns of texts of the same rows."""
    if not texts:
        yield from ((chunk, []) for chunk in table.read(numbers, [np.float64] * len(numbers)))
    elif not numbers:
        yield from (([], chunk) for chunk in table.texts(texts))
    else:
        yield from zip(table.read(numbers, [np.float64] * len(numbers)), table.texts(texts), strict=True)


def days_of(texts: Any) -> tuple[NDArray[np.float64], int | None]:
    """Days since 1970-01-01 UTC, float64 [n], of texts of pyarrow, NaN where empty; and the first that is no time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    there = pc.not_equal(trimmed, "")
    plain = pc.if_else(there, pc.replace_substring_regex(trimmed, r"\.(\d{6})\d+", r".\1"), None)
    try:
        moments = plain.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        for form, iso in OTHER_FORMS:
            plain = pc.replace_substring_regex(plain, form, iso)
        zoned = pc.match_substring_regex(plain, ZONED).fill_null(False)
        try:
            moments = _moments(plain, zoned)
        except pa.ArrowInvalid:
            return np.empty(len(texts)), _first_bad(plain, zoned)
    micros = pc.cast(moments, pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    days = micros / (SECONDS_A_DAY * 1e6)
    return np.where(there.to_numpy(zero_copy_only=False), days, np.nan), None


def _moments(texts: Any, zoned: Any) -> Any:
    """Times of texts with and without a zone; those without are UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    utc = pa.timestamp("us", "UTC")
    with_zone = pc.if_else(zoned, texts, None).cast(utc)
    without = pc.if_else(zoned, None, texts).cast(pa.timestamp("us")).cast(pa.int64()).cast(utc)
    return pc.coalesce(with_zone, without)


def _first_bad(texts: Any, zoned: Any) -> int:
    """The first of some texts, of which one at least is no time, that is none: by halves, as they may be millions."""
    import pyarrow as pa

    begin, end = 0, len(texts)
    while end - begin > 1:
        middle = (begin + end) // 2
        half = pa.array(np.arange(begin, middle))  # if_else gives other texts for slices, up to pyarrow 22
        try:
            _moments(texts.take(half), zoned.take(half))
            begin = middle
        except pa.ArrowInvalid:
            end = middle
    return begin


Encoded = tuple[NDArray[Any], "int | None"]


def _number(values: Any, _column: FeatureColumn, gaps: Gaps) -> Encoded:
    return gaps.without(values), None


def _time(texts: Any, _column: FeatureColumn, gaps: Gaps) -> Encoded:
    return days_of(gaps.cleared(texts))


def _bool(texts: Any, _column: FeatureColumn, gaps: Gaps) -> Encoded:
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    at = pc.index_in(words, pa.array([*TRUE, *FALSE], words.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    gap = gaps.marked(words).to_numpy(zero_copy_only=False)
    bad = (at < 0) & ~gap
    return np.where(gap, np.nan, at < len(TRUE)), int(np.argmax(bad)) if bad.any() else None


def _codes(texts: Any, column: FeatureColumn, gaps: Gaps) -> tuple[NDArray[np.int64], int | None]:
    """The number of each text's category, -1 where it is none; and the first that may not be there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.utf8_trim_whitespace(texts)
    found = pc.index_in(words, pa.array(column.categories, words.type)).fill_null(-1)
    codes = found.to_numpy(zero_copy_only=False).astype(np.int64)
    if not column.reject_unknown or (codes >= 0).all():
        return codes, None
    bad = (codes < 0) & ~gaps.marked(words).to_numpy(zero_copy_only=False)
    return codes, int(np.argmax(bad)) if bad.any() else None


def _code(texts: Any, column: FeatureColumn, gaps: Gaps) -> Encoded:
    codes, bad = _codes(texts, column, gaps)
    return np.where(codes < 0, np.nan, codes + 1.0), bad


def _category(texts: Any, column: FeatureColumn, gaps: Gaps) -> Encoded:
    codes, bad = _codes(texts, column, gaps)
    values = np.zeros((len(codes), column.width), np.float32)
    values[np.arange(len(codes)), codes] = 1
    values[codes < 0] = np.nan
    return values, bad


_OTHERWISE = dict.fromkeys(MOST_CATEGORIES, "; --missing zero or mean takes it as no value")
_ENCODERS: dict[str, Callable[[Any, FeatureColumn, Gaps], Encoded]] = {
    "number": _number,
    "category": _category,
    "code": _code,
    "bool": _bool,
    "time": _time,
}
