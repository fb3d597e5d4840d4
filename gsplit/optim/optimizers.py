"""What changes the weights after each mini-batch: PyTorch's optimizers, by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import nn

from gsplit.config.optimisation import OptimisationConfig, OptimizerName
from gsplit.device import accelerator

WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
"""Methods that PyTorch wraps for its compiler, beside ``step``."""


def _unwrapped(optimizer: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """An optimizer of PyTorch whose methods are not wrapped for its compiler.

    The first call of a wrapped method imports the compiler, which takes every trainer a second and 70 MB, and
    compiles nothing here. Where a version of PyTorch wraps nothing, the methods are the same.
    """
    methods = {name: inspect.unwrap(getattr(optimizer, name)) for name in WRAPPED}
    step = torch.no_grad()(inspect.unwrap(optimizer.step))
    return type(optimizer.__name__, (optimizer,), {**methods, "step": step, "__doc__": optimizer.__doc__})


def _named(name: str) -> type[torch.optim.Optimizer]:
    """PyTorch's optimizer of a name, whatever the case of its letters."""
    (found,) = (each for key, each in vars(torch.optim).items() if key.lower() == name and isinstance(each, type))
    return _unwrapped(found)


OPTIMIZERS = {name: _named(name) for name in get_args(OptimizerName)}
"""What makes the optimizer of each name, of parameters and the settings ``lr`` and ``weight_decay``."""


def optimizer_of(config: OptimisationConfig, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer that ``config`` names, over the parameters that are trained."""
    settings = _settings(config)
    if _can_be_fused(parameters):
        settings["fused"] = True
    return OPTIMIZERS[config.optimizer](parameters, **settings)


def follow(optimizer: torch.optim.Optimizer, config: OptimisationConfig) -> None:
    """Give an optimizer that was restored the settings of the configuration, which may have changed since."""
    for group in optimizer.param_groups:
        group.update(_settings(config))
        if group.get("fused") and not _can_be_fused(group["params"]):  # it was restored from a run on a GPU
            group["fused"] = None


def _can_be_fused(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether one kernel can make the step of all."""
    return all(accelerator.has_fused_steps(parameter.device) for parameter in parameters)


def _settings(config: OptimisationConfig) -> dict[str, Any]:
    settings = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        settings["momentum"] = config.momentum
    return settings
