"""Runs in the pool, whose trainers count as those of several hosts, each with memory of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gsplit.config.train import TrainConfig
from gsplit.launch.resolve import resolve
from gsplit.train import loop
from gsplit.train.summary import finish
from support import pool as pool_module
from support.runs import records


def trained_on(member, config: TrainConfig, hosts: int, *, resume: bool = False):
    """Weights after training in the pool, the logits of all vertices and the summary, each on trainer 0 alone."""
    member = replace(member, hosts=hosts)
    config = replace(config, gpus=member.world, samplers=0, resume=config.out if resume else None)
    trainer = loop.ready(member, resolve(config, hosts=hosts), pool_module.shared_of(member))
    loop.train(trainer)
    weights = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    logits = None if config.task == "links" else trainer.evaluator.all_logits(trainer.model)
    return weights, logits, finish(trainer)


def counted(run, apart="none"):
    """What is recorded of a run, but for times, settings, and counts whose names begin as ``apart`` does
    or that are of what goes between hosts."""
    kept = ("epoch", "batch", "trainer", "targets", "rows_cached", "split_group")
    found = []
    for record in (*records(run, "mini-batch"), *records(run)):
        traffic = record.get("traffic", {}).items()
        traffic = {name: value for name, value in traffic if not name.startswith((apart, "between_hosts_"))}
        by_type = record.get("traffic_by_type", {})
        found.append({key: record.get(key) for key in kept} | {"traffic": traffic, "traffic_by_type": by_type})
    assert any(record["traffic"] for record in found)
    return found


def assert_same_run(of_hosts, of_one, here_run, one_run, *, tolerance=1e-10, apart="none"):
    (weights, logits, summary), (weights_of_one, logits_of_one, summary_of_one) = of_hosts, of_one
    for name, weight in weights.items():
        torch.testing.assert_close(weight, weights_of_one[name], rtol=0, atol=tolerance)
    if logits is not None:
        np.testing.assert_allclose(logits, logits_of_one, rtol=0, atol=1e3 * tolerance)
    assert counted(here_run, apart) == counted(one_run, apart)
    for key in summary:
        if key.startswith(("test_", "valid_")) and key != "test_seconds":
            assert summary[key] == pytest.approx(summary_of_one[key], abs=1e-6), key
