"""The collector of cycles, in processes that run many tests.

With PyTorch, PyG and DGL imported it has a million objects to look at, over and over: a tenth of all time, and more
where tests collect on purpose.
"""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Look for cycles when there are many new objects, and never at those that are there now."""
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
