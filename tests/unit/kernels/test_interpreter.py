"""Triton's kernels compute what is wanted of them, in its interpreter: the tests in ``interpreted/``, and those of
sums that all kernels face, in a process of their own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.commands import python

pytest.importorskip("triton")
HERE = Path(__file__).parent
LIMIT_S = 900.0
SUMS = "compiled and not dot and not shares and not split and not 2257 and not 16257 and not attention"
"""Tests of all kernels that sum, but for the widest rows, which the interpreter takes long for."""
FEW = f"{SUMS} and (compiled-130-1 or part_of_the_rows or compiled-5-uniform or lost_one_by_one)"
"""Those of a width beyond a block of columns that no block divides, and some of long lists."""
FEW_OF_ITS_OWN = "interpreted and not many_widths and not (gradients and (1] or 16] or 100] or 300]))"
"""Tests of the interpreter alone, but for gradients of all widths but one, and norms of many widths."""


@pytest.mark.parametrize(
    ("tests", "least"),
    [
        pytest.param(f"({FEW_OF_ITS_OWN}) or ({FEW})", 50, id="few"),
        pytest.param(f"interpreted or ({SUMS})", 135, id="all", marks=pytest.mark.slow),
    ],
)
def test_in_the_interpreter(tests, least):
    """Whatever fails there fails here; ``least``: number of tests that there are at least."""
    words = ("-m", "pytest", "-p", "no:cacheprovider", "--tb=short", "-k", tests)
    files = ("interpreted", "test_kernels.py", "test_long_sums.py")
    done = python(*words, *files, cwd=HERE, env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=LIMIT_S)
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted, done.stdout
    assert int(counted[1]) >= least
    assert "skipped" not in done.stdout
