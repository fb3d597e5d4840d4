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
from gsplit.nn.exchange import BatchComm

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
        if not (self.training or self.running_mean is None):
            return super().forward(x)
        if x.dtype != (wide := computed_in(x.dtype)):  # as PyTorch's own: statistics of short types are float32
            return self.forward(x.to(wide)).to(x.dtype)
        ones = x.new_ones(x.shape[0], 1)
        sums = self._over_trainers(torch.cat([x, ones], dim=1).sum(dim=0))
        number = sums[-1].detach()
        count = number.clamp(min=1)  # without a row there is nothing to divide
        mean = sums[:-1] / count
        centred = x - mean
        variance = self._over_trainers((centred**2).sum(dim=0)) / count
        if self.training and self.remembers and self.running_mean is not None:
            self._remember(mean.detach(), variance.detach(), count, (number > 0).to(x.dtype))
        out = centred * (variance + self.eps).rsqrt()
        return out if self.weight is None else (out * self.weight).add_(self.bias)

    def _over_trainers(self, sums: Tensor) -> Tensor:
        return sums if self.comm is None else self.comm.sum(sums)

    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor, some: Tensor) -> None:
        """Take statistics of so many rows over; ``some`` is 0 where there are none, which say nothing.

        A single row says nothing of the variance (PyTorch refuses it).
        """
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += some.to(self.num_batches_tracked.dtype)
        tracked = self.num_batches_tracked.double().clamp(min=1)
        share: Any = some / tracked if self.momentum is None else some * self.momentum
        several = (count > 1).to(variance.dtype)
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_mean += share * (mean - self.running_mean)
        self.running_var += share * several * (unbiased - self.running_var)


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
