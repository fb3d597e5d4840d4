"""Loading feature rows from the host: seconds over those of a plain copy of as many bytes.

    python -m experiments.micro.loading
    python -m experiments.micro.loading --quick --json loading.json

Two lists of different vertices, equally long, out of rows in host memory, as trainers share them: *sampled*, the
inputs of a mini-batch in the order in which they first appear (the graph is random; its edges go to hot vertices,
which stand first, as in a layout), and *random*, any vertices in any order. Each way of loading_ways.py
gives the right rows once, bit for bit, before it is timed; then all take their turn within each round. Ratios are of
seconds to those of the plain copy in the same round, on the CPU with the same threads: 1 is the floor for whatever
comes from the host, and below it is only what the GPU has already. Ratios depend less on the machine than seconds do.

docs/formats.md has the keys of ``--json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Count, FanOut, Positive, Seed
from experiments.shared.loading_ways import COPY, Way, ways_of
from experiments.shared.results import printed, versions
from experiments.shared.rounds import cores, ratios, spread
from gsplit import cli
from gsplit.config.parallel import Device
from gsplit.device import accelerator
from gsplit.device.choice import choose_device
from gsplit.errors import InputError
from gsplit.features import HostRows
from gsplit.host import SharedBuffer
from gsplit.sampling import MiniBatchSampler

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
DEGREE = 20


@dataclass(frozen=True, kw_only=True)
class LoadingConfig(Flags):
    """How fast feature rows come from the host, beside a plain copy of as many bytes."""

    rows: Positive = 2_449_029
    """Rows on the host; those of ogbn-products by default."""
    width: Positive = 100
    """Features of a row."""
    batch_size: Positive = 2048
    """Targets of the mini-batch whose inputs are loaded; by default they are some quarter of all rows."""
    fan_out: FanOut = (20, 20)
    """Neighbours of the mini-batch drawn per hop."""
    rounds: Positive = 9
    """Rounds, in each of which every way loads each list once."""
    threads: Count = 0
    """Threads of the CPU that copy rows; 0 takes all cores. On the CPU one thread is tried as well."""
    device: Device = "auto"
    """Device that rows go to; auto is the GPU where there is one."""
    seed: Seed = 0
    """Seed of rows and lists."""
    quick: bool = False
    """200,000 rows, for half a minute."""


QUICK = LoadingConfig(rows=200_000, batch_size=256, rounds=15, quick=True)


def measure(config: LoadingConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    device = _device(config)
    config = replace(config, threads=config.threads or cores())
    about = {
        "device": accelerator.name_of(device),
        "versions": versions("numpy", "torch", "triton"),
        "settings": settings(config),
    }
    return {**about, "loads": list(loads_of(config, device))}


def loads_of(config: LoadingConfig, device: torch.device) -> Iterator[dict[str, Any]]:
    """``loads``, one after the other.

    Raises:
        InputError: where the host has no memory for the rows.
    """
    random = np.random.default_rng(config.seed)
    features = random.standard_normal((config.rows, config.width), dtype=np.float32)
    sampled = sampled_list(config)
    lists = {"sampled": sampled, "random": random.permutation(config.rows)[: len(sampled)]}
    for dtype in DTYPES:
        buffer = SharedBuffer("gsplit-loading")
        try:
            host = HostRows.shared(
                features, dtype, buffer, begin=0, end=config.rows, create=True, barrier=lambda: None
            )
        except MemoryError as error:
            raise InputError(f"no memory for {config.rows:,} rows: {error}; use fewer --rows") from None
        finally:
            buffer.close()  # what is mapped stays
        for name, ids in lists.items():
            ways = ways_of(host, ids, device, config.threads)
            for _ in range(config.rounds):
                for way in ways:
                    way.round(device)
            num_bytes = len(ids) * host.row_bytes
            yield {
                "dtype": str(dtype).removeprefix("torch."),
                "list": name,
                "listed": len(ids),
                "bytes": num_bytes,
                "ways": [_record(way, ways, num_bytes) for way in ways],
            }


def sampled_list(config: LoadingConfig) -> NDArray[np.int64]:
    """The inputs of a mini-batch on a graph in which every vertex has the same in-degree, and few have the most
    out-edges."""
    n, random = config.rows, np.random.default_rng(config.seed)
    indptr = np.arange(0, n * DEGREE + 1, DEGREE)
    indices = np.square(random.random(n * DEGREE, dtype=np.float32))
    indices *= n
    neighbours = np.minimum(indices.astype(np.int32), n - 1)
    sampler = MiniBatchSampler(indptr, neighbours, [0, n], fan_outs=config.fan_out, seed=config.seed)
    targets = random.permutation(n)[: config.batch_size]
    sampler.sample(targets, epoch=0, batch=0)
    return sampler.segment(0).vertices.copy()


def _record(way: Way, ways: list[Way], num_bytes: int) -> dict[str, Any]:
    copies = {copy.threads: copy for copy in ways if copy.name == COPY}
    copy = copies.get(way.threads, copies[min(copies, key=lambda threads: threads or 0)])
    return printed(
        {
            "way": way.name,
            "threads": way.threads,
            **spread(way.seconds, "seconds"),
            "bytes_per_second": median(num_bytes / s for s in way.seconds),
            **spread(ratios(way.seconds, copy.seconds)),
            "ratio_of_least": min(way.seconds) / min(copy.seconds),
        }
    )


def settings(config: LoadingConfig) -> dict[str, Any]:
    names = ("rows", "width", "batch_size", "fan_out", "rounds", "threads", "seed", "quick")
    return {"dtypes": [str(dtype).removeprefix("torch.") for dtype in DTYPES]} | {
        name: getattr(config, name) for name in names
    }


def _device(config: LoadingConfig) -> torch.device:
    kind = choose_device(config.device, trainers=1)
    return torch.device(kind) if kind == accelerator.HOST else torch.device(kind, 0)


command = Experiment("micro.loading", LoadingConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
