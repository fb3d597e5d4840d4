"""Steps of the optimizers: after how many mini-batches, with which gradients, at which rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from gsplit.config.optimisation import OptimisationConfig
from gsplit.optim.loss_scale import LossScale
from gsplit.optim.rates import Rates
from gsplit.parallel import EarlySums, Member, count_over_trainers, reduce_gradients, sum_over_trainers


class Steps:
    """Makes the steps of one trainer; all trainers make every call, after the same mini-batches.

    Args:
        config: of the run.
        optimizers: of the weights, which all trainers share, and of the rows that this one trains, if any.
        parameters: the weights; gradients of all trainers are in them when a step is due.
        rows: what this trainer alone trains; None for nothing.
        member: of this trainer.
        num_batches: number of mini-batches of an epoch.
        lower_is_better: whether the better of two scores is the lower one.
        scales_loss: whether the loss is scaled before backward, and steps whose gradients overflow are left out.
        early: sums gradients of some weights while backward goes on; None: all are summed behind it.
    """

    def __init__(
        self,
        config: OptimisationConfig,
        optimizers: Sequence[torch.optim.Optimizer],
        parameters: Sequence[nn.Parameter],
        rows: nn.Parameter | None,
        member: Member,
        num_batches: int,
        *,
        lower_is_better: bool = False,
        scales_loss: bool = False,
        early: EarlySums | None = None,
    ) -> None:
        self._config, self._optimizers, self._member = config, optimizers, member
        self._parameters, self._rows, self._num_batches = parameters, rows, num_batches
        self.rates = Rates(config, -(-num_batches // config.accumulate), lower_is_better=lower_is_better)
        self.scale = LossScale() if scales_loss else None
        """The scale of the loss; None where it is not scaled."""
        self._early = early
        self._at_work: Tensor | None = None
        """What all targets of the current mini-batch weigh; None: 1 each."""
        self._sums: list[Tensor] = []
        """Sums of gradients times the weights of all targets, of mini-batches that no step was made of yet."""
        self._weight: float | Tensor = 0.0
        """Sum of those weights."""
        self._targets = 0
        """Number of their targets."""

    def begin(self, *, early: bool = False) -> None:
        """Backward of a mini-batch is to come: forget the gradients of the one before.

        Args:
            early: sum gradients while it goes on, where that can be.
        """
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        if early and self._early is not None:
            self._early.begin()

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss from which backward goes."""
        return loss if self.scale is None else loss * self.scale.factor

    def reduce(self, loss: Tensor, weight: Tensor | None, counted: int) -> tuple[Tensor, int]:
        """Sum gradients and loss over the trainers.

        Args:
            loss: scalar, this trainer's share of the loss of a mini-batch whose targets weigh 1.
            weight: scalar, its share of what they weigh together; None: each weighs 1.
            counted: targets, or pairs, of the mini-batch, over all trainers.

        Returns:
            The loss of the whole mini-batch, divided by the mean weight, and the bytes that were reduced.
        """
        self._at_work = None
        shares = loss if weight is None else torch.stack([loss.detach(), weight.to(loss.dtype)])
        totals, num_bytes = reduce_gradients(self._parameters, shares, self._member, self._early)
        if self.scale is not None:
            gradients = [parameter.grad for parameter in self._trained()]
            self.scale.unscale(gradients, finite=self._all_finite(gradients))
        if weight is None:
            return totals, num_bytes
        self._at_work = totals[1].clone()
        return totals[0] * counted * _inverse(self._at_work), num_bytes

    def weight(self, counted: int) -> float | Tensor:
        """Return what all targets of the current mini-batch weigh."""
        return counted if self._at_work is None else self._at_work

    def end(self, epoch: int, batch: int, counted: int) -> None:
        """Make the step of a mini-batch, if one is due.

        Args:
            epoch, batch: how many epochs are done, and how many mini-batches of the current one before this one.
            counted: targets, or pairs, of the mini-batch, over all trainers; of one without any no step is made.
        """
        each = self._config.accumulate
        if each > 1 or self._sums:  # a run that goes on may have added up some before
            self._add(counted)
            if (batch + 1) % each and batch + 1 < self._num_batches:
                return
            if not self._targets:
                self._sums, self._weight = [], 0.0
                return
            self._spread()
        elif not counted:
            return
        elif self._at_work is not None:
            share = counted * _inverse(self._at_work)
            for parameter in self._trained():
                parameter.grad.mul_(share)
        if self.scale is not None and not self.scale.update():
            return
        if self._config.clip_grad_norm is not None:
            self._clip(self._config.clip_grad_norm)
        rate = self.rates.at(epoch, batch // each)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()

    def _all_finite(self, gradients: Sequence[Tensor]) -> bool:
        """Return whether gradients are finite; those of rows, which each trainer has alone, on all trainers."""
        finite = bool(get_total_norm(gradients, float("inf")).isfinite())
        return finite if self._rows is None else not any(count_over_trainers([not finite], self._member))

    def _add(self, counted: int) -> None:
        gradients = [parameter.grad * counted for parameter in self._trained()]
        self._sums = (
            [sum_ + new for sum_, new in zip(self._sums, gradients, strict=True)] if self._sums else gradients
        )
        self._weight = self._weight + self.weight(counted)
        self._targets += counted

    def _spread(self) -> None:
        """Gradients of the mean over all targets since the last step, by their weights."""
        share = _inverse(self._weight) if isinstance(self._weight, Tensor) else None
        for parameter, sum_ in zip(self._trained(), self._sums, strict=True):
            parameter.grad = sum_ / self._weight if share is None else sum_ * share
        self._sums, self._weight, self._targets = [], 0.0, 0

    def _clip(self, largest: float) -> None:
        """Scale all gradients so that their norm is ``largest`` at most, rows of other trainers among them."""
        norm = torch.nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])
        if self._rows is not None:
            own = 0.0 if self._rows.grad is None else float(torch.linalg.vector_norm(self._rows.grad))
            norm = (norm.double().square() + sum_over_trainers([own**2], self._member)[0]).sqrt()
        torch.nn.utils.clip_grads_with_norm_(self._trained(), largest, norm)

    def _trained(self) -> list[Any]:
        """Weights, and own rows that have a gradient."""
        rows = [] if self._rows is None or self._rows.grad is None else [self._rows]
        return [*self._parameters, *rows]

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint remembers; the same on all trainers."""
        added = {"sums": self._sums, "weight": float(self._weight), "targets": self._targets}
        scale = {} if self.scale is None else {"loss_scale": self.scale.state()}
        return {**added, "rates": self.rates.state(), **scale}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what :meth:`state` gave."""
        device = self._member.device
        self._sums, self._weight = [sum_.to(device) for sum_ in state["sums"]], state["weight"]
        self._targets = state.get("targets", len(self._sums))  # older checkpoints have steps with targets alone
        self.rates.restore(state["rates"])
        if self.scale is not None and "loss_scale" in state:
            self.scale.restore(state["loss_scale"])


def _inverse(weight: Tensor) -> Tensor:
    """1 / weight; 0 where nothing weighs anything, so that there is no gradient either."""
    return torch.where(weight > 0, 1 / weight, 0)
