"""Bytes, as people write and read them."""

from __future__ import annotations

import re

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
FACTORS = {"": 1, "b": 1, **{f"{p}ib": 1024**i for i, p in enumerate("kmgt", 1)},
           **{f"{p}b": 1000**i for i, p in enumerate("kmgt", 1)}}  # fmt: skip


def binary(num_bytes: float) -> str:
    """1536 -> 1.5 KiB"""
    for unit in UNITS:
        if num_bytes < 1024 or unit == UNITS[-1]:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    raise AssertionError


def parse_bytes(text: str) -> int:
    """4GiB -> 4294967296; also 500MB, 1.5 GiB, 1048576.

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
