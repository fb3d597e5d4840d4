"""Times in a form of the user's own, such as ``%d.%m.%Y``, in the words of ``strptime`` and in English.

A form becomes a pattern that takes its parts out of all texts at once; parts are what Python's
``datetime.strptime`` takes. n texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHORT = 3
"""Letters of a name that is cut short."""
CENTURY = 69
"""Years of two digits from this on are of the last century, as POSIX has it."""


class Part(NamedTuple):
    """A directive: the part of a time that it is, nothing for one that tells nothing, and the texts that it takes."""

    name: str
    pattern: str


def _names(names: tuple[str, ...], letters: int | None = None) -> str:
    return "|".join(name[:letters] for name in names)


PARTS = {
    "Y": Part("year", r"\d{4}"),
    "y": Part("short_year", r"\d{2}"),
    "m": Part("month", r"1[0-2]|0?[1-9]"),
    "B": Part("name", _names(MONTHS)),
    "b": Part("name", _names(MONTHS, SHORT)),
    "d": Part("day", r"3[01]|[12]\d|[0 ]?[1-9]"),
    "j": Part("day_of_year", r"36[0-6]|3[0-5]\d|[12]\d\d|0[1-9]\d|00[1-9]|[1-9]\d|0?[1-9]"),
    "H": Part("hour", r"2[0-3]|[01]\d|\d"),
    "I": Part("hour_of_12", r"1[0-2]|[0 ]?[1-9]"),
    "p": Part("half", r"am|pm"),
    "M": Part("minute", r"[0-5]\d|\d"),
    "S": Part("second", r"[0-5]\d|\d"),
    "f": Part("fraction", r"\d{1,9}"),
    "z": Part("zone", r"[+-]\d\d:?[0-5]\d|z"),
    "Z": Part("", r"utc|gmt"),
    "A": Part("", _names(DAYS)),
    "a": Part("", _names(DAYS, SHORT)),
    "%": Part("", "%"),
}
"""What may follow a ``%``."""
ALIKE = ({"year", "short_year"}, {"month", "name", "day_of_year"}, {"day", "day_of_year"}, {"hour", "hour_of_12"})
"""Parts of which a form has one at most."""
NEEDED = {"day": ("month", "name"), "half": ("hour_of_12",), "fraction": ("second",)}
"""Parts that mean nothing without one of others."""


def pattern_of(form: str) -> str:
    """The pattern, of RE2, of all times in a form.

    Raises:
        InputError: for a form that is none, or that does not tell the year.
    """
    pattern, parts = "", []
    for directive, space, other in re.findall(r"%(.?)|(\s+)|([^%\s]+)", form):
        if other:
            pattern += re.escape(other)
        elif space:
            pattern += r"\s+"
        elif directive not in PARTS:
            known = " ".join("%" + each for each in PARTS)
            raise InputError(f"{form} has %{directive}; a form is made of {known} and what stands between them")
        else:
            name, taken = PARTS[directive]
            pattern += f"(?P<{name}>{taken})" if name else f"(?:{taken})"
            parts += [name] if name else []
    for part in parts:
        if parts.count(part) > 1 or any(part in alike and len(alike.intersection(parts)) > 1 for alike in ALIKE):
            raise InputError(f"{form} says the {part.replace('_', ' ')} twice")
        if part in NEEDED and not set(parts).intersection(NEEDED[part]):
            raise InputError(f"{form} has the {part}, but no {NEEDED[part][0].replace('_', ' ')}")
    if not {"year", "short_year"}.intersection(parts):
        raise InputError(f"{form} does not tell the year, as %Y or %y does")
    return f"(?i)^{pattern}$"


def micros_of(texts: Any, form: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds since 1970-01-01 UTC, int64 [n], and which texts are times of the form, bool [n].

    Args:
        texts: of pyarrow, without spaces around and without nulls.
        form: one that :func:`pattern_of` takes.
    """
    import pyarrow.compute as pc

    found = pc.extract_regex(texts, pattern_of(form))
    good = pc.is_valid(found).to_numpy(zero_copy_only=False)
    names = [field.name for field in found.type]
    parts = {name: _numbers(name, pc.struct_field(found, name)) for name in names}
    days, is_day = _days_of(parts, len(good))
    hour = parts.get("hour", parts.get("hour_of_12", np.int64(0)) % 12 + parts.get("half", np.int64(0)))
    minutes = hour * 60 + parts.get("minute", 0) - parts.get("zone", 0)
    seconds = (days * 1440 + minutes) * 60 + parts.get("second", 0)
    return seconds * 1_000_000 + parts.get("fraction", 0), good & is_day


def _numbers(name: str, texts: Any) -> NDArray[np.int64]:
    """A part as whole numbers: an afternoon is 12 hours, a zone minutes, a fraction microseconds; 0 of no text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(pc.utf8_lower(texts)).fill_null("")
    if name == "name":
        short = pc.utf8_slice_codeunits(texts, 0, SHORT)
        months = pa.array([month[:SHORT] for month in MONTHS], short.type)
        return _whole(pc.add(pc.index_in(short, months), 1))
    if name == "half":
        return np.where(pc.equal(texts, "pm").to_numpy(zero_copy_only=False), 12, 0)
    if name == "zone":
        digits = pc.replace_substring_regex(texts, r"^([+-])(\d\d):?(\d\d)$", r"\1\2\3")
        clock = _whole(_cast(pc.replace_substring_regex(digits, "^(z|[+-])", "")))
        sign = np.where(pc.starts_with(texts, "-").to_numpy(zero_copy_only=False), -1, 1)
        return sign * (clock // 100 * 60 + clock % 100)
    if name == "fraction":
        return _whole(_cast(pc.utf8_slice_codeunits(pc.utf8_rpad(texts, 6, "0"), 0, 6)))
    return _whole(_cast(texts))


def _cast(digits: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.equal(digits, ""), pa.scalar("0", digits.type), digits).cast(pa.int64())


def _whole(numbers: Any) -> NDArray[np.int64]:
    values: NDArray[np.int64] = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def _days_of(parts: Mapping[str, NDArray[np.int64]], count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Days since 1970-01-01, and which of them there are: February has no 30th, and no year is 0."""
    ones = np.ones(count, np.int64)
    if "year" in parts:
        year = parts["year"]
    else:
        year = parts["short_year"] + np.where(parts["short_year"] >= CENTURY, 1900, 2000)
    years = (year - 1970).astype("datetime64[Y]")
    if "day_of_year" in parts:
        day, begins, ends = parts["day_of_year"], years, years + 1
    else:
        months = years.astype("datetime64[M]") + (parts.get("month", parts.get("name", ones)) - 1)
        day, begins, ends = parts.get("day", ones), months, months + 1
    first, last = begins.astype("datetime64[D]").astype(np.int64), ends.astype("datetime64[D]").astype(np.int64)
    days = first + day - 1
    return days, (year >= 1) & (days < last)
