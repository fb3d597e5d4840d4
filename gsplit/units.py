"""Bytes and sizes of caches, as people write and read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
FACTORS = {
    "": 1,
    "b": 1,
    **{f"{p}ib": 1024**i for i, p in enumerate("kmgt", 1)},
    **{f"{p}b": 1000**i for i, p in enumerate("kmgt", 1)},
}


def binary(num_bytes: float) -> str:
    """A number of bytes as people read it: 1536 is 1.5 KiB."""
    for unit in UNITS:
        if num_bytes < 1024 or unit == UNITS[-1]:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    raise AssertionError


def parse_bytes(text: str) -> int:
    """The number of bytes that a text means: 4GiB is 4294967296; also 500MB, 1.5 GiB, 1048576.

    Raises:
        ValueError: for anything else.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in FACTORS:
        raise ValueError(f"{text!r} is no number of bytes, such as 4GiB or 500MB")
    num_bytes = float(match[1]) * FACTORS[match[2]]
    if num_bytes >= 2**63:
        raise ValueError(f"{text!r} is more than any memory has")
    return int(num_bytes)


@dataclass(frozen=True, kw_only=True)
class CacheSize:
    """The size of a cache on each trainer: bytes, a share, or (both None) what the device has to spare."""

    num_bytes: int | None = None
    """Size in bytes."""
    share: Fraction | None = None
    """Share of all feature rows on an average trainer: 25 % on each of 4 trainers hold everything between them."""

    @classmethod
    def parse(cls, text: str) -> CacheSize:
        """The size that ``4GiB``, ``10%`` or ``auto`` mean.

        Raises:
            ValueError: for anything else, for a share above 100 % and for 0.
        """
        given, text = text, text.strip().lower()
        if text == "auto":
            return cls()
        if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text):
            share = Fraction(match[1]) / 100
            if not 0 < share <= 1:
                raise ValueError(f"a share must be above 0 % and at most 100 %, not {text}")
            return cls(share=share)
        if re.fullmatch(r"[\d.]+\s*[a-z]*", text) is None:
            raise ValueError(f"{given!r} is no size such as 4GiB, no share such as 10%, and not auto")
        num_bytes = parse_bytes(given)
        if num_bytes == 0:
            raise ValueError("a cache of 0 bytes holds nothing; use --cache none, or a share such as 10%")
        return cls(num_bytes=num_bytes)

    def __str__(self) -> str:
        if self.share is not None:
            return f"{float(100 * self.share):g}%"
        return "auto" if self.num_bytes is None else binary(self.num_bytes)
