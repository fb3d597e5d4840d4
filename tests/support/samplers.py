"""Sampler processes with a reader that is no trainer."""

from __future__ import annotations

import multiprocessing.connection
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gsplit.data import Layout
from gsplit.sampling import EpochPlan, MicroBatches, MiniBatchSampler, Neighbours, SamplerSpec
from gsplit.supply.pool import SamplerPool
from gsplit.supply.ring import Handle, LettingGo, Ring
from gsplit.supply.tickets import Position, tickets

PATIENCE_S = 60.0
BATCH_SIZE = 30
FAN_OUT = (5, 4)
SEED = 3
START = Position()


def micro_batches_of(layout: Layout, **spec) -> MicroBatches:
    """The micro-batches of a layout, sampled in this process."""
    return MicroBatches(layout, SamplerSpec(layout=layout.path, **{"edge_ids": False, **spec}))


@contextmanager
def pool_of(
    layout: Layout,
    finished: Callable[[tuple[Handle, ...]], None],
    *,
    epochs=2,
    samplers=2,
    slots=3,
    readers=1,
    max_restarts=3,
    start=START,
    bulk: int | None = 1,
    epoch=None,
    **spec,
) -> Iterator[SamplerPool]:
    description = {
        "layout": layout.path,
        "rule": Neighbours(fan_out=FAN_OUT),
        "batch_size": BATCH_SIZE,
        "seed": SEED,
        "edge_ids": False,
        "memory": 2**30,
        "threads": 1,
        **spec,
    }
    num_batches = description["rule"].num_batches(layout, batch_size=description["batch_size"])
    pool = SamplerPool(
        SamplerSpec(**description),
        tickets(num_batches, epochs, start),
        samplers=samplers,
        slots=slots,
        readers=readers,
        finished=finished,
        max_restarts=max_restarts,
        bulk=bulk,
        epoch=epoch,
    )
    try:
        yield pool
    finally:
        pool.end()


def attend(pool: SamplerPool, until: Callable[[], bool]) -> None:
    """The launcher's loop."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not until():
        ready = multiprocessing.connection.wait(pool.files(), max(0.0, deadline_s - time.monotonic()))
        assert ready, "no sampler said anything"
        for file in ready:
            pool.ready(file)


def all_segments(layout: Layout, **options) -> dict[tuple[int, int], list[bytes]]:
    """(epoch, batch) -> the segments of all splits, as sampler processes write them."""
    segments: dict[tuple[int, int], list[bytes]] = {}
    arrived: list[Handle] = []
    done = LettingGo()
    with pool_of(layout, arrived.extend, **options) as pool:
        ring = Ring(pool.slots)
        while not pool.done:
            attend(pool, lambda: bool(arrived) or pool.done)
            while arrived:
                handle = arrived.pop()
                read = [ring.read(handle, rank).tobytes() for rank in range(layout.parts)]
                segments[handle.ticket.epoch, handle.ticket.batch] = read
                if done.of(handle):
                    pool.released(handle.slot)
    return segments


def segments_sampled_here(layout: Layout, *, epochs=2, edge_ids=False) -> dict[tuple[int, int], list[bytes]]:
    """The same without a process."""
    graph = layout.graph
    sampler = MiniBatchSampler(
        graph.indptr,
        graph.indices,
        layout.offsets,
        fan_outs=FAN_OUT,
        seed=SEED,
        global_ids=layout.permutation,
        edge_ids=edge_ids,
    )
    plan = EpochPlan(graph.train_idx, layout.permutation, BATCH_SIZE, SEED)
    segments = {}
    for epoch in range(epochs):
        for batch, targets in plan.batches(epoch):
            sampler.sample(targets, epoch=epoch, batch=batch)
            segments[epoch, batch] = [sampler.segment(rank).data.tobytes() for rank in range(layout.parts)]
    return segments
