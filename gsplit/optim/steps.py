"""Steps of the optimizers: after how many mini-batches, with which gradients, at which rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gsplit.config.optimisation import OptimisationConfig
from gsplit.optim.rates import Rates
from gsplit.parallel import Member, sum_over_trainers


class Steps:
    """Makes the steps of one trainer; all trainers make every call, after the same mini-batches.

    Args:
        config: of the run.
        optimizers: of the weights, which all trainers share, and of the rows that this one trains, if any.
        parameters: the weights; gradients of all trainers are in them when a step is due.
        rows: what this trainer alone trains; None for nothing.
        member: of this trainer.
        num_batches: number of mini-batches of an epoch.
    """

    def __init__(
        self,
        config: OptimisationConfig,
        optimizers: Sequence[torch.optim.Optimizer],
        parameters: Sequence[nn.Parameter],
        rows: nn.Parameter | None,
        member: Member,
        num_batches: int,
    ) -> None:
        self._config, self._optimizers, self._member = config, optimizers, member
        self._parameters, self._rows, self._num_batches = parameters, rows, num_batches
        self.rates = Rates(config, -(-num_batches // config.accumulate))
        self._sums: list[Tensor] = []
        """Sums of gradients times targets, of mini-batches that no step was made of yet."""
        self._targets = 0

    def begin(self) -> None:
        """A mini-batch is about to be computed: forget the gradients of the one before."""
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)

    def end(self, epoch: int, batch: int, num_targets: int) -> None:
        """Make the step of a mini-batch, if one is due.

        Args:
            epoch, batch: how many epochs are done, and how many mini-batches of the one at work before this one.
            num_targets: of the mini-batch, over all trainers.
        """
        each = self._config.accumulate
        if each > 1 or self._sums:  # a run that goes on may have added up some before
            self._add(num_targets)
            if (batch + 1) % each and batch + 1 < self._num_batches:
                return
            self._spread()
        if self._config.clip_grad_norm is not None:
            self._clip(self._config.clip_grad_norm)
        rate = self.rates.at(epoch, batch // each)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()

    def _add(self, num_targets: int) -> None:
        gradients = [parameter.grad * num_targets for parameter in self._parameters if parameter.grad is not None]
        self._sums = (
            [sum_ + new for sum_, new in zip(self._sums, gradients, strict=True)] if self._sums else gradients
        )
        self._targets += num_targets

    def _spread(self) -> None:
        """Gradients of the mean over all targets since the last step."""
        for parameter, sum_ in zip(self._parameters, self._sums, strict=True):
            parameter.grad = sum_ / self._targets
        self._sums, self._targets = [], 0

    def _clip(self, largest: float) -> None:
        """Scale all gradients so that their norm is ``largest`` at most, rows of other trainers among them."""
        norm = torch.nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])
        if self._rows is not None:
            own = 0.0 if self._rows.grad is None else float(self._rows.grad.double().square().sum())
            norm = (norm.double().square() + sum_over_trainers([own], self._member)[0]).sqrt()
        everything = [*self._parameters, *([] if self._rows is None else [self._rows])]
        torch.nn.utils.clip_grads_with_norm_(everything, largest, norm)

    def state(self) -> dict[str, Any]:
        """What a checkpoint remembers; the same on all trainers."""
        return {"sums": self._sums, "targets": self._targets, "rates": self.rates.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what :meth:`state` gave."""
        device = self._member.device
        self._sums, self._targets = [sum_.to(device) for sum_ in state["sums"]], state["targets"]
        self.rates.restore(state["rates"])
