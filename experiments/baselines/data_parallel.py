"""Data parallelism as the multi-GPU examples of DGL and PyG have it: a process a trainer, gloo, PyTorch's DDP.

    python -m experiments.baselines.data_parallel FOLDER

``FOLDER/order.json`` says what to train (:class:`experiments.baselines.workload.Order`); ``FOLDER/outcome.json`` is
what it gave. :mod:`experiments.compare` writes the one and reads the other.

DDP reduces gradients inside ``backward``. A communication hook, which does what DDP does without one, takes the time
from the moment when the last bucket of gradients is complete to its sum's arrival: *reducing*, which is not counted
as computing. Buckets before the last one travel while backward still computes.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.baselines.workload import STAGES, Epoch, Order, Outcome, Setting, Workload

MODULES = {
    "dgl": "experiments.baselines.dgl_training",
    "dgl subgraphs": "experiments.baselines.dgl_subgraphs",
    "pyg": "experiments.baselines.pyg_training",
    "pyg ways": "experiments.baselines.pyg_ways",
    "whole graph": "experiments.baselines.whole_graph",
}
"""System -> the module whose ``make(workload, setting, rank)`` gives a :class:`Baseline`."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A mini-batch with its feature rows."""

    arguments: tuple[Any, ...]
    """What the model is called with; logits of the targets come first in what it returns, or are all of it."""
    labels: Tensor
    """int64 [targets]"""
    edges: int
    """Edges that the model computes, all layers."""
    input_rows: int
    input_bytes: int


class Baseline(Protocol):
    """One trainer's side of a system."""

    model: nn.Module
    ahead: bool
    """Whether other processes sample: the time to the next mini-batch is waiting then."""
    outside: bool
    """Whether sampling is no part of the epoch: the clock stands still meanwhile."""

    def fault(self) -> str | None:
        """What is wrong with the first mini-batches; None where they are samples."""

    def batches(self, epoch: int) -> Iterator[Any]:
        """The mini-batches of an epoch, as many on every trainer."""

    def load(self, batch: Any) -> Loaded:
        """The same with features and labels."""

    def logits(self) -> Tensor:
        """[N, C] of all vertices, over all neighbours; the model is in evaluation mode."""

    def vertex_sets(self) -> dict[str, tuple[Tensor, Tensor]]:
        """(vertices, labels) of ``valid`` and ``test``."""


Make = Callable[[Workload, Setting, int], Baseline]


class Reducer:
    """Sums gradients as DDP does by itself, and knows how long trainers waited for the sums."""

    def __init__(self, model: nn.parallel.DistributedDataParallel) -> None:
        self.seconds = 0.0
        self.num_bytes = 0

        def reduce(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
            return self._reduce(bucket)

        reduce.__annotations__.clear()  # DDP wants none or the classes themselves, and here they are strings
        model.register_comm_hook(None, reduce)

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        start_s = time.perf_counter()
        last, gradients = bucket.is_last(), bucket.buffer().div_(dist.get_world_size())
        self.num_bytes += gradients.nbytes
        work = dist.all_reduce(gradients, async_op=True)
        assert work is not None

        def done(future: torch.futures.Future[list[Tensor]]) -> Tensor:
            if last:
                self.seconds += time.perf_counter() - start_s
            return future.value()[0]

        return work.get_future().then(done)


class StageClock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._last_s = time.perf_counter()

    def lap(self, stage: str | None) -> None:
        """Count the time since the last call to a stage, or to none."""
        now_s = time.perf_counter()
        if stage is not None:
            self.seconds[stage] += now_s - self._last_s
        self._last_s = now_s


def train_epoch(
    baseline: Baseline,
    model: nn.parallel.DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    reducer: Reducer,
    epoch: int,
    *,
    mixed: bool,
) -> Epoch:
    """One epoch of this trainer."""
    reducer.seconds, reducer.num_bytes = 0.0, 0
    edges = input_rows = input_bytes = targets = 0
    loss_sum = 0.0
    model.train()
    dist.barrier()
    start_s, clock = time.perf_counter(), StageClock()
    batches = baseline.batches(epoch)
    next_stage = None if baseline.outside else "waiting" if baseline.ahead else "sampling"
    while True:
        batch = next(batches, None)
        if baseline.outside:
            dist.barrier()  # or the trainer that sampled faster would wait where gradients are reduced
        clock.lap(next_stage)
        if batch is None:
            break
        loaded = baseline.load(batch)
        clock.lap("loading")
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            logits = model(*loaded.arguments)[: len(loaded.labels)]
        loss = F.cross_entropy(logits.float(), loaded.labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss_sum += float(loss.detach()) * len(loaded.labels)
        targets += len(loaded.labels)
        clock.lap("computing")
        edges += loaded.edges
        input_rows += loaded.input_rows
        input_bytes += loaded.input_bytes
    seconds, stages = time.perf_counter() - start_s, clock.seconds
    stages["reducing"] = reducer.seconds
    stages["computing"] -= reducer.seconds
    return Epoch(
        seconds=sum(stages.values()) if baseline.outside else seconds,
        stages=stages,
        edges=edges,
        input_rows=input_rows,
        loaded_bytes=input_bytes,
        reduced_bytes=reducer.num_bytes,
        loss=loss_sum / max(1, targets),
    )


def together(epochs: list[Epoch]) -> Epoch:
    """An epoch of all trainers: the longest time, means of stages, sums of counts."""
    return Epoch(
        seconds=max(epoch.seconds for epoch in epochs),
        stages={name: mean(epoch.stages[name] for epoch in epochs) for name in STAGES},
        edges=sum(epoch.edges for epoch in epochs),
        input_rows=sum(epoch.input_rows for epoch in epochs),
        loaded_bytes=sum(epoch.loaded_bytes for epoch in epochs),
        reduced_bytes=sum(epoch.reduced_bytes for epoch in epochs),
        loss=mean(epoch.loss or 0.0 for epoch in epochs),
    )


def accuracies_of(baseline: Baseline) -> dict[str, float]:
    """Share of right classes among the vertices of each set, over all neighbours."""
    baseline.model.eval()
    with torch.no_grad():
        classes = baseline.logits().argmax(dim=1)
    return {
        name: float((classes[vertices] == labels).double().mean())
        for name, (vertices, labels) in baseline.vertex_sets().items()
        if len(vertices)
    }


def train(rank: int, folder: Path, make: Make | None = None) -> None:
    """The life of one trainer; ``make`` gives its side of a system that is not in :data:`MODULES`."""
    order = Order.read(folder)
    workload = order.workload
    torch.set_num_threads(workload.threads)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'rendezvous'}", rank=rank, world_size=workload.trainers
    )
    make = make or importlib.import_module(MODULES[order.system]).make
    seed_all(workload.seed)  # the same initial weights; DDP would broadcast them anyway
    baseline = make(workload, order.setting, rank)
    seed_all((workload.seed + 1) * 1000 + rank)
    if workload.check:
        fault = [baseline.fault() if rank == 0 else None]  # by one alone: corrupt blocks may crash the process
        dist.broadcast_object_list(fault, src=0)
        if fault[0] is not None:
            if rank == 0:
                Outcome(fault=fault[0]).write(folder / "outcome.json")
            leave()
    model = nn.parallel.DistributedDataParallel(baseline.model)
    reducer = Reducer(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=workload.lr, weight_decay=workload.weight_decay)
    epochs: list[Epoch] = []
    while not workload.ends_after(epochs):
        own = train_epoch(baseline, model, optimizer, reducer, len(epochs), mixed=workload.mixed)
        all_own: list[Any] = [None] * workload.trainers
        dist.all_gather_object(all_own, own)
        epoch = together(all_own)
        epochs.append(epoch)
        if workload.validates_after(epochs) and rank == 0:
            found = accuracies_of(baseline)
            epochs[-1] = replace(epoch, valid_accuracy=found.get("valid"), test_accuracy=found.get("test"))
    if rank == 0:
        Outcome(epochs=epochs).write(folder / "outcome.json")
    leave()


def leave() -> NoReturn:
    """End the processes together: gloo aborts one that takes its group down while its peer does, now and then."""
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def worker_processes(workers: int) -> dict[str, Any]:
    """Arguments of a DataLoader for so many workers.

    They are forked, as where nothing is said; in a process that was itself spawned they would be spawned as well, and
    take seconds to import their libraries in each epoch.
    """
    return {"num_workers": workers, **({"multiprocessing_context": "fork"} if workers else {})}


def seed_all(seed: int) -> None:
    """Seed all generators that the systems draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - what DGL's DataLoader shuffles with
    torch.manual_seed(seed)


def main(folder: Path) -> None:
    (folder / "rendezvous").unlink(missing_ok=True)
    trainers = Order.read(folder).workload.trainers
    torch.multiprocessing.spawn(train, args=(folder,), nprocs=trainers)


if __name__ == "__main__":
    os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main(Path(sys.argv[1]))
