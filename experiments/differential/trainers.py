"""Three trainers that stay for all models; two of them make a world of their own."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import pickle
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from experiments.differential.whole import LEARNING_RATE, Step
from gsplit.data import open_layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.evaluator import Evaluator
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.objective import mini_batch_loss, objective_of
from gsplit.engine.rows.shared import Shared
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.models.prepared import prepare
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.parallel import Member, reduce_gradients, rendezvous, trainer_grid, with_checker
from gsplit.parallel.join import joined
from gsplit.processes import start
from gsplit.sampling import sampler_of

SIZE = 3
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Order:
    """What trainers are told of a model."""

    layout: Path
    model: bytes
    """Pickled, as the user has it."""
    targets: NDArray[np.int64]
    """Global ids."""
    layers: int
    dtype: torch.dtype


class TrainerFailed(Exception):
    """What a trainer raised, in a line."""


class Trainers:
    """Spawns them when they are first needed, and again after one has failed and left the others waiting."""

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._pipes: list[Connection] = []

    def __enter__(self) -> Trainers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipes = []
        self._open.close()

    def step(self, world: int, order: Order) -> list[Step]:
        """The step of each of ``world`` trainers; only that of the first has logits.

        Raises:
            TrainerFailed: where one fails, or they do not answer in time.
        """
        if not self._pipes:
            self._spawn()
        waiting = {pipe: rank for rank, pipe in enumerate(self._pipes[:world])}
        for pipe in waiting:
            pipe.send((world, order))
        steps: dict[int, Step] = {}
        deadline_s = time.monotonic() + PATIENCE_S
        while waiting:
            ready: list[Any] = multiprocessing.connection.wait(list(waiting), max(0.0, deadline_s - time.monotonic()))
            if not ready:
                self.__exit__()
                raise TrainerFailed(f"no answer within {PATIENCE_S:g} s")
            for pipe in ready:
                rank, answer = waiting.pop(pipe), pickle.loads(pipe.recv_bytes())
                if not isinstance(answer, Step):
                    self.__exit__()
                    raise TrainerFailed(f"trainer {rank} of {world}: {answer}")
                steps[rank] = answer
        return [steps[rank] for rank in range(world)]

    def _spawn(self) -> None:
        port = self._open.enter_context(rendezvous(SIZE))
        shared = Shared.create(SIZE)
        self._open.callback(shared.close)
        pairs = [multiprocessing.Pipe() for _ in range(SIZE)]
        children = start(_serve, SIZE, port, shared, own=[theirs for _, theirs in pairs])
        self._open.callback(children.end)
        self._pipes = [ours for ours, _ in pairs]


def quiet() -> None:
    """Leave out what libraries, and evaluation, say of models one by one."""
    warnings.filterwarnings("ignore", category=UserWarning)
    logging.disable(logging.WARNING)


def _serve(rank: int, port: int, shared: Shared, pipe: Connection) -> None:
    quiet()
    with joined(rank, SIZE, port, "cpu", threads=1) as member:
        groups = {world: dist.new_group(list(range(world))) for world in range(1, SIZE + 1)}
        while True:
            try:
                world, order = pipe.recv()
            except EOFError:
                return
            try:
                answer: Step | str = train(replace(member, world=world, group=groups[world]), order, shared)
            except Exception as error:
                answer = f"{type(error).__name__}: {' '.join(str(error).split())}"
            pipe.send_bytes(pickle.dumps(answer))  # as bytes: tensors would travel as open files


def train(member: Member, order: Order, shared: Shared) -> Step:
    """A step on all neighbours of the targets, split, and the exact logits of all vertices after it."""
    layout = open_layout(order.layout, trusted=True)
    member = with_checker(member.on(trainer_grid(member.world)), shared.checker)
    user_model = pickle.loads(order.model).to(order.dtype)
    model, needs = prepare(user_model)
    model.train()
    graph, objective = layout.graph, objective_of(layout.graph.task, layout.graph.num_classes)
    assert graph.features is not None
    edges = EdgeLoader(graph, device=member.device, dtype=order.dtype, **needs)
    rows = FeatureLoader(
        HostRows(graph.features), device=member.device, dtype=order.dtype, normalize=False, threads=1
    )
    loader = SplitLoader(layout, member.device, rows, edges)
    targets = np.argsort(layout.permutation)[order.targets]
    sampler = sampler_of(layout, layout.offsets, fan_outs=[-1] * order.layers, seed=0, edge_ids=edges.weights)
    sampler.sample(targets, epoch=0, batch=0)
    segment = sampler.segment(member.rank)
    comm = BatchComm(member.group, ExchangeCounters(), member.device, everyone=member.group, checker=member.checker)
    blocks, x = loader.inputs(segment, comm)
    loss = comm.tie(mini_batch_loss(objective, model(blocks, x), loader.labels(segment), segment.num_targets))
    loss.backward()
    trained = {name: p for name, p in user_model.named_parameters() if p.requires_grad}
    reduce_gradients(list(trained.values()), loss, member)
    gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in trained.items()}
    torch.optim.SGD(trained.values(), LEARNING_RATE).step()
    for buffer in _cleared(member, shared):
        buffer.clear()
    evaluator = Evaluator(
        layout,
        member,
        loader,
        objective,
        shared.levels,
        num_layers=order.layers,
        precision=Precision(dtype=order.dtype),
        threads=1,
    )
    logits = evaluator.all_logits(model)
    state = {name: value.clone() for name, value in user_model.state_dict().items()}
    return Step(gradients=gradients, state=state, logits=torch.empty(0) if logits is None else torch.tensor(logits))


def _cleared(member: Member, shared: Shared) -> Iterator[Any]:
    """The buffers of levels, which trainer 0 empties between two models."""
    member.barrier()
    if member.rank == 0:
        yield from shared.levels
    member.barrier()


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether all tensors are the same, bit for bit, NaN included."""
    return all(torch.equal(torch.nan_to_num(one[name]), torch.nan_to_num(other[name])) for name in one)
