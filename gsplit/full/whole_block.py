"""The block of one layer whose sums trainers take together: an operator as convolutions see it.

It is a layer of the whole graph, or of a subgraph that is computed as one (:mod:`gsplit.engine.gridded`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from typing_extensions import override

from gsplit.full.grid_attention import AttentionArgs, GridAttention, attention_on_grid, rows_on_grid
from gsplit.full.grid_operator import GridOperator
from gsplit.full.moving import MovingOperator
from gsplit.full.operators import Operator
from gsplit.kernels import StoredRows, computed_in, copied, product_dtype
from gsplit.nn import BatchComm
from gsplit.nn.neighbourhood import NO_FACTORS, Factors, Neighbourhood, finished, narrows
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import (
    Comes,
    SetsOut,
    is_plain,
    linear,
    linear_of_sums,
    own_and_others,
    own_beside_others,
)
from gsplit.parallel.checker import CollectiveChecker, Step

SETS_OUT = (GridOperator, MovingOperator)
"""Operators whose backward begins, and ends later."""


@dataclass(frozen=True, kw_only=True)
class WholeBlock(Neighbourhood):
    """One layer: from all vertices of level l-1 (sources) to all of level l (destinations)."""

    sums_all: bool = True
    """Sums are over all in-edges of the whole graph, or stand for them."""
    num_own_sources: int
    """Number of this trainer's sources."""
    num_destinations: int
    """Number of this trainer's destinations."""
    layer: int
    """The layer, 1 .. L."""
    operator: Operator | GridAttention
    """What sums over the in-edges, or attends to them, on all trainers together."""
    in_degrees: Tensor
    """Number of in-edges of each own destination that sums stand for, int32 [num_destinations]."""
    in_weights: Tensor | None
    """Sum of their weights, [num_destinations]; None where the model takes none."""
    degrees: Tensor | None
    """Degree of each own source, [num_own_sources], as :meth:`graph_degrees` gives it; None: the model wants none."""
    estimates: bool = False
    """Whether each edge counts what the operator has of it in every sum, for sums that stand for those of more edges
    (:mod:`gsplit.features.estimates`)."""
    comm: BatchComm
    """The communicator of the mini-batch."""

    @override
    def sum(self, x: Tensor, *, weighted: bool = False, project: nn.Linear | None = None) -> Tensor:
        weighted = weighted and self.in_weights is not None
        return self.projected(x, project, lambda rows: self._summed(rows, NO_FACTORS, weighted=weighted))

    @override
    def mean(self, x: Tensor, *, project: nn.Linear | None = None) -> Tensor:
        by = self._of_mean(x)
        return self.projected(x, project, lambda rows: self._summed(rows, by))

    @override
    def normalised_sum(self, x: Tensor, by: Factors, *, weighted: bool = False) -> Tensor:
        by = by.to(computed_in(x.dtype))
        return self._summed(x, by, weighted=weighted and self.in_weights is not None)

    @override
    def projected(
        self,
        x: Tensor,
        project: nn.Linear | None,
        aggregate: Callable[[Tensor], Tensor],
        bias: Tensor | None = None,
        finish: Finish | None = None,
    ) -> Tensor:
        if project is None or narrows(project) or not is_plain(project):
            return super().projected(x, project, aggregate, bias, finish)
        sums = aggregate(x)
        sets_out = self._sets_out(sums)
        if sets_out is None:
            return linear(sums, project, bias, finish)
        return linear_of_sums(sums, project, bias, finish, sets_out)

    @override
    def self_and_mean(
        self, x: Tensor | StoredRows, lin_self: nn.Linear, lin_neigh: nn.Linear, finish: Finish | None = None
    ) -> Tensor:
        x = copied(x)
        own_type = x.dtype == product_dtype(x) == lin_self.weight.dtype == lin_neigh.weight.dtype
        if not (own_type and is_plain(lin_self) and is_plain(lin_neigh)):
            return super().self_and_mean(x, lin_self, lin_neigh, finish)
        if not narrows(lin_neigh):
            means = [self.mean(x)]  # of which the products have the only reference, and let go of it early
            sets_out = self._sets_out(means[0])
            return own_and_others(x, self.num_destinations, means.pop(), lin_self, lin_neigh, finish, sets_out)
        late: list[Comes] = []
        comes = (lambda: late.pop()()) if self._overlaps else None
        own, others = own_beside_others(x, self.num_destinations, lin_self, lin_neigh, comes)
        held = late if comes and others.requires_grad else None
        return finished(own + self._summed(others, self._of_mean(x), late=held), None, finish)

    @override
    def attend(
        self,
        z: Tensor,
        att_source: Tensor,
        att_destination: Tensor,
        *,
        negative_slope: float,
        dropout: Callable[[Tensor], Tensor],
        loops: bool,
    ) -> Tensor:
        operator, comm = self.operator, self.comm
        if not isinstance(operator, GridAttention) or operator.loops != loops:
            raise ValueError(f"the block has no edges for attention with loops={loops}")
        self._check_rows(z)
        args = AttentionArgs(
            operator=operator,
            layer=self.layer,
            checker=comm.checker,
            slope=negative_slope,
            dropout=dropout,
            overlaps=comm.overlaps,
        )
        wants = any(each.requires_grad for each in (z, att_source, att_destination)) or self.layer > 1
        token = comm.token if torch.is_grad_enabled() and wants else None
        came, box = rows_on_grid(z, args)
        del z  # before there are sums
        out, token = attention_on_grid(came, box, att_source, att_destination, token, args)
        comm.token = comm.token if token is None else token
        return out

    @override
    def sampled_weight(self) -> Tensor:
        """Weight of all in-edges, [num_destinations]; without weights, their number."""
        return self.in_degrees if self.in_weights is None else self.in_weights

    @override
    def graph_degrees(self) -> Tensor:
        """Weight of all in-edges, [num_own_sources]; their number without weights.

        Raises:
            ValueError: where the block carries none; a model that asks sets ``uses_degrees = True``.
        """
        if self.degrees is None:
            raise ValueError("the block carries no degrees; set uses_degrees = True on the model")
        return self.degrees

    def _sets_out(self, sums: Tensor) -> SetsOut | None:
        """What is told the gradient of sums that this block gave, for it to travel early; None where it does not."""
        args = getattr(sums.grad_fn, "args", None)
        if not (isinstance(args, _WholeSumArgs) and self._overlaps and sums.dtype == product_dtype(sums)):
            return None
        return args.set_out

    @property
    def _overlaps(self) -> bool:
        """Whether gradients of rows travel while something else is computed in backward."""
        return isinstance(self.operator, SETS_OUT) and self.operator.overlaps and self.comm.overlaps

    def _of_mean(self, x: Tensor) -> Factors:
        """The factors of a mean over rows like ``x``."""
        return Factors(sums=self.in_degrees.clamp(min=1).to(computed_in(x.dtype)).reciprocal_())

    def _summed(self, x: Tensor, by: Factors, *, weighted: bool = False, late: list[Comes] | None = None) -> Tensor:
        self._check_rows(x)
        comm = self.comm
        if isinstance(self.operator, GridAttention):
            raise ValueError("the block has edges for attention alone")
        weighted = weighted or self.estimates
        args = _WholeSumArgs(
            operator=self.operator,
            layer=self.layer,
            checker=comm.checker,
            num_rows=len(x),
            weighted=weighted,
            by=by if comm.overlaps else None,
            late=late,
        )
        # As of exchanged rows: before a later layer gradients come back on all trainers, or some would wait.
        if not (torch.is_grad_enabled() and (x.requires_grad or self.layer > 1)):
            return args.forward(x, by)
        out, comm.token = _WholeSum.apply(x, comm.token, args, by)
        return out

    def _check_rows(self, x: Tensor) -> None:
        if x.shape[0] != self.num_own_sources:
            raise ValueError(f"the block has {self.num_own_sources} own source rows, x has {x.shape[0]}")


@dataclass(kw_only=True)
class _WholeSumArgs:
    """The arguments of a sum beside its tensors; not the communicator, whose token holds this."""

    operator: Operator
    layer: int
    checker: CollectiveChecker | None
    num_rows: int
    """Number of own sources."""
    weighted: bool
    by: Factors | None
    """The factors, where gradients may set out early; None: they do not."""
    coming: Callable[[], Tensor] | None = None
    """Gives the gradients that have set out."""
    told: int = 0
    """Where the gradient lies with which they did."""
    late: list[Comes] | None = None
    """Takes what waits for the gradient of ``x``, in backward, and gives it, where that is asked for there and what
    autograd gets is not read; None: autograd gets it."""

    def forward(self, x: Tensor, by: Factors) -> Tensor:
        self._enter(Step.EXCHANGE, x)
        return self.operator.forward(x.detach(), by, weighted=self.weighted)

    def backward(self, grad: Tensor, by: Factors) -> Tensor:
        if self.coming is not None:
            coming, self.coming = self.coming, None
            self._check(grad.data_ptr() == self.told)
            return coming()
        self._enter(Step.RETURN, grad)
        if self.late is not None:
            assert isinstance(self.operator, SETS_OUT)
            self.late.append(self.operator.start_backward(grad, by.turned(), weighted=self.weighted))
            return grad.new_zeros(()).expand(self.num_rows, grad.shape[1])  # PyTorch may look for what is no number
        return self.operator.backward(grad, by.turned(), weighted=self.weighted)

    def set_out(self, grad: Tensor) -> None:
        """Begin :meth:`backward` with what it will be given."""
        assert isinstance(self.operator, SETS_OUT)
        assert self.by is not None
        self._check(self.coming is None)
        self.told = grad.data_ptr()
        self._enter(Step.RETURN, grad)
        self.coming = self.operator.start_backward(grad, self.by.turned(), weighted=self.weighted)

    @staticmethod
    def _check(alone: bool) -> None:
        if not alone:
            raise RuntimeError("sums of neighbours are projected and used otherwise: sum once for each use")

    def _enter(self, step: Step, x: Tensor) -> None:
        if self.checker is not None:
            self.checker.enter(step, layer=self.layer, width=x.shape[1], dtype=x.dtype)


class _WholeSum(torch.autograd.Function):
    """Sums by A in forward, by A' in backward; chained by the token as exchanges are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token: Tensor, args: _WholeSumArgs, by: Factors) -> tuple[Tensor, Tensor]:
        ctx.args = args
        ctx.save_for_backward(by.sources, by.sums, by.own)  # which are not kept where layers are computed again
        return args.forward(x, by), token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_token: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        sources, sums, own = ctx.saved_tensors
        of_x = ctx.args.backward(grad, Factors(sources=sources, sums=sums, own=own))
        return (of_x if ctx.needs_input_grad[0] else None), grad_token, None, None
