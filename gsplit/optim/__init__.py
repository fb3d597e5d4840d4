"""How weights are changed: optimizers, their rates, and when they make a step."""

from gsplit.optim.optimizers import follow, optimizer_of
from gsplit.optim.steps import Steps

__all__ = ["Steps", "follow", "optimizer_of"]
