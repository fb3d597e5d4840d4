"""The rates of this machine, by small micro-benchmarks in as many processes as there will be trainers, all at once.

- memory: rows read at random and written to memory that is mapped already, bytes read and written;
- FLOP: a product as narrow as the model's first;
- operations: one with a single number, recorded for backward;
- links: the engine's all-to-all, of one number and of 16 MB from each process to each other (gloo on a CPU);
- sampling: the project's sampler on the mini-batches that are counted, in this process alone.

Medians of ``ROUNDS``. They are rates of a moment: on a machine with other users they differ from run to run.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from experiments.model_host.rates import Host, host_of
from experiments.shared.placements import Placements

ROUNDS = 9
TABLE_ROWS, GATHERED_ROWS = 1_000_000, 200_000
MESSAGE_BYTES = 1 << 24
MANY = 200
SOURCE = "measured here"


def this_host(
    placements: Placements, batches: Sequence[int], *, trainers: int, widths: tuple[int, int], feature_width: int
) -> Host:
    """What this machine's devices, which are its cores, reach.

    Args:
        placements: whose mini-batches are sampled.
        batches: which of them, one at least.
        trainers: processes at once.
        widths: of the first layer's product.
        feature_width: columns of the rows that are loaded.
    """
    cores = len(os.sched_getaffinity(0))
    rates = machine_rates(trainers, max(1, cores // trainers), widths, feature_width)
    gather = rates["gather"]
    values = {
        "gpus": (trainers, "GPUs"),
        "device_memory": (gather / 1e9, "GB/s"),
        "device_flops": (rates["flops"] / 1e9, "GFLOP/s"),
        "operation_latency": (rates["operation_s"] * 1e6, "us"),
        "host_bus": (rates["load"] / 1e9, "GB/s"),
        "gpus_per_bus": (1, "GPUs"),
        "copy_latency": (rates["operation_s"] * 1e6, "us"),
        "host_memory": (trainers * rates["load"] / 1e9, "GB/s"),
        "peer_pair": (rates["pair"] / 1e9, "GB/s"),
        "peer_device": (rates["pair"] * max(1, trainers - 1) / 1e9, "GB/s"),
        "message_latency": (rates["message_s"] * 1e6, "us"),
        "samplers": (max(1, min(cores - trainers, 2 * trainers)), "samplers"),
        "sampling": (sampling_rate(placements, batches) / 1e6, "M edges/s"),
        "cores": (cores, "cores"),
    }
    tables = {key: {"value": value, "unit": unit, "source": SOURCE} for key, (value, unit) in values.items()}
    return host_of({"name": f"this machine: {cores} cores, {trainers} trainers on them", **tables})


def sampling_rate(placements: Placements, batches: Sequence[int]) -> float:
    """Edges a second of one sampler: sampled, split and written; the first mini-batch warms up."""
    place = placements.ways()["splits"]
    place(batches[0])
    rates = []
    for batch in batches:
        start_s = time.perf_counter()
        edges = sum(segment.num_edges for segment in place(batch))
        rates.append(edges / (time.perf_counter() - start_s))
    return median(rates)


def machine_rates(trainers: int, threads: int, widths: tuple[int, int], feature_width: int) -> dict[str, float]:
    """Rates of the machine: ``gather``, ``load`` and ``pair`` in bytes a second, ``flops``; seconds where named so.

    The slowest of the processes counts: mini-batches wait for it.
    """
    from gsplit.parallel import rendezvous

    spawning = multiprocessing.get_context("spawn")
    with rendezvous(trainers) as port, ProcessPoolExecutor(trainers, spawning) as pool:
        jobs = [
            pool.submit(_rates_of_one, rank, trainers, port, threads, widths, feature_width)
            for rank in range(trainers)
        ]
        found = [job.result() for job in jobs]
    return {name: (max if name.endswith("_s") else min)(rates[name] for rates in found) for name in found[0]}


def _rates_of_one(
    rank: int, world: int, port: int, threads: int, widths: tuple[int, int], feature_width: int
) -> dict[str, float]:
    import torch

    from gsplit.parallel.collectives import all_to_all, barrier
    from gsplit.parallel.join import joined

    width_in, width_out = widths
    with joined(rank, world, port, "cpu", threads) as member:

        def seconds(call: Callable[[], object]) -> float:
            call()
            taken = []
            for _ in range(ROUNDS):
                barrier(member.group)
                start_s = time.perf_counter()
                call()
                taken.append(time.perf_counter() - start_s)
            return median(taken)

        def gathering(width: int) -> float:
            """Bytes a second that a gather of rows reads and writes."""
            table = torch.ones(TABLE_ROWS * 16 // max(16, width), width)
            wanted, out = torch.randint(len(table), (GATHERED_ROWS,)), torch.empty(GATHERED_ROWS, width)
            return 2 * out.nbytes / seconds(lambda: torch.index_select(table, 0, wanted, out=out))

        def exchange(rows: int) -> float:
            """Seconds until each process has so many numbers from each other."""
            counts = [0 if peer == rank else rows for peer in range(world)]
            sent, received = torch.ones(sum(counts)), torch.empty(sum(counts))
            return seconds(lambda: all_to_all(received, sent, counts, counts, member.group))

        x, weight = torch.ones(GATHERED_ROWS, width_in), torch.ones(width_in, width_out)
        product = torch.empty(GATHERED_ROWS, width_out)
        one = torch.ones(1, requires_grad=True)
        message_s = exchange(1)
        numbers = MESSAGE_BYTES // 4
        return {
            "gather": gathering(min(widths)),
            "load": gathering(feature_width) / 2,  # a byte of a feature row is read and written
            "flops": 2 * GATHERED_ROWS * width_in * width_out / seconds(lambda: torch.mm(x, weight, out=product)),
            "operation_s": seconds(lambda: [one * 2 for _ in range(MANY)]) / MANY,
            "message_s": message_s,
            "pair": MESSAGE_BYTES / max(exchange(numbers) - message_s, 1e-9) if world > 1 else 1e12,
        }
