"""RMSNorm of rows whose columns several trainers have: sums of squares are added up along them.

    forward    y = x r g,  r = (sum of x x / D + eps) ** -1/2
    backward   dx = r (dy g - x r r (sum of dy g x) / D),  dg = sum over rows of dy x r

Both sums are over all columns of a row, a number a row, which travels in the type it is added up in. Trainers along
the features of the layer have the same rows, so that dg counts once among them (Zhang and Sennrich, NeurIPS 2019).

Legend: R rows of the block, D columns of all, D' of this trainer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsplit.full.moves import Moves
from gsplit.full.rotation.planes import Roles
from gsplit.kernels import computed_in


def rms_normalised(x: Tensor, norm: nn.RMSNorm, moves: Moves, roles: Roles, columns: slice) -> Tensor:
    """Rows [R, D'] as a normalisation of all columns gives them.

    Args:
        x: [R, D'] of this trainer.
        norm: of D columns, with weights.
        moves: of this trainer.
        roles: of the axes in the layer.
        columns: this trainer's.
    """
    eps = torch.finfo(computed_in(x.dtype)).eps if norm.eps is None else norm.eps
    rows: Tensor = _Normalise.apply(x, norm.weight, eps, replace(moves, dtype=None), roles, columns)
    return rows


class _Normalise(torch.autograd.Function):
    """A sum of a number a row along the columns of the outputs, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, eps: float, moves: Moves, roles: Roles, columns: slice
    ) -> Tensor:
        rows = x.detach().to(computed_in(x.dtype))
        squares = moves.all_reduce(rows.square().sum(dim=1, keepdim=True), roles.columns)
        factor = (squares / len(weight) + eps).rsqrt()
        ctx.save_for_backward(rows, factor, weight)
        ctx.moves, ctx.roles, ctx.columns = moves, roles, columns
        return (rows * factor * weight.detach()[columns]).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, factor, weight = ctx.saved_tensors
        moves, roles, columns = ctx.moves, ctx.roles, ctx.columns
        normal, of_weight = rows * factor, torch.zeros_like(weight)
        if moves.sides[roles.features].place == 0:  # the others there have the same, which counts once
            of_weight[columns] = (grad * normal).sum(dim=0)
        scaled = grad * weight[columns]
        dots = moves.all_reduce((scaled * normal).sum(dim=1, keepdim=True), roles.columns, "backward")
        return ((scaled - normal * (dots / len(weight))) * factor).to(grad.dtype), of_weight, None, None, None, None
