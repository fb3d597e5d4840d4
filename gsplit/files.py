"""Files that are whole or not there, whenever the machine stops."""

from __future__ import annotations

import os
from pathlib import Path


def make_durable(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Write ``content`` under a temporary name, make it durable, then rename it over ``path``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    make_durable(temporary)
    temporary.replace(path)
    make_durable(path.parent)
