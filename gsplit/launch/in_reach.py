"""Layouts that a user may have meant: those in and below the current folder."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

from gsplit.data.layout import FILE
from gsplit.errors import InputError

MOST_DEPTH = 4
"""Levels of folders that are looked at."""
MOST_FOLDERS = 2000
"""Number of folders that are looked at, those near by first."""
MOST_NAMED = 5
"""Number of layouts that a message names."""


def layouts_in_reach() -> list[Path]:
    """Layouts in and below the current folder, the newest first; hidden folders and links are left out."""
    found: list[tuple[int, Path]] = []
    waiting = deque([(Path(), 0)])
    looked_at = 0
    while waiting and looked_at < MOST_FOLDERS:
        folder, depth = waiting.popleft()
        looked_at += 1
        try:
            with os.scandir(folder) as entries:
                here = sorted(entries, key=lambda entry: entry.name)
            if described := next((entry for entry in here if entry.name == FILE and entry.is_file()), None):
                found.append((described.stat().st_mtime_ns, folder))
            elif depth < MOST_DEPTH:
                waiting.extend(
                    (folder / entry.name, depth + 1)
                    for entry in here
                    if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
                )
        except OSError:  # somebody else's, or gone
            continue
    return [folder for _, folder in sorted(found, key=lambda each: (-each[0], each[1]))]


def no_layout(parts: int | None) -> InputError:
    """Return the message where no layout was given; ``parts`` is the number of trainers, where that was.

    The layouts in reach, or the two commands that make one.
    """
    layouts = [str(folder) for folder in layouts_in_reach()]
    if not layouts:
        return InputError(
            "no layout given, and none is in or below this folder; two commands make one: gsplit import "
            f"synthetic:small --out graph (or a graph of yours), then gsplit partition graph --parts {parts or 4} "
            "--out layout"
        )
    more = f" and {len(layouts) - MOST_NAMED} more" if len(layouts) > MOST_NAMED else ""
    return InputError(f"no layout given; in reach are, the newest first: {', '.join(layouts[:MOST_NAMED])}{more}")
