"""How much longer other kernels take on a GPU that reads feature rows from the host meanwhile.

``python -m tools.gpu_check.beside``. Three chains of kernels, each recorded as a graph so that launching it takes no
time: large products, which want every multiprocessor; small products and activations, as of a mini-batch; copies,
which want the memory. A chain is timed alone, and while rows are read for longer than it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor

from gsplit.features import HostRows
from gsplit.host import SharedBuffer
from gsplit.kernels.zero_copy import read_rows

ROWS, WIDTH, AT_ONCE, LOADS, ROUNDS = 2_000_000, 100, 150_000, 6, 5


def chains(device: torch.device) -> dict[str, Callable[[], object]]:
    """What computes beside loading."""
    square, tall, weight, long = (
        torch.randn(*shape, device=device) for shape in ((4096, 4096), (20_000, 128), (128, 128), (50_000_000,))
    )
    square = square.bfloat16()
    square_out, tall_out, long_out = (torch.empty_like(x) for x in (square, tall, long))

    def small() -> None:
        for _ in range(60):
            torch.relu_(torch.mm(tall, weight, out=tall_out))

    def times(n: int, work: Callable[[], object]) -> Callable[[], object]:
        return lambda: [work() for _ in range(n)]

    return {
        "products": times(20, lambda: torch.mm(square, square, out=square_out)),
        "small kernels": small,
        "copies": times(10, lambda: long_out.copy_(long)),
    }


def recorded(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A chain that is launched at once."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def seconds(work: Callable[[], object], loading: Callable[[], object] | None, stream: torch.cuda.Stream) -> float:
    """Of a chain: the median of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if loading is not None:
            with torch.cuda.stream(stream):
                loading()
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return median(taken)


def main() -> None:
    """Print how much longer each chain takes, and at which rate rows are read."""
    device, random = torch.device("cuda", 0), np.random.default_rng(0)
    memory = SharedBuffer("rows")
    memory.grow(ROWS * WIDTH * 4)
    values = memory.view((ROWS, WIDTH), np.float32)
    values[:] = random.random((1, WIDTH), np.float32)
    host = HostRows(values)
    if not host.pin():
        raise SystemExit("the rows cannot be registered")
    ids = [torch.from_numpy(random.permutation(ROWS)[:AT_ONCE]).to(device) for _ in range(LOADS)]
    out: Tensor = torch.empty((AT_ONCE, WIDTH), device=device)

    def loading() -> None:
        for each in ids:
            read_rows(host.tensor(), each, None, out)

    loading()
    stream = torch.cuda.Stream()
    rate = LOADS * AT_ONCE * WIDTH * 4 / seconds(loading, None, stream) / 1e9
    told = []
    for name, work in chains(device).items():
        chain = recorded(work)
        alone = seconds(chain.replay, None, stream)
        told.append(f"{name} {seconds(chain.replay, loading, stream) / alone:.2f}")
    print(f"{rate:.1f} GB/s; times as long beside it: {', '.join(told)}")


if __name__ == "__main__":
    main()
