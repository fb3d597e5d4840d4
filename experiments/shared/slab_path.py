"""How much several sampler processes give: mini-batches a second through the whole slab path.

Samplers take tickets, sample, split and write into slots, as in training; what stands for the trainers reads the
headers and lets go of the slots. Numbers of samplers take turns; of each run the first mini-batches, which touch maps
and slots for the first time, do not count.
"""

from __future__ import annotations

import multiprocessing.connection
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from experiments.shared.rounds import ratios, spread
from gsplit.data import Layout
from gsplit.sampling import Neighbours, Segment
from gsplit.supply.pool import SamplerPool
from gsplit.supply.ring import Handle, LettingGo, Ring
from gsplit.supply.sampler_process import SamplerSpec
from gsplit.supply.tickets import Position, tickets

WARM_UP = 2
"""Mini-batches of each sampler that do not count."""
COUNTED = 6
"""Mini-batches of each sampler that do."""
PATIENCE_S = 300.0


def slab_path(
    layout: Layout, samplers: Sequence[int], *, fan_out: tuple[int, ...], batch_size: int, rounds: int, seed: int
) -> list[dict[str, Any]]:
    """A row for each number of samplers: medians over the rounds, and the ratio to the first number, by round."""
    spec = SamplerSpec(
        layout=layout.path,
        rule=Neighbours(fan_out=fan_out),
        batch_size=batch_size,
        seed=seed,
        edge_ids=False,
        memory=1 << 40,
        threads=1,
    )
    rates: dict[int, list[tuple[float, float]]] = {number: [] for number in samplers}
    for _ in range(rounds):
        for number in samplers:
            rates[number].append(_run(spec, layout, number))
    first = [batches for batches, _ in rates[samplers[0]]]
    rows = []
    for number, measured in rates.items():
        rows.append(
            {
                "samplers": number,
                "batch_size": batch_size,
                "mini_batches_per_second": median(batches for batches, _ in measured),
                "edges_per_second": median(edges for _, edges in measured),
                **spread(ratios((batches for batches, _ in measured), first)),
            }
        )
    return rows


def _run(spec: SamplerSpec, layout: Layout, samplers: int) -> tuple[float, float]:
    """Mini-batches and edges a second of one run."""
    num_batches = max(1, len(layout.graph.train_idx) // spec.batch_size)  # whole ones, as often as it takes
    warm_up, total = WARM_UP * samplers, (WARM_UP + COUNTED) * samplers
    return through_slots(
        spec, layout, num_batches, warm_up=warm_up, total=total, samplers=samplers, slots=2 * samplers + 1
    )


def through_slots(
    spec: SamplerSpec, layout: Layout, num_batches: int, *, warm_up: int, total: int, **options: int
) -> tuple[float, float]:
    """Mini-batches and edges a second of a run, read as trainers read them.

    Args:
        spec: of the samplers.
        layout: that they sample from.
        num_batches: of an epoch; there are as many epochs as it takes.
        warm_up: mini-batches that do not count, the first ones.
        total: mini-batches that are read, the first ones among them.
        options: ``samplers``, ``slots`` and others of :class:`SamplerPool`.
    """
    arrived: list[Handle] = []
    pool = SamplerPool(
        spec,
        tickets(num_batches, -(-total // num_batches), Position()),
        readers=1,
        finished=arrived.extend,
        max_restarts=0,
        **options,
    )
    edges, read, start_s, done = 0, 0, 0.0, LettingGo()
    try:
        ring = Ring(pool.slots)
        while read < total:
            attend(pool)
            for handle in arrived:
                read += 1
                if read > warm_up:
                    edges += sum(Segment(ring.read(handle, rank)).num_edges for rank in range(layout.parts))
                _let_go(pool, handle, done)
                if read == warm_up:
                    start_s = time.perf_counter()
            arrived.clear()
        seconds = time.perf_counter() - start_s
    finally:
        pool.end()
    return (read - warm_up) / seconds, edges / seconds


def reports_of(spec: SamplerSpec, num_batches: int, *, bulk: int) -> int:
    """How many messages a sampler needs to tell of an epoch; each is answered by one assignment."""
    reports: list[int] = []
    arrived: list[Handle] = []

    def finished(handles: tuple[Handle, ...]) -> None:
        reports.append(len(handles))
        arrived.extend(handles)

    pool = SamplerPool(
        spec,
        tickets(num_batches, 1, Position()),
        samplers=1,
        slots=2,
        readers=1,
        finished=finished,
        max_restarts=0,
        bulk=bulk,
        epoch=num_batches,
    )
    done = LettingGo()
    try:
        while sum(reports) < num_batches:
            attend(pool)
            for handle in arrived:
                _let_go(pool, handle, done)
            arrived.clear()
    finally:
        pool.end()
    return len(reports)


def _let_go(pool: SamplerPool, handle: Handle, done: LettingGo) -> None:
    """What the only reader of a mini-batch does when it has read it."""
    if done.of(handle):
        assert handle.slot is not None
        pool.released(handle.slot)


def attend(pool: SamplerPool) -> None:
    """What the launcher does while trainers train: wait for a word of the samplers, and see to it."""
    ready = multiprocessing.connection.wait(pool.files(), PATIENCE_S)
    if not ready:
        raise RuntimeError(f"no sampler said anything for {PATIENCE_S:.0f} s")
    for file in ready:
        pool.ready(file)  # type: ignore[arg-type]
