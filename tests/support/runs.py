"""Whole training runs inside the pool of trainers, without starting a process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch

from gsplit.data import open_layout
from gsplit.train import custom, loop, models
from gsplit.train.config import TrainConfig
from gsplit.train.strategy import decide
from gsplit.train.trainer import Job, Trainer
from support import pool as pool_module


def job_for(config: TrainConfig, world: int, model=None, resume=False) -> Job:
    config.out.mkdir(parents=True, exist_ok=True)
    layout = open_layout(config.layout)
    return Job(
        config=config, layout=config.layout, run=config.out,
        strategy=decide(replace(config, gpus=world), layout, "cpu"), device_type="cpu", threads=1,
        samplers=0, port=0, signature=models.signature(config, layout.graph, model),
        pickled_model=None if model is None else custom.pickled(model), shared=pool_module.SHARED,
        resume=resume,
    )  # fmt: skip


def train_in_worker(worker, config: TrainConfig, model=None, resume=False):
    """Summary (trainer 0), weights before and after, logits of all vertices (trainer 0)."""
    trainer = Trainer(worker, job_for(config, worker.world, model, resume))
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    loop.train(trainer)
    logits = trainer.evaluator.all_logits(trainer.model)
    after = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    return {"summary": trainer.finish(), "before": before, "after": after, "logits": logits}


def all_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def records(run: Path, kind: str = "epoch") -> list[dict]:
    """The lines of ``metrics.jsonl`` of a kind."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in lines if record["kind"] == kind]


def config_for(layout: Path, out: Path, **changes) -> TrainConfig:
    defaults = {
        "layout": layout, "out": out, "fan_out": (4, 4), "batch_size": 40, "hidden": 8, "epochs": 2,
        "lr": 0.01, "dropout": 0.0, "threads": 1, "device": "cpu",
    }  # fmt: skip
    return TrainConfig(**{**defaults, **changes})
