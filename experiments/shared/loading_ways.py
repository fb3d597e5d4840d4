"""Ways to bring the rows of a list of vertices together, side by side, timed alike.

| device | way | what it does |
|---|---|---|
| both | ``copy`` | the floor: as many bytes that lie together already, from host memory to the device |
| CPU | ``gather`` | our C++ copy, row by row, as trainers on the CPU load |
| CPU | ``index_select`` | PyTorch's |
| GPU | ``gather`` | our C++ copy into pinned memory, and an asynchronous copy to the GPU |
| GPU | ``zero-copy`` | our kernel reads the rows where they lie on the host |
| GPU | ``zero-copy kernel`` | the same without what comes before it: ids checked and brought to the GPU |
| GPU | ``cached index_select`` | PyTorch's, from a copy of all rows on the GPU: what a cache would give |

Rows arrive in the type they are stored in: converting them is no part of loading. Each way makes room for what it
returns, as loaders do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.device import accelerator
from gsplit.errors import InputError
from gsplit.features import FeatureLoader, HostRows

COPY = "copy"


@dataclass(kw_only=True)
class Way:
    """One way to load a list, and what it took in each round."""

    name: str
    threads: int | None
    """Threads of the CPU that copy rows; None where it copies none."""
    run: Callable[[], Tensor]
    """Gives the rows [n, D] on the device."""
    seconds: list[float] = field(default_factory=list)

    def round(self, device: torch.device) -> None:
        self.seconds.append(seconds_of(device, self.run))


def seconds_of(device: torch.device, run: Callable[[], Tensor]) -> float:
    """Seconds of one run; on a GPU between two events of an idle stream, so that the host's part counts, too."""
    if not accelerator.is_one(device):
        start_s = time.perf_counter()
        rows = run()
        seconds = time.perf_counter() - start_s
        del rows  # letting go of memory is not timed
        return seconds
    start, end = (accelerator.timed_event(device) for _ in range(2))
    accelerator.synchronize(device)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def ways_of(host: HostRows, ids: NDArray[np.int64], device: torch.device, threads: int) -> list[Way]:
    """All of a device, the copy first; each has given the right rows once, so that nothing is left to make ready.

    Args:
        host: rows in memory that can be registered, so that kernels read them.
        ids: int64 [n], the list.
        device: where the rows go.
        threads: of the CPU.

    Raises:
        InputError: where rows cannot be read by the GPU.
        AssertionError: where a way gives other rows.
    """
    expected = torch.from_numpy(host.bytes_view[ids]).view(host.dtype)
    ways = (
        _on_gpu(host, ids, expected, device, threads)
        if accelerator.is_one(device)
        else _on_cpu(host, ids, expected, threads)
    )
    for way in ways:
        rows = way.run()
        same = torch.equal(rows.cpu().view(torch.uint8), expected.view(torch.uint8))
        assert rows.device.type == device.type, way.name
        assert same, f"{way.name} gives other rows"
    return ways


def _on_cpu(host: HostRows, ids: NDArray[np.int64], expected: Tensor, threads: int) -> list[Way]:
    rows, ids_tensor, cpu = host.tensor(), torch.from_numpy(ids), torch.device("cpu")

    def with_threads(number: int, function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def run() -> Tensor:
            with _torch_threads(number):
                return function()

        return run

    ways = []
    for number in sorted({1, threads}):
        ways += [
            Way(name=COPY, threads=number, run=with_threads(number, expected.clone)),
            Way(name="gather", threads=number, run=_load(host, ids, cpu, number)),
            Way(
                name="index_select",
                threads=number,
                run=with_threads(number, lambda: rows.index_select(0, ids_tensor)),
            ),
        ]
    return ways


def _on_gpu(
    host: HostRows, ids: NDArray[np.int64], expected: Tensor, device: torch.device, threads: int
) -> list[Way]:
    if not host.pin():
        raise InputError("the rows cannot be registered, so no kernel can read them")
    reader = accelerator.reader_of_rows(device)
    if reader is None:
        try:
            from gsplit.kernels.zero_copy import read_rows
        except ImportError as error:
            raise InputError(f"no kernel can read the rows without Triton ({error})") from None
        reader = read_rows
    read = reader
    rows, together = host.tensor(), expected.pin_memory()
    cached, ids_tensor = rows.to(device), torch.from_numpy(ids).to(device)

    def kernel() -> Tensor:
        out = torch.empty((len(ids), host.width), dtype=host.dtype, device=device)
        read(rows, ids_tensor, None, out)
        return out

    return [
        Way(name=COPY, threads=None, run=lambda: together.to(device, non_blocking=True)),
        Way(name="gather", threads=threads, run=_load(host, ids, device, threads)),
        Way(name="zero-copy", threads=None, run=_load(host, ids, device, threads, zero_copy=True)),
        Way(name="zero-copy kernel", threads=None, run=kernel),
        Way(name="cached index_select", threads=None, run=lambda: cached.index_select(0, ids_tensor)),
    ]


def _load(
    host: HostRows, ids: NDArray[np.int64], device: torch.device, threads: int, *, zero_copy: bool = False
) -> Callable[[], Tensor]:
    """Load as the feed does, without a cache."""
    loader = FeatureLoader(
        host, device=device, dtype=host.dtype, normalize=False, threads=threads, zero_copy=zero_copy
    )
    return lambda: loader.load(ids)


@contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
