"""Whole training runs inside the pool of trainers, without starting a process."""

from __future__ import annotations

import json
import multiprocessing
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.engine.run import Run
from gsplit.engine.sampled import Sampled
from gsplit.host import SharedBuffer
from gsplit.launch.resolve import resolve
from gsplit.parallel.collectives import broadcast_object
from gsplit.sampling import MicroBatches
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.ring import Handle, Ring
from gsplit.supply.tickets import Position, tickets
from gsplit.train import loop
from gsplit.train.own_loop import NOTHING, train_by
from gsplit.train.summary import finish
from gsplit.train.trainer import Trainer
from support import pool as pool_module


def run_for(config: TrainConfig, world: int, model=None, resume=False) -> Run:
    """The run of trainers in the pool, which sample for themselves."""
    config.out.mkdir(parents=True, exist_ok=True)
    here = {"gpus": world, "samplers": 0, "threads": 1, "resume": config.out if resume else None}
    if model is not None:  # it has widths and dropout of its own
        here |= {name: getattr(TrainConfig(), name) for name in ("hidden", "dropout")}
    return resolve(replace(config, **here), model)


def trainer_of(member, config: TrainConfig, model=None, resume=False) -> Trainer:
    """This member's trainer of :func:`run_for`, which trainer 0 makes for all, as a launcher does."""
    found: Run | Exception | None = None
    if member.rank == 0:
        try:
            found = run_for(config, member.world, model, resume)
        except Exception as error:
            found = error
    found = broadcast_object(found, member.group)
    if isinstance(found, Exception):
        raise found
    return loop.ready(member, found, pool_module.SHARED)


def own_edges_alone(member, config):
    """Weights that are learned where edges into vertices of other grid rows lead to no vertex, and weigh nothing."""
    trainer = trainer_of(member, config)
    layout, rows = trainer.layout, trainer.member.grid.size("rows")
    own = np.repeat(np.arange(layout.parts), np.diff(layout.offsets)) * rows // layout.parts
    break_edges_into(layout.graph, own != trainer.member.coordinate("rows"))
    loop.train(trainer)
    return [parameter.detach() for parameter in trainer.model.parameters()]


def break_edges_into(graph, broken_N):
    """Let edges into some vertices, in this process, lead to no vertex that there is, and weigh no number."""
    broken, indices = np.repeat(broken_N, np.diff(graph.indptr)), np.array(graph.indices)
    indices[broken] = np.iinfo(indices.dtype).max
    object.__setattr__(graph, "indices", indices)
    if graph.edge_weight is not None:
        object.__setattr__(graph, "edge_weight", np.where(broken, np.float32(np.nan), graph.edge_weight))


def train_in_trainer(member, config: TrainConfig, model=None, resume=False):
    """Summary (trainer 0), weights before and after, logits of all vertices (trainer 0)."""
    trainer = trainer_of(member, config, model, resume)
    before = _weights(trainer)
    loop.train(trainer)
    logits = trainer.evaluator.all_logits(trainer.model)
    after = _weights(trainer)
    return {"summary": finish(trainer), "before": before, "after": after, "logits": logits}


def _weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Copies on the host, which can be sent."""
    return {name: p.detach().cpu().clone() for name, p in trainer.model.named_parameters()}


def stopped_and_gone_on(member, config, after):
    """Weights after a run that ended with the checkpoint of a mini-batch, and went on from it."""
    trainer = trainer_of(member, config)
    feed = trainer.feed
    trainer.feed = (next(feed) for _ in range(after))
    assert not loop.train(trainer)
    again = replace(config, out=None, resume=config.out)
    return train_in_trainer(member, replace(again, out=config.out), resume=True)


def observed_in_trainer(member, run, backwards=False, handed=NOTHING):
    """Summary, and the number of our threads that training began; tqdm has one of its own."""
    before = set(threading.enumerate())
    end, *_others = sampled_backwards(run) if backwards else (None,)
    trainer = loop.ready(member, run, pool_module.SHARED, end)
    trainer.loop_name = handed.loop_name
    trainer.begin_callbacks(handed.callbacks)
    loop.train(trainer) if handed.loop is None else train_by(trainer, handed.loop)
    begun = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("gsplit")]
    return {"summary": finish(trainer), "begun": len(begun)}


def sampled_backwards(run: Run) -> tuple:
    """For a single trainer: the mini-batches of the only epoch, the last finished first.

    Its end of the supply comes before the other ends of its pipes, which have to stay open.
    """
    assert run.config.epochs <= 1  # all are in the pipe before any is taken out
    layout, engine = open_layout(run.layout, typed=True), Sampled()
    micro_batches = MicroBatches(layout, engine.sampling(run, layout))
    todo = list(tickets(engine.num_batches(run, layout), 1, Position()))
    slots = [SharedBuffer(f"test-slot-{slot}") for slot in range(len(todo))]
    heard, launcher = multiprocessing.Pipe(duplex=False)
    launcher_hears, released = multiprocessing.Pipe(duplex=False)
    for slot, ticket in enumerate(reversed(todo)):
        extents = Ring(slots).write(slot, micro_batches.sample_all(ticket.epoch, ticket.batch))
        launcher.send((Handle(ticket=ticket, slot=slot, extents=extents),))
    return TrainerEnd(slots=slots, heard=heard, followers=[], released=released), launcher, launcher_hears


class InPool:
    """In place of the processes that ``gsplit.train`` starts, for ``monkeypatch``.

    Trainers sample for themselves; only a single one that wants a sampler for one epoch finds its mini-batches
    finished backwards.
    """

    def __init__(self, pool):
        self._pool = pool

    def __call__(self, trainer, world, run, port, shared, own):
        self._run, self._handed = run, trainer.keywords["handed"]
        return self

    def join(self, supply):
        backwards = self._run.trainers == 1 and self._run.samplers > 0 and self._run.config.epochs <= 1
        self.results = self._pool.run(self._run.trainers, observed_in_trainer, self._run, backwards, self._handed)
        return [result["summary"] for result in self.results]

    def end(self):
        """The pool lives on."""


def all_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def records(run: Path, kind: str = "epoch") -> list[dict]:
    """The lines of ``metrics.jsonl`` of a kind."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in lines if record["kind"] == kind]


def config_for(layout: Path, out: Path, **changes) -> TrainConfig:
    defaults = {
        "layout": layout,
        "out": out,
        "fan_out": (4, 4),
        "batch_size": 40,
        "hidden": 8,
        "epochs": 2,
        "lr": 0.01,
        "dropout": 0.0,
        "threads": 1,
        "device": "cpu",
    }
    return TrainConfig(**{**defaults, **changes})
