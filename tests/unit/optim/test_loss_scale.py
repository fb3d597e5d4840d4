"""The scale of a loss: what PyTorch's ``GradScaler`` does, step by step, and one answer for several mini-batches."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch import nn

from gsplit.config.optimisation import OptimisationConfig
from gsplit.optim import Steps, loss_scale
from gsplit.parallel import Member

ALONE = Member(rank=0, world=1, device=torch.device("cpu"))
LOSSES = (1.0, 2.0, float("inf"), 1e-3, float("nan"), 3.0, 1.0, 1.0, float("inf"), 1.0)
EVERY = 3


def steps_of(weight, accumulate=1):
    optimizer = torch.optim.Adam([weight], lr=0.1)
    config = OptimisationConfig(accumulate=accumulate, lr=0.1)
    return Steps(config, [optimizer], [weight], None, ALONE, num_batches=100, scales_loss=True)


def mini_batch(steps, weight, batch, factor):
    steps.begin()
    loss = (weight * factor).sum()
    steps.scaled(loss).backward()
    steps.reduce(loss, None, 4)
    steps.end(0, batch, 4)


def test_steps_and_scales_are_those_of_pytorchs_scaler():
    ours, theirs = (nn.Parameter(torch.ones(3)) for _ in range(2))
    scaler = torch.amp.GradScaler("cpu", growth_interval=EVERY)
    adam = torch.optim.Adam([theirs], lr=0.1)
    with mock.patch.object(loss_scale, "GROWTH_INTERVAL", EVERY):
        steps = steps_of(ours)
        for batch, factor in enumerate(LOSSES):
            mini_batch(steps, ours, batch, factor)
            adam.zero_grad()
            scaler.scale((theirs * factor).sum()).backward()
            scaler.step(adam)
            scaler.update()
            assert torch.equal(ours, theirs)
            assert steps.scale.factor == scaler.get_scale()
    assert steps.scale.take_skipped() == 3
    assert steps.scale.take_skipped() == 0


def test_the_constants_are_pytorchs():
    theirs = torch.amp.GradScaler("cpu").state_dict()
    assert theirs["scale"] == loss_scale.INITIAL
    assert (theirs["growth_factor"], theirs["backoff_factor"]) == (loss_scale.GROWTH, loss_scale.BACKOFF)
    assert theirs["growth_interval"] == loss_scale.GROWTH_INTERVAL


@pytest.mark.parametrize("at", [0, 1])
def test_a_mini_batch_that_overflows_leaves_out_the_step_of_all_that_are_added_up(at):
    weight = nn.Parameter(torch.ones(3))
    steps = steps_of(weight, accumulate=2)
    for batch in range(2):
        mini_batch(steps, weight, batch, float("inf") if batch == at else 1.0)
        assert all(bool(each.isfinite().all()) for each in steps.state()["sums"])
    assert torch.equal(weight, torch.ones(3))
    assert steps.scale.factor == loss_scale.INITIAL / 2
    for batch in (2, 3):
        mini_batch(steps, weight, batch, 1.0)
    assert not torch.equal(weight, torch.ones(3))


def test_a_run_goes_on_with_its_scale():
    weight = nn.Parameter(torch.ones(3))
    steps, again = steps_of(weight, accumulate=2), steps_of(weight, accumulate=2)
    mini_batch(steps, weight, 0, float("inf"))
    again.restore(steps.state())
    mini_batch(again, weight, 1, 1.0)
    assert (again.scale.factor, again.scale.take_skipped()) == (loss_scale.INITIAL / 2, 1)
