"""Steps of mini-batches with weights, and without a target, as subgraphs may be."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gsplit.config.optimisation import OptimisationConfig
from gsplit.optim import Steps
from gsplit.parallel import Member

ALONE = Member(rank=0, world=1, device=torch.device("cpu"))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_no_step_is_made_of_a_mini_batch_without_a_target(accumulate):
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    config = OptimisationConfig(accumulate=accumulate)
    steps = Steps(config, [optimizer], [weight], None, ALONE, num_batches=8)

    def mini_batch(batch, gradient, targets):
        before = weight.detach().clone()
        steps.begin()
        weight.grad = torch.full((3,), gradient)
        steps.end(0, batch, targets)
        return not torch.equal(weight.detach(), before)

    made = [mini_batch(batch, 1.0, 4) for batch in range(accumulate)]
    assert made[-1]
    assert not any(mini_batch(accumulate + batch, 0.0, 0) for batch in range(accumulate))
    if accumulate > 1:  # one target is enough for a step of both
        assert not mini_batch(4, 1.0, 4)
        assert mini_batch(5, 0.0, 0)


def gradient_of(mini_batches, *, accumulate):
    """The last gradient that a step was made of; mini-batches are (sum of losses, number of targets, weight)."""
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    steps = Steps(
        OptimisationConfig(accumulate=accumulate, lr=1.0), [optimizer], [weight], None, ALONE, num_batches=4
    )
    losses = []
    for batch, (total, targets, whole) in enumerate(mini_batches):
        before = weight.detach().clone()
        steps.begin()
        loss = (weight / before).sum() * total / max(1, targets)  # its gradient is the loss where weight is 1
        loss.backward()
        losses.append(steps.reduce(loss, None if whole is None else torch.tensor(whole), targets)[0].item())
        steps.end(0, batch, targets)
    return (before - weight.detach()).item(), losses


def test_losses_are_divided_by_what_targets_weigh_or_stand_for():
    assert gradient_of([(6.0, 3, None)], accumulate=1) == (pytest.approx(2.0), [2.0])
    assert gradient_of([(6.0, 3, 12.0)], accumulate=1) == (pytest.approx(0.5), [0.5])
    # Four estimates of a sum over ten vertices: the three that met none count as well.
    some = [(0.0, 0, 10.0), (40.0, 2, 10.0), (0.0, 0, 10.0), (0.0, 0, 10.0)]
    gradient, losses = gradient_of(some, accumulate=4)
    assert gradient == pytest.approx(1.0)
    assert losses == [0.0, 4.0, 0.0, 0.0]
