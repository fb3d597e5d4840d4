"""Runs on subgraphs that are computed on process grids."""

from __future__ import annotations

import numpy as np

import gsplit
from gsplit import TrainConfig
from gsplit.runs import checkpoint
from gsplit.sampling import Uniform
from gsplit.train import loop
from gsplit.train.progress import mini_batch_counts
from support.runs import config_for, records, trainer_of

EXACT = {
    "dtype": "float64",
    "epochs": 2,
    "num_layers": 3,
    "optimizer": "sgd",  # Adam divides the gradient of a bias before batch normalisation, rounding, by itself
    "lr": 0.1,
    "momentum": 0.9,
    "samplers": 0,
    "fan_out": TrainConfig().fan_out,  # as where it is not given
    "batch_size": TrainConfig().batch_size,
}
GRIDS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 1, 2)]
LAID_OUT = [(groups, grid) for groups in (1, 2) for grid in GRIDS if groups * np.prod(grid) <= 4]
RULES = {
    "few": {"sampling": "uniform", "subgraph": "4%", "epochs": 1},  # trainers and groups without a training vertex
    "uniform": {"sampling": "uniform", "subgraph": "25%"},
    "unbiased": {"sampling": "uniform", "subgraph": "25%", "estimate": "unbiased"},
    "saint": {"sampling": "saint", "subgraph": "40%"},
    "clusters": {"sampling": "clusters", "clusters": 1},
}


def learned(layout, run, **flags):
    """Weights, and the losses and computed edges of each epoch."""
    gsplit.train(config=config_for(layout.path, run, **{**EXACT, **flags}))
    epochs = [(record["loss"], record["traffic"]["computed_edges"]) for record in records(run)]
    return checkpoint.load_state(run, checkpoint.MODEL), *zip(*epochs, strict=True)


def assert_close(weights, same, most=1e-10):
    """Assert that weights differ by no more."""
    assert weights.keys() == same.keys()
    for key, weight in weights.items():
        assert (weight - same[key]).abs().max() <= most, key


def counted(member, config):
    """What each mini-batch of a run sent, loaded and summed over, on one trainer, and the key of what it drops."""
    trainer = trainer_of(member, config)
    feed, found = trainer.feed, []

    def watched():
        for mini_batch in feed:
            found.append(mini_batch)
            yield mini_batch

    trainer.feed = watched()
    loop.train(trainer)
    return [(each.epoch, each.batch, mini_batch_counts(each, 0), getattr(each, "seed", None)) for each in found]


def sets_of(layout, epoch, batch, groups):
    """[groups, P, 2] numbers of the vertices of a mini-batch's sets on each part, and of training vertices."""
    plan = Uniform(subgraph="25%", layers=3).plan(layout, batch_size=0, seed=0, micro_batches=groups)
    ends = layout.offsets
    return np.array(
        [
            [np.histogram(vertices, ends)[0] for vertices in (everyone, targets)]
            for everyone, targets in zip(plan.sets(epoch, batch), plan.micro_batches(epoch, batch), strict=True)
        ]
    ).transpose(0, 2, 1)
