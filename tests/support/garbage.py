"""The collector of cycles, in processes that run many tests.

With PyTorch, PyG and DGL imported it has a million objects to look at, over and over: a tenth of all time, and more
where tests collect on purpose.
"""

from __future__ import annotations

import gc
from pathlib import Path


def collect_seldom() -> None:
    """Look for cycles when there are many new objects, and never at those that are there now."""
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()


def assert_holds(folder: Path, *names: str) -> None:
    """A folder has these names and no more, once what a test has dropped is gone, and its open files are told of.

    What is older is looked at only where something is left: that takes a tenth of a second and more.
    """
    gc.collect(1)
    if {path.name for path in folder.iterdir()} != {*names}:
        gc.collect()
    assert {path.name for path in folder.iterdir()} == {*names}
