"""What changes the weights after each mini-batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gsplit.config.optimisation import OptimisationConfig


def optimiser_of(config: OptimisationConfig, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Adam (Kingma and Ba, ICLR 2015) with an L2 penalty, over the parameters that are trained."""
    return torch.optim.Adam(parameters, lr=config.lr, weight_decay=config.weight_decay)


def follow(optimiser: torch.optim.Optimizer, config: OptimisationConfig) -> None:
    """Give an optimiser that was restored the rates of the configuration, which may have changed since."""
    for group in optimiser.param_groups:
        group["lr"], group["weight_decay"] = config.lr, config.weight_decay
