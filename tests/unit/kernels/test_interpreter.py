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
LEAST = 135
"""Number of tests that there are at least."""


def test_in_the_interpreter():
    """Whatever fails there fails here."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [*command, "interpreted", "test_kernels.py", "test_long_sums.py", "-k", f"interpreted or ({SUMS})"],
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
    assert int(counted[1]) >= LEAST
    assert "skipped" not in done.stdout
