"""Times in a form of the user's own, such as ``%d.%m.%Y``, by Python's ``datetime.strptime``. n texts."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
