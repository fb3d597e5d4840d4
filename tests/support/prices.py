"""What work takes on a machine that tests make up: none is measured beside other tests, or kept for whoever tests."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict

from gsplit.engine.whole.machine_prices import MachinePrices, kept_in, key_of

PRICES = MachinePrices(
    edges=((1.3e-9, 1.7e-9, 6.4e-9), (1.5e-9, 2.0e-9, 8.4e-9), (7.1e-9, 1.1e-8, 5e-8)),
    multiply=2.4e-11,
    copied_byte=1.9e-10,
    message=8.9e-5,
    sent_byte=1e-9,
)


def keep_prices() -> None:
    """Give this process, and those that it starts, a cache folder that has them."""
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="gsplit-test-cache-")
    path = kept_in()
    path.parent.mkdir()
    path.write_text(json.dumps({key_of(threads): asdict(PRICES) for threads in range(1, 17)}))


def remove_prices() -> None:
    """Remove the folder."""
    shutil.rmtree(os.environ.pop("XDG_CACHE_HOME"))
