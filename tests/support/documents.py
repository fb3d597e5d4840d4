"""What docs/formats.md says of the keys of a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"


def undocumented(section: str, keys: Iterable[str]) -> list[str]:
    """The keys that stand nowhere in a section of the page, from its heading to the next of its level."""
    own = FORMATS.read_text().partition(f"\n### {section}\n")[2].partition("\n### ")[0]
    assert own, f"docs/formats.md has no section {section}"
    return sorted(key for key in set(keys) if f"`{key}`" not in own)
