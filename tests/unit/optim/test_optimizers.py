"""Optimizers are PyTorch's to the bit, without its compiler; rates are those of its schedulers."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from support.messages import line_with
from torch import nn

from gsplit.config.fields import MOST_FACTOR
from gsplit.config.model import ModelConfig
from gsplit.config.optimisation import OptimisationConfig, OptimizerName
from gsplit.errors import InputError
from gsplit.optim import follow, optimizer_of

SETTINGS = {"lr": 0.01, "weight_decay": 0.1}
THEIRS = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "sgd": (torch.optim.SGD, {}),
    "sgd with momentum": (torch.optim.SGD, {"momentum": 0.9}),
}
WITHOUT = """
import sys, torch
from gsplit.config.optimisation import OptimisationConfig
from gsplit.optim import Steps, optimizer_of
from gsplit.parallel import Member

weight = torch.nn.Parameter(torch.ones(3))
config = OptimisationConfig(optimizer=sys.argv[1], lr_schedule="plateau", clip_grad_norm=0.1, accumulate=2)
optimizer = optimizer_of(config, [weight])
steps = Steps(config, [optimizer], [weight], None, Member(rank=0, world=1, device=torch.device("cpu")), 2)
for batch in range(2):
    steps.begin()
    weight.sum().backward()
    steps.end(0, batch, 5)
steps.rates.judge(0.5)
optimizer.load_state_dict(optimizer.state_dict())
assert (weight != 1).all()
assert "torch._dynamo" not in sys.modules
"""


def stepped(optimizer, weight, steps=3):
    for number in range(steps):
        optimizer.zero_grad()
        (weight.square().sum() * (number + 1)).backward()
        optimizer.step()
    return weight.detach().clone()


@pytest.mark.parametrize("name", THEIRS)
def test_it_steps_as_pytorchs_own_and_goes_on_from_its_state(name):
    weights = [torch.nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(3)]
    optimizer, more = THEIRS[name]
    config = OptimisationConfig(optimizer=name.split()[0], **SETTINGS, **more)
    theirs = optimizer(weights[0:1], **SETTINGS, **more)
    ours = optimizer_of(config, weights[1:2])
    assert torch.equal(stepped(theirs, weights[0]), stepped(ours, weights[1]))
    assert not any(value.requires_grad for value in ours.state[weights[1]].values() if value is not None)
    restored = optimizer_of(OptimisationConfig(optimizer=config.optimizer), weights[2:3])
    restored.load_state_dict(copy.deepcopy(theirs.state_dict()))
    follow(restored, config)
    weights[2].data.copy_(weights[0].data)
    assert torch.equal(stepped(theirs, weights[0]), stepped(restored, weights[2]))


def test_what_was_restored_follows_the_configuration_of_now():
    weight = torch.nn.Parameter(torch.ones(2))
    before = optimizer_of(OptimisationConfig(optimizer="sgd", momentum=0.9, lr=1.0), [weight])
    after = optimizer_of(OptimisationConfig(optimizer="sgd"), [weight])
    after.load_state_dict(before.state_dict())
    follow(after, OptimisationConfig(optimizer="sgd", momentum=0.5, lr=0.25, weight_decay=0.125))
    group = after.param_groups[0]
    assert [group[name] for name in ("lr", "momentum", "weight_decay")] == [0.25, 0.5, 0.125]


def test_a_run_of_a_gpu_goes_on_where_there_is_none():
    """There one kernel makes the step, with other last bits; here it is the CPU's own step."""
    weights = [nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(3)]
    on_gpu = torch.optim.Adam(weights[:1], **SETTINGS, fused=True)
    stepped(on_gpu, weights[0])
    ours = [optimizer_of(OptimisationConfig(**SETTINGS), [weight]) for weight in weights[1:]]
    state = on_gpu.state_dict()
    for optimizer, weight in zip(ours, weights[1:], strict=True):
        weight.data.copy_(weights[0].data)
        optimizer.load_state_dict(copy.deepcopy(state))
        follow(optimizer, OptimisationConfig(**SETTINGS))
        assert optimizer.param_groups[0]["fused"] is None
        state["param_groups"][0]["fused"] = None  # as of a run without a GPU
    assert torch.equal(stepped(ours[0], weights[1]), stepped(ours[1], weights[2]))


def test_steps_can_be_hooked_as_those_of_any_optimizer():
    weight, seen = torch.nn.Parameter(torch.ones(2)), []
    optimizer = optimizer_of(OptimisationConfig(), [weight])
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    stepped(optimizer, weight, steps=2)
    assert seen == [1, 1]


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_the_compiler_is_not_imported(name):
    """That would take each trainer a second and 70 MB."""
    subprocess.run([sys.executable, "-c", WITHOUT, name], check=True, timeout=120)


@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_the_largest_numbers_that_are_taken_are_no_error_of_pytorch_s(name):
    """Beyond them it raises RuntimeError in the step, as with a rate of 1e38; the weights are not finite then."""
    config = OptimisationConfig(optimizer=name, lr=MOST_FACTOR, weight_decay=MOST_FACTOR)
    weight = nn.Parameter(torch.ones(3))
    optimizer = optimizer_of(config, [weight])
    for _ in range(2):
        weight.grad = torch.full((3,), 0.5)
        optimizer.step()
    F.leaky_relu(weight, MOST_FACTOR)
    for flag, slope in (("lr", 1e38), ("weight_decay", 1e31)):
        with pytest.raises(InputError, match=r"must be at most 1e\+30, not 1e"):
            OptimisationConfig(**{flag: slope})
    with pytest.raises(InputError, match=line_with("--negative-slope, -1e+30, -1e+39")):
        ModelConfig(negative_slope=-1e39)
