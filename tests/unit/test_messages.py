"""The parts of a message that tests ask for (tests/support/messages.py) stand there whole, in one line."""

from __future__ import annotations

import pytest
from support.messages import says


@pytest.mark.parametrize(
    ("printed", "parts", "there"),
    [
        ("--parts must be at least 1, not 0", "0, --parts, 1", True),
        ("--parts must be at least 10, not 0.5", "--parts, 1", False),
        ("--parts must be at least 10, not 0.5", "--parts, 0", False),
        ("--parts-of-old is none", "--parts", False),
        ("e.csv.gz, line 12: -3 of 1,000", "e.csv.gz, line 12, -3, 1,000", True),
        ("e.csv.gz, line 12: -3 of 1,000", "e.csv", False),
        ("e.csv.gz, line 12: -3 of 1,000", "3", False),
        ("e.csv.gz, line 12: -3 of 1,000", "line #, e.*", True),
        ("first 1\nthen 2", "1, 2", False),
        ("first 1\nthen 2", "2", True),
        (ValueError("first 1\nthen 2"), "2", False),
    ],
)
def test_parts_of_a_message(printed, parts, there):
    if there:
        says(printed, parts)
    else:
        with pytest.raises(AssertionError):
            says(printed, parts)
