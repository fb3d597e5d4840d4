"""``--check-model``: does a model compute with two trainers what it computes with one?

One mini-batch, in float64 and with dropout off: loss and gradients of two trainers that split it, beside those of one
that has it whole (law 2). A model whose layers look further than their in-edges, their sources and their own row
gives other gradients, whatever its layers are called.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._VF
from torch import Tensor, nn

from gsplit.data import Layout, open_layout
from gsplit.errors import InputError
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.nn import ExchangeCounters, Lane, blocks_of
from gsplit.parallel import Worker, reduce_gradients, rendezvous, start
from gsplit.parallel.group import joined
from gsplit.sampling import EpochPlan, MiniBatchSampler
from gsplit.train import custom, models
from gsplit.train.config import TrainConfig
from gsplit.train.feed import labels_of
from gsplit.train.loop import check_logits, mini_batch_loss
from gsplit.train.task import task_of

TRAINERS = 2
TOLERANCE = 1e-8
"""Of the difference, relative to the gradient; where models can be split, 1e-14 is seen."""
NEGLIGIBLE = 1e-3
"""A gradient smaller than this share of the largest one is measured by the largest: it may be rounding alone."""
DROPOUTS = tuple(
    kind + place for kind in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
    for place in ("", "_")
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CheckJob:
    """What the two processes are told."""

    config: TrainConfig
    layout: Path
    port: int
    pickled_model: bytes
    name: str


def check_model(layout: Layout, config: TrainConfig, model: nn.Module) -> str:
    """Compare two trainers with one, on the CPU.

    Returns:
        A line that says how well they agree.

    Raises:
        InputError: where they do not: the model cannot be split.
    """
    with rendezvous(TRAINERS) as port:
        job = CheckJob(
            config=config, layout=layout.path, port=port, pickled_model=custom.pickled(model),
            name=type(model).__name__,
        )  # fmt: skip
        return start(_compare, TRAINERS, job).join()[0]


def _compare(rank: int, job: CheckJob) -> str | None:
    """In each process: the split mini-batch together, then, in process 0, the whole one alone."""
    with joined(rank, TRAINERS, job.port, "cpu", threads=1) as worker, _dropout_off():
        together = _gradients(job, worker)
        if rank != 0:
            return None
        alone = _gradients(job, Worker(rank=0, world=1, device=worker.device))
    largest = max(_size(gradient) for gradient in alone.values())
    if largest == 0:
        raise InputError(f"the model {job.name} has no gradient at all: its output does not depend on its parameters")
    worst, error = max(
        (
            (
                name,
                (together[name] - alone[name]).norm().item() / max(alone[name].norm().item(), NEGLIGIBLE * largest),
            )
            for name in alone
        ),
        key=lambda pair: pair[1],
    )
    if not error <= TOLERANCE:
        raise InputError(
            f"the model {job.name} cannot be split: the gradient of {worst} differs by {100 * error:.2g} % between "
            "two trainers and one; an output must depend on its in-edges, its sources and its own row alone, and not "
            "on chance but for dropout"
        )
    return (
        f"{job.name} can be split: the gradients of two trainers and of one differ by {error:.0e} at most, in "
        "float64 and without dropout"
    )


def _size(gradient: Tensor) -> float:
    """The norm; infinite where any value is not a number, so that max() sees it."""
    norm = gradient.norm().item()
    return math.inf if math.isnan(norm) else norm


def _gradients(job: CheckJob, worker: Worker) -> dict[str, Tensor]:
    """Of every parameter, on the first mini-batch of the run."""
    config, layout = job.config, open_layout(job.layout, trusted=True)
    graph = layout.graph
    assert graph.features is not None
    user_model: nn.Module = pickle.loads(job.pickled_model)
    model = custom.prepare(user_model.double()).train()
    edges = EdgeLoader(graph, device=worker.device, dtype=torch.float64, **models.needs(model))
    plan = EpochPlan(graph.train_idx, layout.permutation, config.batch_size, config.seed)
    batch, targets = next(plan.batches(0))
    sampler = MiniBatchSampler(
        graph.indptr, graph.indices, _offsets(layout, worker.world), fan_outs=config.fan_out, seed=config.seed,
        global_ids=layout.permutation, edge_ids=edges.weights,
    )  # fmt: skip
    sampler.sample(targets, epoch=0, batch=batch)
    segment = sampler.segment(worker.rank)
    loader = FeatureLoader(
        HostRows(graph.features), device=worker.device, dtype=torch.float64, normalize=config.normalize_features,
        threads=1,
    )  # fmt: skip
    labels = labels_of(layout, segment, worker.device)

    lane = Lane(worker.group, ExchangeCounters(), worker.device) if worker.world > 1 else None
    blocks = blocks_of(segment, worker.device, lane, **edges.load(segment))
    logits = model(blocks, loader.load(segment.vertices))
    check_logits(logits, len(labels), graph.num_classes)
    loss = mini_batch_loss(task_of(graph.multi_label), logits, labels, segment.num_targets)
    (loss if lane is None else lane.tie(loss)).backward()
    trained = {name: p for name, p in user_model.named_parameters() if p.requires_grad}
    if lane is not None:
        reduce_gradients(list(trained.values()), loss, worker)
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in trained.items()}


def _offsets(layout: Layout, world: int) -> list[int]:
    """The whole graph for one trainer; for two, the parts of the layout in two halves."""
    n = layout.graph.num_vertices
    if world == 1:
        return [0, n]
    return [0, int(layout.offsets[layout.parts // 2]) if layout.parts > 1 else n // 2, n]


@contextmanager
def _dropout_off() -> Iterator[None]:
    """Dropout keeps everything: patched where all its forms, modules and functions, end up."""

    def keep(input: Tensor, *_: Any) -> Tensor:
        return input

    with ExitStack() as patches:
        for name in DROPOUTS:
            patches.enter_context(mock.patch.object(torch._VF, name, keep))
        yield
