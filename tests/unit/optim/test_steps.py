"""Steps of mini-batches without a target, as subgraphs may be: none is made, and nothing moves by momentum."""

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
