"""The optimiser is PyTorch's Adam to the bit, without its compiler."""

from __future__ import annotations

import copy
import subprocess
import sys

import torch

from gsplit.config.optimisation import OptimisationConfig
from gsplit.engine.optimiser import Adam, follow, optimiser_of

CONFIG = OptimisationConfig(lr=0.01, weight_decay=0.1)
WITHOUT = """
import sys, torch
from gsplit.config.optimisation import OptimisationConfig
from gsplit.engine.optimiser import optimiser_of

weight = torch.nn.Parameter(torch.ones(3))
optimiser = optimiser_of(OptimisationConfig(), [weight])
optimiser.zero_grad()
weight.sum().backward()
optimiser.step()
optimiser.load_state_dict(optimiser.state_dict())
assert (weight != 1).all()
assert "torch._dynamo" not in sys.modules
"""


def stepped(optimiser, weight, steps=3):
    for number in range(steps):
        optimiser.zero_grad()
        (weight.square().sum() * (number + 1)).backward()
        optimiser.step()
    return weight.detach().clone()


def test_it_steps_as_pytorchs_adam_and_goes_on_from_its_state():
    weights = [torch.nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(3)]
    theirs = torch.optim.Adam(weights[0:1], lr=0.01, weight_decay=0.1)
    ours = optimiser_of(CONFIG, weights[1:2])
    assert torch.equal(stepped(theirs, weights[0]), stepped(ours, weights[1]))
    assert not ours.state[weights[1]]["exp_avg"].requires_grad
    restored = optimiser_of(OptimisationConfig(), weights[2:3])
    restored.load_state_dict(copy.deepcopy(theirs.state_dict()))
    follow(restored, CONFIG)
    weights[2].data.copy_(weights[0].data)
    assert torch.equal(stepped(theirs, weights[0]), stepped(restored, weights[2]))


def test_steps_can_be_hooked_as_those_of_any_optimiser():
    weight, seen = torch.nn.Parameter(torch.ones(2)), []
    optimiser = Adam([weight])
    optimiser.register_step_post_hook(lambda *_: seen.append(1))
    stepped(optimiser, weight, steps=2)
    assert seen == [1, 1]


def test_the_compiler_is_not_imported():
    """That would take each trainer a second and 70 MB."""
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=120)
