"""Times of tables: dates as ISO 8601 and databases write them, numbers since 1970, forms of the user's own.

All become days since 1970-01-01 UTC, doubles: a microsecond of today is told from the next.
"""

from __future__ import annotations

import logging
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.tables.table import Table, is_numeric
from gsplit.errors import InputError

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
EXAMPLE = datetime(1987, 6, 15, 13, 24, 35, tzinfo=timezone.utc)
"""A moment that comes back from a form that tells it, and from no other."""
DIRECTIVE = re.compile("%(.?)")
KNOWN = "YymBbdjHIpMSfzAa%"
"""Directives that are the same on all machines: others go by weeks, by a language, or by the zone of the machine."""


def check_form_of_time(form: str) -> None:
    """Check a form in the words of ``strptime``.

    Raises:
        InputError: for one that is none, that does not tell the year, or tells half of a day or an hour.
    """
    directives = DIRECTIVE.findall(form)
    for directive in directives:
        if not directive or directive not in KNOWN:
            known = " ".join(f"%{each}" for each in KNOWN)
            raise InputError(f"{form} has %{directive}; a form is made of {known} and what stands between them")
    try:
        told = datetime.strptime(EXAMPLE.strftime(form), form)
    except (ValueError, re.error) as error:
        raise InputError(f"{form} is no form of times: {error}") from None
    if told.year != EXAMPLE.year:
        raise InputError(f"{form} does not tell the year, as %Y or %y does")
    if "d" in directives and told.month != EXAMPLE.month:
        raise InputError(f"{form} has a day and no month, such as %m")
    if {"I", "p"}.intersection(directives) and told.hour != EXAMPLE.hour:
        raise InputError(f"{form} does not tell the hour: %I and %p go together")


def micros_of(texts: Any, form: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds since 1970-01-01 UTC, int64 [n], and which texts are times of the form, bool [n].

    Args:
        texts: of pyarrow, without spaces around and without nulls.
        form: one that :func:`check_form_of_time` takes; without a zone it is UTC.
    """
    encoded = texts.dictionary_encode()
    found = [_micros(text, form) for text in encoded.dictionary.to_pylist()]
    at = encoded.indices.to_numpy(zero_copy_only=False)
    micros = np.array([0 if each is None else each for each in found], np.int64)
    good = np.array([each is not None for each in found], np.bool_)
    return micros[at], good[at]


def _micros(text: str, form: str) -> int | None:
    try:
        moment = datetime.strptime(text, form)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (moment - EPOCH) // timedelta(microseconds=1)


SECONDS_A_DAY = 86_400
UNITS = {
    "s": ("seconds", 1),
    "ms": ("milliseconds", 10**3),
    "us": ("microseconds", 10**6),
    "ns": ("nanoseconds", 10**9),
}
"""Forms of times that are numbers: what they count since 1970-01-01, and how many of these are a second."""
TOLD = (100_000_000, 4_102_444_800)
"""Seconds since 1970, 1973 to 2099, whose unit is told by their size alone: those of another unit are apart."""
COMPACT = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])([01]\d|2[0-3])([0-5]\d)?")
"""Digits of dates such as 202407311800, some of which are as large as seconds or milliseconds since 1970."""
GLANCE = 1000
"""Numbers of a chunk that are looked at for whether all are such digits."""
YEARS = (-62_135_596_800, 253_402_300_800)
"""Seconds since 1970 of the years 1 to 9999."""
ZONED = r"\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$"
"""A time with a zone, as ISO 8601 writes it."""
OTHER_FORMS = (
    (r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3"),
    (r" ?(?:UTC|GMT)$", "Z"),
    (r"(:\d\d(?:\.\d+)?[+-]\d\d)$", r"\1:00"),
)
"""Times as others write them, such as PostgreSQL (+00), and what ISO 8601 writes for each."""

logger = logging.getLogger(__name__)

Days = tuple[NDArray[np.float64], "int | None"]
"""Days since 1970-01-01 UTC [n], NaN where there is no value; and the first value that is no time."""


def check_form(form: str) -> None:
    """Check what stands in the parentheses of ``time(...)``.

    Raises:
        InputError: for what is neither a unit nor a form in the words of ``strptime``.
    """
    if form in UNITS:
        return
    if "%" not in form:
        units = ", ".join(f"{unit} ({name})" for unit, (name, _) in UNITS.items())
        raise InputError(f"time(...) takes {units}, or a form such as %d.%m.%Y, not {form!r}")
    check_form_of_time(form)


def wanted(form: str) -> str:
    """What a value must be, for messages."""
    if form in UNITS:
        return f"a number of {UNITS[form][0]} since 1970-01-01 in the years 1 to 9999"
    return f"a time of the form {form}" if form else "a date or time such as 2024-07-31 or 2024-07-31 18:00"


def form_of(table: Table, column: int, name: str) -> str:
    """The form of a column of times of which nothing was said: the unit of numbers; empty for texts.

    Raises:
        InputError: for numbers whose unit their size does not tell.
    """
    if not is_numeric(table, column):
        return ""
    called, low, high, is_compact = printable_line(name), np.inf, -np.inf, True
    for (values,) in table.read([column], [np.float64]):
        values = table.gaps.without(values)
        if len(there := values[~np.isnan(values)]):
            low, high = min(low, float(there.min())), max(high, float(there.max()))
            is_compact = is_compact and all(COMPACT.fullmatch(f"{value:.0f}") for value in there[:GLANCE])
    if low > high:
        if table.is_text(column):
            return ""
        raise InputError(f"{table.path}: column {called} is empty; --columns {called}:skip drops it")
    for unit, (words, each) in UNITS.items():
        if TOLD[0] * each <= low and high < TOLD[1] * each and not is_compact:
            first, last = (np.datetime64(int(value / each), "s") for value in (low, high))
            logger.info(
                "%s: column %s: numbers taken as %s since 1970, from %s to %s; %s:time(%s) says so, or another unit",
                table.path, called, words, first, last, called, unit,
            )  # fmt: skip
            return unit
    raise InputError(
        f"{table.path}: column {called} holds numbers from {low:.17g} to {high:.17g}, which do not tell whether they "
        f"count seconds since 1970, or what else; say {called}:time(s), time(ms), time(us) or time(ns), or how dates "
        f"are written, such as {called}:time(%Y%m%d), and --gaps for numbers that stand for no time"
    )


def days_of(values: Any, form: str = "") -> Days:
    """Days of times.

    Args:
        values: float64 [n], NaN where there is none, of a form that is a unit; else texts of pyarrow, empty where
            there is none.
        form: as in ``time(...)``; empty: ISO 8601, and dates as databases write them.
    """
    if form in UNITS:
        return _of_numbers(values, UNITS[form][1])
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(values)
    there = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
    if form:
        micros, good = micros_of(texts, form)
        bad = there & ~good
        if bad.any():
            return np.empty(len(texts)), int(np.argmax(bad))
    else:
        moments, first_bad = _iso(pc.if_else(pa.array(there), texts, None))
        if first_bad is not None:
            return np.empty(len(texts)), first_bad
        micros = pc.cast(moments, pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(there, micros / (SECONDS_A_DAY * 1e6), np.nan), None


def _of_numbers(values: NDArray[np.float64], each: int) -> Days:
    """Days of numbers, of which ``each`` are a second."""
    first, end = (np.longdouble(year * each) for year in YEARS)  # with whole ones beyond int64 NumPy 1 compares none
    bad = ~np.isnan(values) & ~((values >= first) & (values < end))
    return values / (SECONDS_A_DAY * each), int(np.argmax(bad)) if bad.any() else None


def _iso(texts: Any) -> tuple[Any, int | None]:
    """Times of pyarrow of texts, and the first text that is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.replace_substring_regex(texts, r"\.(\d{6})\d+", r".\1")
    try:
        return plain.cast(pa.timestamp("us")), None
    except pa.ArrowInvalid:
        for form, iso in OTHER_FORMS:
            plain = pc.replace_substring_regex(plain, form, iso)
    zoned = pc.match_substring_regex(plain, ZONED).fill_null(False)
    try:
        return _moments(plain, zoned), None
    except pa.ArrowInvalid:
        return None, _first_bad(plain, zoned)


def _moments(texts: Any, zoned: Any) -> Any:
    """Times of texts with and without a zone; those without are UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    utc = pa.timestamp("us", "UTC")
    with_zone = pc.if_else(zoned, texts, None).cast(utc)
    without = pc.if_else(zoned, None, texts).cast(pa.timestamp("us")).cast(pa.int64()).cast(utc)
    return pc.coalesce(with_zone, without)


def _first_bad(texts: Any, zoned: Any) -> int:
    """The first of some texts, of which one at least is no time, that is none."""
    import pyarrow as pa

    from gsplit.data.importers.tables.arrow_columns import first_failing  # needs pyarrow

    def moments(begin: int, end: int) -> Any:
        some = pa.array(np.arange(begin, end))  # if_else gives other texts for slices, up to pyarrow 22
        return _moments(texts.take(some), zoned.take(some))

    return first_failing(len(texts), moments)
