"""Times of products that average neighbours on the CPU, libraries' over ours, forward and both ways.

    python -m experiments.micro.aggregation

``ours`` is what a layer calls, exchange left out; it transposes the edges each time, as mini-batches do. ``DGL_anew``
does so as well: its block is made anew, from edges by row alone, as its sampler gives them. ``kept`` is ours with the
edges transposed before, and ``DGL`` is DGL's. The bytes of ours are counted, not measured: source rows read
once for each edge, indices, and rows written; in backward the transposed edges as well, written and read. They are
given as a share of the bandwidth at which this machine copies memory, counting what a copy reads and what it writes.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, from_one_on
from experiments.shared.processes import begin_again_with
from experiments.shared.results import printed
from experiments.shared.rounds import seconds_of
from gsplit import cli
from gsplit.host import keep_freed_memory
from gsplit.launch.start import PASSIVE
from gsplit.nn import Block, mean_of_neighbours

COPY_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class AggregationConfig(Flags):
    """Times of forward, and of forward and backward: medians of products that run in turn."""

    destinations: Positive = 60_000
    """Rows of the result."""
    sources: Positive = 250_000
    """Rows that are averaged over."""
    degree: Positive = 12
    """Neighbours of each destination."""
    widths: Annotated[tuple[int, ...], from_one_on("--widths")] = (16, 64, 100, 128, 256)
    """Features of a row."""
    threads: Annotated[tuple[int, ...], from_one_on("--threads")] = (1, 2)
    """Threads that a product may use."""
    repeats: Positive = 7
    """Medians are of so many."""


Product = Callable[[Tensor], Tensor]


def random_block(config: AggregationConfig) -> Block:
    """Every destination has as many neighbours, at random."""
    generator = torch.Generator().manual_seed(0)
    edges = config.destinations * config.degree
    return Block(
        num_destinations=config.destinations,
        num_own_sources=config.sources,
        indptr=torch.arange(0, edges + 1, config.degree, dtype=torch.int32),
        indices=torch.randint(0, config.sources, (edges,), dtype=torch.int32, generator=generator),
        edge_ids=None,
        edge_weight=None,
        degrees=None,
        route=None,
        comm=None,
    )


def products(block: Block) -> Iterator[tuple[str, Product]]:
    """The candidates, on one block."""

    def ours(x: Tensor) -> Tensor:
        fresh = Block(**{name: getattr(block, name) for name in Block.__dataclass_fields__})
        return mean_of_neighbours(fresh, x)

    yield "ours", ours
    yield "kept", lambda x: mean_of_neighbours(block, x)
    size = (block.num_destinations, block.num_own_sources)
    values = torch.ones(block.num_edges)
    csr = torch.sparse_csr_tensor(block.indptr.long(), block.indices.long(), values, size)
    yield (
        "embedding_bag",
        lambda x: F.embedding_bag(block.indices, x, block.indptr, mode="mean", include_last_offset=True),
    )
    yield "sparse", lambda x: torch.sparse.mm(csr, x, "mean")
    try:
        import dgl
    except ImportError:
        print("DGL cannot be imported here and is left out")
        return
    edges = torch.arange(block.num_edges, dtype=torch.int32)

    def made() -> Any:
        return dgl.create_block(
            ("csc", (block.indptr, block.indices, edges)),
            num_src_nodes=block.num_own_sources,
            num_dst_nodes=block.num_destinations,
            idtype=torch.int32,
        )

    yield "DGL_anew", lambda x: dgl.ops.copy_u_mean(made(), x)
    graph = made()
    graph.create_formats_()
    yield "DGL", lambda x: dgl.ops.copy_u_mean(graph, x)


def counted_bytes(block: Block, width: int) -> tuple[int, int]:
    """Bytes that ours moves forward, and forward and backward."""
    edges, rows, sources = block.num_edges, block.num_destinations, block.num_own_sources
    forward = 4 * (edges * (width + 1) + rows * (width + 1))
    transposing = 4 * (edges * 3 + sources * 3)
    backward = transposing + 4 * (edges * (width + 2) + sources * (width + 1))
    return forward, forward + backward


def seconds(product: Product, x: Tensor) -> tuple[float, float]:
    """Forward, and forward and backward."""
    x.grad = None
    start_s = time.perf_counter()
    out = product(x)
    middle_s = time.perf_counter()
    out.backward(torch.ones_like(out))
    end_s = time.perf_counter()
    return middle_s - start_s, end_s - start_s


def copy_bandwidth(threads: int) -> float:
    """Bytes a second, read and written, of a large copy."""
    torch.set_num_threads(threads)
    source = torch.ones(COPY_BYTES // 4)
    to = torch.empty_like(source)
    return 2 * COPY_BYTES / min(seconds_of(lambda: to.copy_(source)) for _ in range(5))


def measured(block: Block, candidates: dict[str, Product], width: int, repeats: int) -> dict[str, list[float]]:
    """Median seconds of every product, forward and both ways; all run in turn, the first time unmeasured."""
    x = torch.randn(block.num_own_sources, width, requires_grad=True)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    for _ in range(repeats + 1):
        for name, product in candidates.items():
            taken[name].append(seconds(product, x))
    return {name: [statistics.median(part) for part in zip(*runs[1:], strict=True)] for name, runs in taken.items()}


def row_of(
    block: Block, medians: dict[str, list[float]], width: int, threads: int, bandwidth: float
) -> dict[str, Any]:
    """The times of the others over ours, and the share of a copy's bandwidth that ours reaches, forward and both."""
    ours = medians["ours"]
    moved = counted_bytes(block, width)
    row: dict[str, Any] = {"width": width, "threads": threads}
    for name, spent in medians.items():
        values = [value / own for value, own in zip(spent, ours, strict=True)]
        if name == "ours":
            values = [count / bandwidth / own for count, own in zip(moved, ours, strict=True)]
            name = "bandwidth"
        row[name] = dict(zip(("forward", "both"), (round(value, 2) for value in values), strict=True))
    return row


def measure(config: AggregationConfig) -> list[dict[str, Any]]:
    """A row for each width and number of threads."""
    warnings.filterwarnings("ignore", message="Sparse")
    block = random_block(config)
    candidates = dict(products(block))
    rows = []
    for threads in config.threads:
        bandwidth = copy_bandwidth(threads)
        for width in config.widths:
            medians = measured(block, candidates, width, config.repeats)
            rows.append(printed(row_of(block, medians, width, threads, bandwidth)))
    return rows


command = Experiment("micro.aggregation", AggregationConfig, measure)

if __name__ == "__main__":
    begin_again_with(PASSIVE)  # as trainers are started
    keep_freed_memory()  # and as they do
    cli.main(command)
