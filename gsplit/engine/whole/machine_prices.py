"""What work takes on this machine: products, copies and messages, measured once and kept in the user's cache folder.

Measured in this process, on the CPU, with the threads of a trainer, within :data:`MOST_S`: sums over random edges, by
the width of the rows and the bytes of all that are summed (what fits a cache is many times as fast); a product with
weights; a copy; and messages of two sizes (:mod:`gsplit.parallel.loopback`).
"""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit import __version__
from gsplit.errors import InputError
from gsplit.files import read_json, replacing
from gsplit.full.operators import product
from gsplit.kernels import Edges
from gsplit.limits import usable_cores
from gsplit.parallel.loopback import seconds_of_exchanges

WIDTHS = (2, 16, 128)
"""Columns of the rows that are summed."""
ALL_BYTES = (1 << 17, 1 << 21, 1 << 26)
"""Bytes of all of them: what fits a core's caches, and what does not."""
EDGES, DEGREE = 1 << 17, 16
SMALL, LARGE = 1 << 8, 1 << 20
"""Numbers of a message."""
SENT = 1e-4, 1e-9
"""Seconds of a message and of a byte in one, where they cannot be measured."""
OF_EACH_S = 0.06
"""Seconds that one figure takes, of which the quickest time counts: others may use the machine."""
MOST_S = 5.0
"""Seconds that all of them take at most."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MachinePrices:
    """Seconds of one core's share of the work, float32."""

    edges: tuple[tuple[float, ...], ...]
    """Of an edge, by :data:`WIDTHS` and :data:`ALL_BYTES`."""
    multiply: float
    """Of a multiplication and an addition of a product with weights."""
    copied_byte: float
    """Of a byte that is copied."""
    message: float
    """Of a message, however small."""
    sent_byte: float
    """Of a byte in one."""

    def of_edge(self, width: float, num_bytes: NDArray[np.float64]) -> float:
        """Seconds of an edge, in the mean.

        Args:
            width: columns of the rows that are summed, in numbers of 4 bytes.
            num_bytes: [any number] of all rows that edges read which are summed one after another.
        """
        if width <= 0:
            return 0.0
        of_bytes = np.array(
            [np.interp(np.log(np.maximum(1, num_bytes)), np.log(ALL_BYTES), row) for row in np.log(self.edges)]
        )
        at = float(np.interp(np.log(width), np.log(WIDTHS), range(len(WIDTHS))))
        below = min(int(at), len(WIDTHS) - 2)
        edge = np.exp(of_bytes[below] + (at - below) * (of_bytes[below + 1] - of_bytes[below]))
        return float(edge.mean() * max(1, width / WIDTHS[-1]))


OF_A_GPU = MachinePrices(
    edges=((2e-11,) * 3, (8e-11,) * 3, (5e-10,) * 3), multiply=1e-13, copied_byte=1e-12, message=2e-5, sent_byte=2e-11
)
"""What it takes on a GPU of 1 TB/s and 20 TFLOP/s, among others over NVLink or its like: written down, not measured,
for that would take memory of the device. Trials tell more."""


def kept_in() -> Path | None:
    """The file that prices are kept in, in the user's folder for what programs can make again; None without one."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        folder = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return None
    return folder / "gsplit" / "prices.json"


def machine_prices(threads: int) -> MachinePrices:
    """The prices of this machine for trainers of so many threads: kept ones, or measured now, which is said.

    A folder that cannot be read or written keeps nothing; then they are measured again the next time.
    """
    path, key = kept_in(), key_of(threads)
    kept = {} if path is None else _kept(path)
    if (prices := _prices_of(kept.get(key))) is not None:
        return prices
    start_s = time.perf_counter()
    prices = measured(threads)
    where = "not kept: there is no folder for it" if path is None else f"kept in {path}; remove it to measure again"
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(kept | {key: asdict(prices)}, indent=1))
    except (OSError, InputError):
        where = f"not kept: {path} cannot be written"
    logger.info("prices of this machine measured in %.1f s, %s", time.perf_counter() - start_s, where)
    return prices


def _prices_of(kept: Any) -> MachinePrices | None:
    """Prices out of a file; None where they are none that could have been measured."""
    try:
        edges = tuple(tuple(map(float, row)) for row in kept["edges"])
        prices = MachinePrices(edges=edges, **{name: float(kept[name]) for name in kept.keys() - {"edges"}})
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    numbers = np.array(edges) if {len(row) for row in edges} == {len(ALL_BYTES)} else np.empty(0)
    each = (prices.multiply, prices.copied_byte, prices.message)
    fine = numbers.shape == (len(WIDTHS), len(ALL_BYTES)) and all(0 < x < MOST_S for x in (*numbers.flat, *each))
    return prices if fine and 0 <= prices.sent_byte < MOST_S else None


def key_of(threads: int) -> str:
    """What prices are kept by: the processor, cores and threads, and what does the work."""
    return f"{_processor()}, {threads} threads, GSplit {__version__}, PyTorch {torch.__version__}"


def _kept(path: Path) -> dict[str, Any]:
    """The prices in a file; none where it is damaged, or not there."""
    try:
        kept = read_json(path)
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def measured(threads: int) -> MachinePrices:
    """Measure the prices with so many threads."""
    before, until_s = torch.get_num_threads(), time.monotonic() + MOST_S
    torch.set_num_threads(threads)
    try:
        values = torch.ones(ALL_BYTES[-1] // 4)
        edges = tuple(
            tuple(
                _quickest(_sum_of(values[: num_bytes // 4].view(-1, width)), until_s) / EDGES
                for num_bytes in ALL_BYTES
            )
            for width in WIDTHS
        )
        rows, weights, half = values[: 1 << 19].view(-1, 128), values[: 1 << 14].view(128, 128), len(values) // 2
        multiply = _quickest(lambda: rows @ weights, until_s) / (len(rows) * weights.numel())
        copied = _quickest(lambda: values[:half].copy_(values[half:]), until_s) / (4 * half)
        message, sent_byte = _messages()
    finally:
        torch.set_num_threads(before)
    return MachinePrices(edges=edges, multiply=multiply, copied_byte=copied, message=message, sent_byte=sent_byte)


def _sum_of(rows: torch.Tensor) -> Callable[[], object]:
    """What sums some of the rows over random edges."""
    indptr = torch.arange(0, EDGES + 1, DEGREE, dtype=torch.int32)
    indices = torch.randint(0, len(rows), (EDGES,), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    edges = Edges(indptr=indptr, indices=indices)
    return lambda: product(edges, [rows], None)


def _quickest(work: Callable[[], object], until_s: float) -> float:
    """Seconds of the quickest of several times; one time where the whole takes too long."""
    times: list[float] = []
    work()
    while not times or (sum(times) < OF_EACH_S and time.monotonic() < until_s):
        start_s = time.perf_counter()
        work()
        times.append(time.perf_counter() - start_s)
    return max(min(times), 1e-9)


def _messages() -> tuple[float, float]:
    """Seconds of a message, and of a byte in one, where two send each other messages at once."""
    try:
        small, large = seconds_of_exchanges((SMALL, LARGE))
    except RuntimeError as error:
        logger.warning("what messages take could not be measured (%s); %g s each is assumed", error, SENT[0])
        return SENT
    return small, max(0.0, large - small) / (4 * LARGE)


def _processor() -> str:
    """What the processor is called, and how many cores' worth of time this process may take."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name} x {usable_cores():g}"
