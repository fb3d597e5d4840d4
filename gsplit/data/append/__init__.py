"""A graph store as a source: copied, or grown by new vertices, edges, features, labels and vertex sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsplit.errors import InputError

GROWN_FROM = "grown_from"


def grown_from(described: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Checksums of the stores that a store was grown from, the oldest first; none where it was made at once.

    Args:
        described: what ``graph.json`` says of the store, or ``layout.json`` of the store it was made from.
        where: what messages call that file.

    Raises:
        InputError: where the entry is damaged.
    """
    checksums = described.get(GROWN_FROM, [])
    if not isinstance(checksums, list) or not all(isinstance(checksum, str) for checksum in checksums):
        raise InputError(f"{where} is damaged where it says what the store was grown from")
    return tuple(checksums)
