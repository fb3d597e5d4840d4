from __future__ import annotations

import pytest
from support.messages import line_with

from gsplit.units import binary, parse_bytes


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("0", 0), ("1048576", 2**20), ("4GiB", 2**32), ("500MB", 500_000_000), ("1.5 gib", 3 * 2**29), (" 7 b ", 7)],
)
def test_bytes_are_read(text, num_bytes):
    assert parse_bytes(text) == num_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e3", "4 GiB 2", "4 gigs", "1,5GiB"])
def test_what_is_no_number_of_bytes(text):
    with pytest.raises(ValueError, match=line_with("4GiB, 500MB")):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["8388608TiB", "9" * 400, "9" * 400 + ".5GiB"])
def test_what_no_machine_has(text):
    with pytest.raises(ValueError, match="more than any memory has"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**60, "1048576.0 TiB")]
)
def test_bytes_are_shown(num_bytes, text):
    assert binary(num_bytes) == text
