"""Triton's kernels compute what is wanted of them, in its interpreter: the tests in ``interpreted/``, and those of
sums that all kernels face, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
HERE = Path(__file__).parent
LIMIT_S = 300.0
SUMS = "compiled and not dot and not shares and not split and not 2257 and not 16257 and not attention"
"""Tests of all kernels that sum, but for the widest rows, which the interpreter takes long for."""
FEW = f"{SUMS} and (long_sums or compiled-3- or compiled-130- or part_of_the_rows)"
"""Those of long lists, and of two widths that no block of columns divides, one of them beyond a block."""


@pytest.mark.parametrize(
    ("sums", "least"), [pytest.param(FEW, 70, id="few"), pytest.param(SUMS, 135, id="all", marks=pytest.mark.slow)]
)
def test_in_the_interpreter(sums, least):
    """Whatever fails there fails here; ``least``: number of tests that there are at least."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [*command, "interpreted", "test_kernels.py", "test_long_sums.py", "-k", f"interpreted or ({sums})"],
        cwd=HERE,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted, done.stdout
    assert int(counted[1]) >= least
    assert "skipped" not in done.stdout
