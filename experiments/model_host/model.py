"""Seconds of an epoch from counts and rates: a model of this engine on a host, not a measurement.

Assumptions, beside those of :mod:`experiments.model_host.layers` (what is computed) and
:mod:`experiments.model_host.pipeline` (what overlaps):

- *sample*: edges over the rate of a sampler; all strategies have the same samplers.
- *load*, ahead of computing: the segment and the rows from the host come one after the other over the trainer's share
  of its bus, all trainers at once; the memory of the host is read once for each byte, and bounds them together. Rows
  of peers are read by kernels at one rate, whichever peer has them. Rows of the own cache are read and written once.
- *compute*: an operation takes its latency, and its bytes over the memory's rate or its FLOP over the FLOP rate,
  whichever is longer. Trainers of a group wait for each other at every exchange, groups at the reduction.
- *exchange*, in line with computing: the slowest pair, or the trainer that sends or receives most, whichever is
  longer, and one latency, since the messages of an exchange leave together; backward as forward.
- *reduce*: a ring, 2 (P - 1) steps of 1 / P of the gradients.
- Over several hosts of one kind gradients are summed on each, then by a ring of hosts, each of which sends at the
  rate of its card (``nic``) while it receives. An exchange takes as long as that within hosts, or as that of the card
  which sends or receives most, whichever is longer.
- Neither the optimiser's step nor evaluation is in it, nor Python. Caches are filled before, and rows of 25 % of a
  graph are assumed to fit on a device.
- Where trainers compute on cores that samplers and feeds share (``cores`` of the host), an epoch takes no less than
  all their seconds together over the number of cores. An exchange keeps all cores of its trainers busy.

``in_sequence_s`` is loading and computing one after the other, sampling aside: how the paper's systems work (its
section 5.2), and what its figures 6 and 7 show. ``epoch_s`` is with the overlap of this engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import mul
from typing import TypeVar

from experiments.model_host.counts import Counted, LayerCount, TrainerCount
from experiments.model_host.layers import Layer, Operation
from experiments.model_host.pipeline import steady_seconds
from experiments.model_host.rates import Host
from experiments.shared.traffic import FLOAT32_BYTES

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Predicted seconds of an epoch of one strategy. Stages are summed over mini-batches."""

    sample_s: float
    """Sampling, with all samplers at work."""
    load_s: float
    """Loading, of the slowest trainer of each mini-batch."""
    compute_s: float
    exchange_s: float
    """Exchanges, forward and backward."""
    reduce_s: float
    epoch_s: float
    in_sequence_s: float

    @property
    def load_share(self) -> float:
        """Share of loading in an epoch without overlap."""
        return self.load_s / self.in_sequence_s


def predict(
    counted: Counted,
    layers: Sequence[Layer],
    host: Host,
    *,
    row_bytes: int,
    epochs: float,
    hosts: int = 1,
    averaged: int = 1,
) -> Prediction:
    """The epoch of one strategy on a host, or on several of one kind.

    Args:
        counted: its counts.
        layers: of the model.
        host: the rates.
        row_bytes: of a feature row.
        epochs: share of an epoch's targets that were counted.
        hosts: that the trainers are on; each samples for its own.
        averaged: as :func:`experiments.model_host.pipeline.steady_seconds`'s.
    """
    group = counted.strategy.group
    samplers = int(host.samplers.rate)
    by_host = [cut(mini, hosts) for mini in counted.mini_batches]
    samples = [max(sum(trainer.edges for trainer in own) for own in each) / host.sampling.rate for each in by_host]
    loads_by_host = [[load_seconds(own, host, row_bytes) for own in each] for each in by_host]
    loads = [list(chain.from_iterable(each)) for each in loads_by_host]
    steps = [step_seconds(mini, layers, host, group, hosts) for mini in counted.mini_batches]
    reduce_s = reduce_seconds(layers, host, trainers=len(by_host[0][0]), hosts=hosts)
    computes = [compute_s + exchange_s + reduce_s for compute_s, exchange_s in steps]
    epoch_s = steady_seconds(samples, loads, computes, samplers=samplers, averaged=averaged)
    if host.cores is not None:
        loads_s = sum(max(map(sum, each)) for each in loads_by_host)
        busy_s = sum(samples) + loads_s + len(by_host[0][0]) * sum(computes)
        epoch_s = max(epoch_s, busy_s / host.cores.rate)
    load_s = sum(map(max, loads))
    return Prediction(
        sample_s=sum(samples) / samplers / epochs,
        load_s=load_s / epochs,
        compute_s=sum(compute_s for compute_s, _ in steps) / epochs,
        exchange_s=sum(exchange_s for _, exchange_s in steps) / epochs,
        reduce_s=len(steps) * reduce_s / epochs,
        epoch_s=epoch_s / epochs,
        in_sequence_s=(load_s + sum(computes)) / epochs,
    )


def cut(of_trainers: Sequence[T], hosts: int) -> list[Sequence[T]]:
    """What trainers have, by host."""
    here = len(of_trainers) // hosts
    return [of_trainers[at : at + here] for at in range(0, len(of_trainers), here)]


def load_seconds(mini_batch: Sequence[TrainerCount], host: Host, row_bytes: int) -> list[float]:
    """[P] seconds until each trainer has its segment and its feature rows."""
    from_host = [trainer.segment_bytes + trainer.loads.host_rows * row_bytes for trainer in mini_batch]
    at_least = sum(from_host) / host.host_memory.rate
    bus = host.host_bus.rate / host.gpus_per_bus.rate
    seconds = []
    for trainer, num_bytes in zip(mini_batch, from_host, strict=True):
        loads = trainer.loads
        copies = 1 + (loads.host_rows > 0)
        load_s = copies * host.copy_latency.rate + max(num_bytes / bus, at_least)
        if loads.peer_rows:
            if host.peer_read is None:
                raise ValueError(f"devices of {host.name} cannot read each other's memory")
            load_s += host.operation_latency.rate + loads.peer_rows * row_bytes / host.peer_read.rate
        if loads.hit_rows:
            cached = Operation(num_bytes=2 * loads.hit_rows * row_bytes)
            load_s += operation_seconds(cached, host)
        seconds.append(load_s)
    return seconds


def operation_seconds(operation: Operation, host: Host) -> float:
    """Seconds of an operation on a device."""
    moving_s = operation.num_bytes / host.device_memory.rate
    return host.operation_latency.rate + max(moving_s, operation.flops / host.device_flops.rate)


def step_seconds(
    mini_batch: Sequence[TrainerCount], layers: Sequence[Layer], host: Host, group: int, hosts: int = 1
) -> tuple[float, float]:
    """Seconds of forward and backward of all layers, and those of exchanges, of the slowest group."""
    groups = cut(mini_batch, len(mini_batch) // group)
    of_group = max(1, hosts * group // len(mini_batch))
    return max((_of_group(trainers, layers, host, of_group) for trainers in groups), key=sum)


def _of_group(
    trainers: Sequence[TrainerCount], layers: Sequence[Layer], host: Host, hosts: int
) -> tuple[float, float]:
    """The same of one group, which is on so many hosts."""
    if len(trainers) == 1:
        return sum(operation_seconds(op, host) for op in _operations(trainers[0], layers)), 0.0
    compute_s = exchange_s = 0.0
    for at, layer in enumerate(layers):
        counts = [trainer.layers[at] for trainer in trainers]
        for ways in (layer.forward, layer.backward):
            compute_s += max(sum(operation_seconds(op, host) for op in ways(count)) for count in counts)
        exchange_s += (1 + layer.returns) * exchange_seconds(counts, layer.message_width, host, hosts)
    return compute_s, exchange_s


def _operations(trainer: TrainerCount, layers: Sequence[Layer]) -> list[Operation]:
    pairs = zip(layers, trainer.layers, strict=True)
    return [op for layer, count in pairs for op in (*layer.forward(count), *layer.backward(count))]


def operations_of(counted: Counted, layers: Sequence[Layer]) -> list[Operation]:
    """All operations of all trainers."""
    return [op for trainer in counted.every for op in _operations(trainer, layers)]


def exchange_seconds(counts: Sequence[LayerCount], width: int, host: Host, hosts: int = 1) -> float:
    """Seconds of one exchange, one way, between the trainers of a group; float32 rows of so many columns."""
    row_bytes = width * FLOAT32_BYTES
    sent, far_sent = near_and_far([count.sent_rows for count in counts], hosts)
    received, far_received = near_and_far([count.received_rows for count in counts], hosts)
    pair_s = max(map(max, sent)) * row_bytes / host.peer_pair.rate
    device_s = max(map(sum, (*sent, *received))) * row_bytes / host.peer_device.rate
    inside_s = host.message_latency.rate + max(pair_s, device_s)
    return max(inside_s, between_seconds(max(*far_sent, *far_received) * row_bytes, host)) if hosts > 1 else inside_s


def near_and_far(rows: Sequence[Sequence[int]], hosts: int) -> tuple[list[Sequence[int]], list[int]]:
    """Rows between the trainers of each host, by trainer; and those of each host with all others.

    Args:
        rows: [K][K] of each trainer with each.
        hosts: that they are on.
    """
    if hosts == 1:
        return [*rows], [0]
    here = len(rows) // hosts
    near = [rows[at][at // here * here :][:here] for at in range(len(rows))]
    far = [sum(all_rows) - sum(own) for all_rows, own in zip(rows, near, strict=True)]
    return near, [sum(own) for own in cut(far, hosts)]


def between_seconds(num_bytes: float, host: Host) -> float:
    """Seconds of what a host sends others at a time."""
    assert host.nic
    assert host.nic_latency
    return host.nic_latency.rate + num_bytes / host.nic.rate


def reduce_seconds(layers: Sequence[Layer], host: Host, *, trainers: int, hosts: int = 1) -> float:
    """Seconds of summing the gradients, and the loss, over all trainers, so many on each host."""
    num_bytes, seconds = reduced_bytes(layers), 0.0
    if trainers > 1:
        seconds = 2 * (trainers - 1) * (host.message_latency.rate + num_bytes / trainers / host.peer_pair.rate)
    return seconds + (2 * (hosts - 1) * between_seconds(num_bytes / hosts, host) if hosts > 1 else 0.0)


def reduced_bytes(layers: Sequence[Layer]) -> int:
    """Bytes of gradients and loss that each trainer gives."""
    return FLOAT32_BYTES * (sum(layer.parameters for layer in layers) + 1)


def exchanged_bytes(counted: Counted, layers: Sequence[Layer]) -> int:
    """Bytes that trainers send each other before layers, forward and backward."""
    return sum(
        trainer.layers[at].sent * layer.message_width * FLOAT32_BYTES * (1 + layer.returns)
        for trainer in counted.every
        for at, layer in enumerate(layers)
    )


def bytes_between(counted: Counted, layers: Sequence[Layer], hosts: int) -> tuple[int, int]:
    """Bytes that hosts send each other, as a run counts them: of gradients, with loss and vote to stop; of rows."""
    reduced = len(counted.mini_batches) * 2 * (hosts - 1) * (reduced_bytes(layers) + FLOAT32_BYTES)
    if counted.strategy.group * hosts <= len(counted.mini_batches[0]):
        return reduced, 0
    rows = [
        sum(
            sum(near_and_far([trainer.layers[at].sent_rows for trainer in mini], hosts)[1])
            for mini in counted.mini_batches
        )
        for at in range(len(layers))
    ]
    widths = [layer.message_width * (1 + layer.returns) for layer in layers]
    return reduced, FLOAT32_BYTES * sum(map(mul, rows, widths))
