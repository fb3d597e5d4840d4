"""The first sum, which is a constant: the features do not change, nor do the edges, so it is computed once.

It is kept as rows of the destinations, before the first layer's weights; what is left of the layer in every epoch is
a product with these. That holds for layers that aggregate features as they are: not after input dropout or an input
projection, and not for attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from gsplit.host import large_pieces_given_back
from gsplit.kernels import StoredRows, copied
from gsplit.nn import BatchComm
from gsplit.nn.neighbourhood import Factors, Neighbourhood
from gsplit.nn.rowwise.dense import is_plain, linear, linear_sum

GONE = "the sums of the first layer are kept, and its edges gone"


class Kept:
    """The sums of the first layer, once they were computed."""

    sums: Tensor | None = None
    """[num_destinations, D]."""

    def get(self, compute: Callable[[], Tensor]) -> Tensor:
        """The sums, computed at the first call."""
        if self.sums is None:
            with torch.no_grad(), large_pieces_given_back():
                self.sums = compute()
        return self.sums


@dataclass(frozen=True, kw_only=True)
class FirstBlock(Neighbourhood):
    """The block of the first layer of a model that aggregates its features, unchanged, and once."""

    inner: Neighbourhood
    """The block itself."""
    kept: Kept
    """What stays from epoch to epoch."""

    @property
    def num_own_sources(self) -> int:  # type: ignore[override]
        """Number of this trainer's sources."""
        return self.inner.num_own_sources

    @property
    def num_destinations(self) -> int:  # type: ignore[override]
        """Number of this trainer's destinations."""
        return self.inner.num_destinations

    @property
    def comm(self) -> BatchComm | None:  # type: ignore[override]
        """The communicator of the mini-batch."""
        return self.inner.comm

    @property
    def sums_all(self) -> bool:  # type: ignore[override]
        """Whether sums are over all in-edges."""
        return self.inner.sums_all

    @override
    def projected(
        self, x: Tensor, project: nn.Linear | None, aggregate: Callable[[Tensor], Tensor], bias: Tensor | None = None
    ) -> Tensor:
        """``project(aggregate(x)) + bias``; x are the features, the same at every call, one call a mini-batch."""
        sums = self.kept.get(lambda: aggregate(x))
        if project is None:
            return sums if bias is None else sums + bias
        return linear(sums, project, bias)

    @override
    def sum(self, x: Tensor, *, weighted: bool = False, project: nn.Linear | None = None) -> Tensor:
        return self.inner.sum(x, weighted=weighted, project=project)

    @override
    def mean(self, x: Tensor, *, project: nn.Linear | None = None) -> Tensor:
        return self.projected(x, project, self.inner.mean)

    @override
    def normalised_sum(self, x: Tensor, by: Factors, *, weighted: bool = False) -> Tensor:
        return self.inner.normalised_sum(x, by, weighted=weighted)

    @override
    def self_and_mean(self, x: Tensor | StoredRows, lin_self: nn.Linear, lin_neigh: nn.Linear) -> Tensor:
        x = copied(x)
        means = self.kept.get(lambda: self.inner.mean(x))
        own = x[: self.num_destinations]
        if is_plain(lin_self) and is_plain(lin_neigh) and not torch.is_autocast_enabled(x.device.type):
            return linear_sum(own, means, lin_self, lin_neigh)
        return lin_self(own) + lin_neigh(means)

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
        return self.inner.sampled_weight()

    @override
    def graph_degrees(self) -> Tensor:
        return self.inner.graph_degrees()


@dataclass(frozen=True, kw_only=True)
class CachedFirstLayer(Neighbourhood):
    """What is left of a first block whose sums are kept: numbers of rows; its edges are gone."""

    num_own_sources: int
    """Number of this trainer's sources."""
    num_destinations: int
    """Number of this trainer's destinations."""
    comm: BatchComm | None
    """The communicator of the mini-batch."""

    @override
    def sum(self, x: Tensor, *, weighted: bool = False, project: nn.Linear | None = None) -> Tensor:
        raise ValueError(GONE)

    @override
    def mean(self, x: Tensor, *, project: nn.Linear | None = None) -> Tensor:
        raise ValueError(GONE)

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
        raise ValueError(GONE)

    @override
    def sampled_weight(self) -> Tensor:
        raise ValueError(GONE)

    @override
    def graph_degrees(self) -> Tensor:
        raise ValueError(GONE)
