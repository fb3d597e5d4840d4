"""The disk, in processes that run many tests.

A store is twenty files that have to be on the disk before it gets its name. No test cuts the power, and
tests/unit/test_durable.py looks at the order of the calls.
"""

from __future__ import annotations

import os


def wait_for_no_disk() -> None:
    """Let the kernel write files when it likes."""
    os.fsync = lambda fd: None
