"""Limits of this process, for a while."""

from __future__ import annotations

import itertools
import os
import resource
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def largest_file(num_bytes):
    """As on a disk that takes no more: a write ends short of it, and then fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def addresses(more_bytes):
    """As under ulimit -v: addresses for so many bytes more than there are now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def open_files(more):
    """As under ulimit -n: so many more files can be opened than are open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = {int(number) for number in os.listdir("/proc/self/fd")}
    free = (number for number in itertools.count() if number not in opened)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, more, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
