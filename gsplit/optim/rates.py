"""Learning rates: warm-up and schedule, step by step of the optimizer.

A rate depends on where the run stands, and for ``plateau`` on the scores so far. Nothing else has to be kept, so a
run that goes on with another number of epochs, or another size of mini-batches, falls in with the schedule as if it
had begun with it. The rates are those of PyTorch's ``LinearLR``, ``CosineAnnealingLR``, ``StepLR`` and
``ReduceLROnPlateau`` (``torch.optim.lr_scheduler``), of which the first is followed by one of the others.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from gsplit.config.optimisation import OptimisationConfig
from gsplit.optim.optimizers import optimizer_of

LEAST_FALL = 1e-8
"""A rate that would fall by less stays, as in PyTorch."""


class Rates:
    """The learning rates of a run; all trainers have one, and agree.

    Args:
        config: of the run.
        steps: of the optimizer in an epoch.
        lower_is_better: whether the better of two scores is the lower one.
    """

    def __init__(self, config: OptimisationConfig, steps: int, *, lower_is_better: bool = False) -> None:
        self._worst = math.inf if lower_is_better else -math.inf
        self._config, self._steps = config, steps
        self._warmup = round(config.warmup * steps)
        # PyTorch's own bookkeeping of scores, on a rate that begins with 1.
        self._share = optimizer_of(OptimisationConfig(optimizer="sgd", lr=1.0), [nn.Parameter(torch.zeros(1))])
        self._plateau: torch.optim.lr_scheduler.ReduceLROnPlateau | None = None
        if config.lr_schedule == "plateau":
            self._plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
                self._share,
                mode="min" if lower_is_better else "max",
                factor=config.lr_gamma,
                patience=config.lr_patience,
                eps=LEAST_FALL / config.lr,
            )

    def at(self, epoch: int, step: int) -> float:
        """The rate of a step; both count from 0."""
        number = epoch * self._steps + step
        if number < self._warmup:
            return self._config.lr * (number + 1) / self._warmup
        return self._config.lr * self._fallen(number - self._warmup)

    def last_of(self, epoch: int) -> float:
        """The rate of the last step of an epoch."""
        return self.at(epoch, self._steps - 1)

    def _fallen(self, number: int) -> float:
        """Return what the rate is multiplied by, so many steps after the warm-up."""
        config = self._config
        match config.lr_schedule:
            case "cosine":
                steps = max(1, config.epochs * self._steps - self._warmup)
                return (1 + math.cos(math.pi * min(1.0, number / steps))) / 2
            case "step":
                return config.lr_gamma ** (number // (config.lr_step_size * self._steps))
            case _:
                share: float = self._share.param_groups[0]["lr"]
                return share

    def judge(self, score: float | None) -> None:
        """The model was validated; None is no score."""
        if self._plateau is not None:
            self._plateau.step(self._worst if score is None else score)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint remembers: the scores of ``plateau``, in its own words."""
        if self._plateau is None:
            return {}
        kept = {name: getattr(self._plateau, name) for name in ("best", "num_bad_epochs", "last_epoch")}
        return {**kept, "share": self._share.param_groups[0]["lr"]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what :meth:`state` gave; a run that had another schedule knows no scores."""
        if self._plateau is not None and state:
            kept = dict(state)
            self._share.param_groups[0]["lr"] = kept.pop("share")
            self._plateau.load_state_dict(kept)
