"""What changes the weights after each mini-batch."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import nn

from gsplit.config.optimisation import OptimisationConfig


class Adam(torch.optim.Adam):
    """Adam of PyTorch, whose methods are not wrapped for its compiler.

    The first call of a wrapped method imports the compiler, which takes every trainer a second and 70 MB, and
    compiles nothing here. Where a version of PyTorch wraps nothing, the methods are the same.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)


def optimiser_of(config: OptimisationConfig, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Adam (Kingma and Ba, ICLR 2015) with an L2 penalty, over the parameters that are trained."""
    return Adam(parameters, lr=config.lr, weight_decay=config.weight_decay)


def follow(optimiser: torch.optim.Optimizer, config: OptimisationConfig) -> None:
    """Give an optimiser that was restored the rates of the configuration, which may have changed since."""
    for group in optimiser.param_groups:
        group["lr"], group["weight_decay"] = config.lr, config.weight_decay
