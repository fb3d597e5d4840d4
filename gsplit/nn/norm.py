"""Batch normalisation over the vertices of all trainers (Ioffe and Szegedy, ICML 2015, algorithm 1).

Each trainer holds some vertices of a level; mean and variance are taken over all of them, with the global count
(law 2). PyTorch's ``SyncBatchNorm`` refuses CPU tensors and its ``BatchNorm1d`` a single row, so this is our own; it
has the same parameters and buffers, and weights can be loaded from one into the other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gsplit.kernels import computed_in
from gsplit.kernels.normalising import BATCH, Normalising
from gsplit.nn.exchange import BatchComm
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.norms import (
    Statistics,
    behind_of,
    ended,
    goes_along,
    is_plain,
    kernels_of,
    normalised_batch,
    normalised_rows,
)
from gsplit.nn.rowwise.products import Keeps

CONVERTED = (nn.BatchNorm1d, nn.SyncBatchNorm)


class BatchNorm(nn.BatchNorm1d):
    """``torch.nn.BatchNorm1d`` on rows [n, D], n over all trainers.

    A single row is normalised to the bias, and leaves the running variance as it is.

    Examples:
        >>> norm = BatchNorm(1, affine=False)
        >>> norm(torch.tensor([[1.0], [3.0]])).round()
        tensor([[-1.],
                [ 1.]])
    """

    comm: BatchComm | None = None
    """The communicator of the current mini-batch, set by :func:`follow_comm`; None: this trainer holds all rows."""
    remembers: bool = True
    """Whether training changes the running statistics: not where a layer is computed again."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the rows x [n, D] of this trainer; in training by the statistics of all trainers' rows."""
        if not self.takes_statistics:
            return super().forward(x)
        kernels = kernels_of(self, x, BATCH, BatchNorm)
        if kernels is not None:  # hooks or none, so that all trainers add up the same sums
            return self.in_passes(kernels, x)
        if x.dtype != (wide := computed_in(x.dtype)):  # as PyTorch's own: statistics of short types are float32
            return self.forward(x.to(wide)).to(x.dtype)
        ones = x.new_ones(x.shape[0], 1)
        mean, count, some = self._mean(torch.cat([x, ones], dim=1).sum(dim=0))
        centred = x - mean
        variance = self._over_trainers((centred**2).sum(dim=0)) / count
        self._remember(mean.detach(), variance.detach(), count, some)
        out = centred * (variance + self.eps).rsqrt()
        return out if self.weight is None else (out * self.weight).add_(self.bias)

    @property
    def takes_statistics(self) -> bool:
        """True where rows are normalised by themselves, as in training, and not by what was remembered."""
        return self.training or self.running_mean is None

    def in_passes(
        self,
        kernels: Normalising,
        x: Tensor,
        finish: Finish | None = None,
        skip: Tensor | None = None,
        *,
        overwrites: bool = False,
    ) -> Tensor:
        """Rows [n, D] as :func:`normalised` gives them, by passes of kernels."""
        behind, left = behind_of(finish, kernels, overwrites=overwrites)
        along = goes_along(skip, x, left)
        comm = None if self.comm is None or self.comm.world == 1 else self.comm
        statistics = None if behind.keeps is Keeps.NOTHING else self._statistics(kernels, x)
        token = None if comm is None or not behind.trains else comm.token
        added = skip if along else None
        out, token = normalised_batch(x, self.weight, self.bias, added, kernels, statistics, behind, token)
        if comm is not None and token is not None:
            comm.token = token
        return ended(out, left, None if along else skip)

    @torch.no_grad()
    def _statistics(self, kernels: Normalising, x: Tensor) -> Statistics:
        """Statistics of all trainers' rows, which are remembered in training."""
        number = x.new_full((1,), len(x), dtype=torch.float32)
        own = kernels.column_sums(x)
        mean, count, some = self._mean(torch.cat([own.values, number]))
        variance = self._over_trainers(own.squares_over(mean)) / count
        self._remember(mean, variance, count, some)
        summed = (lambda sums: sums) if self.comm is None else self.comm.sum_of_backward()
        return Statistics(mean=mean, factor=(variance + self.eps).rsqrt(), count=count, summed=summed)

    def _mean(self, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean of all trainers' rows [D], their number, at least 1, and whether there are any, as a number.

        ``sums`` [D + 1] are those of this trainer's rows, and how many these are.
        """
        sums = self._over_trainers(sums)
        number = sums[-1].detach()
        count = number.clamp(min=1)  # without a row there is nothing to divide
        return sums[:-1] / count, count, (number > 0).to(sums.dtype)

    def _over_trainers(self, sums: Tensor) -> Tensor:
        return sums if self.comm is None else self.comm.sum(sums)

    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor, some: Tensor) -> None:
        """Take statistics of so many rows over in training; ``some`` is 0 where there are none, which say nothing.

        A single row says nothing of the variance (PyTorch refuses it).
        """
        if not (self.training and self.remembers) or self.running_mean is None:
            return
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += some.to(self.num_batches_tracked.dtype)
        tracked = self.num_batches_tracked.double().clamp(min=1)
        share: Any = some / tracked if self.momentum is None else some * self.momentum
        several = (count > 1).to(variance.dtype)
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_mean += share * (mean - self.running_mean)
        self.running_var += share * several * (unbiased - self.running_var)


def normalised(
    norm: nn.Module, x: Tensor, finish: Finish | None = None, skip: Tensor | None = None, *, overwrites: bool = False
) -> Tensor:
    """``finish(norm(x)) + skip`` for rows [n, D], in one pass of a kernel where there is one, and in one backward.

    Of shorter types it is taken in float32, and rounded once.

    Args:
        norm: any module that takes rows.
        x: the rows.
        finish: what stands behind it; None: nothing.
        skip: [n, D], added last; None: nothing.
        overwrites: whether nobody else reads the rows where a layer is computed again: backward then writes gradients
            over them.
    """
    if isinstance(norm, BatchNorm) and norm.takes_statistics and is_plain(norm):
        kernels = kernels_of(norm, x, BATCH, BatchNorm)
        if kernels is not None:
            return norm.in_passes(kernels, x, finish, skip, overwrites=overwrites)
    if (rows := normalised_rows(norm, x, finish, skip, overwrites=overwrites)) is not None:
        return rows
    if isinstance(norm, nn.Identity) or x.dtype == (wide := computed_in(x.dtype)):
        out = norm(x)
    else:
        out = norm(x.to(wide)).to(x.dtype)
    return ended(out, finish, skip)


def convert_batch_norms(model: nn.Module) -> None:
    """Replace PyTorch's batch normalisation inside a model, in place, by ours; parameters stay the same objects."""
    ours: dict[nn.Module, BatchNorm] = {}  # a module may stand in several places
    for module in list(model.modules()):
        for name, child in module._modules.items():
            if type(child) in CONVERTED:
                assert isinstance(child, _BatchNorm)
                module._modules[name] = ours.setdefault(child, _ours(child))
        if getattr(module, "allow_single_element", False):
            # PyG's would leave the others waiting where this trainer has a single row, which ours can normalise.
            module.allow_single_element = False  # type: ignore[assignment]


def _ours(theirs: _BatchNorm) -> BatchNorm:
    ours = BatchNorm(theirs.num_features, theirs.eps, theirs.momentum, theirs.affine, theirs.track_running_stats)
    ours.weight, ours.bias = theirs.weight, theirs.bias
    for name, buffer in theirs.named_buffers(recurse=False):
        ours.register_buffer(name, buffer)
    ours.train(theirs.training)
    return ours


def follow_comm(model: nn.Module) -> None:
    """Let the batch normalisations of a model use the communicator of the blocks that the model is called with."""
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]

    def tell(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        comm = next(iter(arguments[0].values())).comm
        for norm in norms:
            norm.comm = comm

    def forget(*_: Any) -> None:
        for norm in norms:
            norm.comm = None

    if norms:
        model.register_forward_pre_hook(tell)
        model.register_forward_hook(forget, always_call=True)
