"""The first sum, which is a constant: the features do not change, nor do the edges, so it is computed once.

It is kept as rows of the destinations, before the first layer's weights; what is left of the layer in every epoch is
a product with these. That holds for layers that aggregate features as they are: not after input dropout or an input
projection, and not for attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from gsplit.host import large_pieces_given_back
from gsplit.kernels import StoredRows, copied
from gsplit.nn import BatchComm
from gsplit.nn.neighbourhood import Factors, Neighbourhood, finished
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import is_plain, linear, linear_sum

Kept = TypeVar("Kept")


class FirstSums(Generic[Kept]):
    """The sums of the first layer, once they were computed."""

    sums: Kept | None = None
    """[num_destinations, D], with what else is constant where layers rotate."""

    def get(self, compute: Callable[[], Kept]) -> Kept:
        """The sums, computed at the first call."""
        if self.sums is None:
            with torch.no_grad(), large_pieces_given_back():
                self.sums = compute()
        return self.sums


@dataclass(frozen=True, kw_only=True)
class FirstBlock(Neighbourhood):
    """The block of the first layer of a model that aggregates its features, unchanged, and once."""

    num_own_sources: int
    """Number of this trainer's sources."""
    num_destinations: int
    """Number of this trainer's destinations."""
    comm: BatchComm | None
    """The communicator of the mini-batch."""
    sums_all: bool = True
    """Sums are over all in-edges."""
    kept: FirstSums[Tensor]
    """The sums, which stay from epoch to epoch."""
    inner: Neighbourhood | None
    """The block that takes them; None once they are kept, and its edges are gone."""

    @override
    def projected(
        self,
        x: Tensor,
        project: nn.Linear | None,
        aggregate: Callable[[Tensor], Tensor],
        bias: Tensor | None = None,
        finish: Finish | None = None,
    ) -> Tensor:
        """``project(aggregate(x)) + bias``; x are the features, the same at every call, one call a mini-batch."""
        sums = self.kept.get(lambda: aggregate(x))
        return finished(sums, bias, finish) if project is None else linear(sums, project, bias, finish)

    @override
    def sum(self, x: Tensor, *, weighted: bool = False, project: nn.Linear | None = None) -> Tensor:
        return self._edges.sum(x, weighted=weighted, project=project)

    @override
    def mean(self, x: Tensor, *, project: nn.Linear | None = None) -> Tensor:
        return self.projected(x, project, lambda rows: self._edges.mean(rows))

    @override
    def normalised_sum(self, x: Tensor, by: Factors, *, weighted: bool = False) -> Tensor:
        return self._edges.normalised_sum(x, by, weighted=weighted)

    @override
    def self_and_mean(
        self, x: Tensor | StoredRows, lin_self: nn.Linear, lin_neigh: nn.Linear, finish: Finish | None = None
    ) -> Tensor:
        x = copied(x)
        means = self.kept.get(lambda: self._edges.mean(x))
        own = x[: self.num_destinations]
        if is_plain(lin_self) and is_plain(lin_neigh):
            return linear_sum(own, means, lin_self, lin_neigh, finish)
        return finished(lin_self(own) + lin_neigh(means), None, finish)

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
        raise ValueError("attention has no first sum that could be kept")

    @override
    def sampled_weight(self) -> Tensor:
        return self._edges.sampled_weight()

    @override
    def graph_degrees(self) -> Tensor:
        return self._edges.graph_degrees()

    @property
    def _edges(self) -> Neighbourhood:
        """The block that has the edges.

        Raises:
            ValueError: once they are gone.
        """
        if self.inner is None:
            raise ValueError("the sums of the first layer are kept, and its edges gone")
        return self.inner
