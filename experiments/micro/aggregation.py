"""Milliseconds of four library products that average neighbours on the CPU, forward and backward.

python -m experiments.micro.aggregation
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.shared.flags import Positive, from_one_on
from gsplit import cli
from gsplit.config.fields import Checked

PROG = "python -m experiments.micro.aggregation"


@dataclass(frozen=True, kw_only=True)
class AggregationConfig(Checked):
    """Milliseconds of forward and backward, one thread, best of several."""

    destinations: Positive = 40_000
    """Rows of the result."""
    sources: Positive = 100_000
    """Rows that are averaged over."""
    degree: Positive = 20
    """Neighbours of each destination."""
    widths: Annotated[cli.IntList, from_one_on("--widths")] = (16, 64, 256)
    """Features of a row."""
    repeats: Positive = 3
    """The best of so many is printed."""


def products(config: AggregationConfig) -> dict[str, Callable[[Tensor], Tensor]]:
    """The candidates, on one random block."""
    indptr = torch.arange(0, config.destinations * config.degree + 1, config.degree, dtype=torch.int32)
    indices = torch.randint(0, config.sources, (config.destinations * config.degree,), dtype=torch.int32)
    values = torch.full((len(indices),), 1 / config.degree)
    size = (config.destinations, config.sources)
    csr32 = torch.sparse_csr_tensor(indptr, indices, values, size)
    csr64 = torch.sparse_csr_tensor(indptr.long(), indices.long(), values, size)
    return {
        "embedding_bag": lambda x: F.embedding_bag(indices, x, indptr, mode="mean", include_last_offset=True),
        "CSR, int32": lambda x: csr32 @ x,
        "CSR, int64": lambda x: csr64 @ x,
        "sparse.mm, mean": lambda x: torch.sparse.mm(csr64, x, "mean"),
    }


def best_ms(product: Callable[[Tensor], Tensor], x: Tensor, repeats: int) -> tuple[float, float]:
    """Forward and backward."""
    forward, backward = [], []
    for _ in range(repeats):
        x.grad = None
        start_s = time.perf_counter()
        out = product(x)
        middle_s = time.perf_counter()
        out.backward(torch.ones_like(out))
        forward.append(middle_s - start_s)
        backward.append(time.perf_counter() - middle_s)
    return 1000 * min(forward), 1000 * min(backward)


def command(arguments: list[str]) -> None:
    config = cli.parse(AggregationConfig, arguments, prog=PROG)
    warnings.filterwarnings("ignore", message="Sparse")
    torch.set_num_threads(1)
    for width in config.widths:
        for name, product in products(config).items():
            x = torch.randn(config.sources, width, requires_grad=True)
            forward_ms, backward_ms = best_ms(product, x, config.repeats)
            print(f"width {width:>4}  {name:<16} {forward_ms:6.1f} + {backward_ms:6.1f} ms")


if __name__ == "__main__":
    cli.main(command)
