"""Limits of this process, for a while."""

from __future__ import annotations

import resource
from contextlib import contextmanager


@contextmanager
def largest_file(num_bytes):
    """As on a disk that takes no more: a write ends short of it, and then fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
