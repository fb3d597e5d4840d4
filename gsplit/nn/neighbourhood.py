"""The seam where models meet parallelism: what a convolution may ask of the in-edges of its layer.

A convolution gives rows of its own sources and gets rows of its own destinations. Where the rows of other trainers
come from, what is sent, and whether rows are projected before or after they are summed is the business of the block.
:class:`~gsplit.nn.block.Block`, a layer of a sampled mini-batch, exchanges rows and sums over the drawn edges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gsplit.kernels import StoredRows, copied
from gsplit.nn.exchange import BatchComm, times
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import linear


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Numbers of a normalised sum ``sums_v * sum over u of sources_u x_u + own_v x_v``; none of them is trained.

    Raises:
        ValueError: for factors that want a gradient, which none would get.

    Examples:
        >>> halves = Factors(sums=torch.tensor([0.5, 0.5]), own=torch.tensor([1.0, 1.0]))
        >>> block.normalised_sum(torch.tensor([[1.0], [2.0], [4.0]]), halves)  # 1 + (2 + 4) / 2, and 2 + 1 / 2
        tensor([[4.0000],
                [2.5000]])
    """

    sources: Tensor | None = None
    """[num_own_sources]; None: 1."""
    sums: Tensor | None = None
    """[num_destinations]; None: 1."""
    own: Tensor | None = None
    """[num_destinations]; None: 0."""

    def __post_init__(self) -> None:
        if any(each is not None and each.requires_grad for each in vars(self).values()):
            raise ValueError(
                "factors of a normalised sum get no gradient: multiply what is trained to the rows or sums"
            )

    def turned(self) -> Factors:
        """The factors of backward, where the gradient of x is such a sum of that of the result."""
        return Factors(sources=self.sums, sums=self.sources, own=self.own)

    def to(self, dtype: torch.dtype) -> Factors:
        """The same factors in a type."""
        return Factors(**{name: None if each is None else each.to(dtype) for name, each in vars(self).items()})

    def applied(self, sums: Tensor, x: Tensor) -> Tensor:
        """Sums [rows, D] of their own memory, multiplied by their factors, and with what is added of own rows x."""
        if self.sums is not None:
            sums.mul_(self.sums.unsqueeze(1))
        if self.own is not None:
            sums[: len(self.own)].addcmul_(self.own.unsqueeze(1), x[: len(self.own)])
        return sums


NO_FACTORS = Factors()
"""Factors of plain sums: none."""


class Neighbourhood(ABC):
    """The in-edges of one layer, as a convolution sees them: from level l-1 (sources) to level l (destinations).

    Another kind of block is a subclass with these three attributes and the abstract methods. ``sum``, ``mean`` and
    ``attend`` may send rows, so all trainers make the same calls in the same order, also with no rows. Where a vertex
    has no in-edges, a sum or a mean is zero.

    Examples:
        >>> isinstance(block, Neighbourhood)  # the one of gsplit.nn.Block's example
        True
        >>> block.sum(torch.tensor([[1.0], [2.0], [4.0]]))
        tensor([[6.],
                [1.]])
    """

    num_own_sources: int
    """Number of own sources: the rows that a convolution gives."""
    num_destinations: int
    """Number of destinations: the rows that it gets. The first own sources are the destinations."""
    comm: BatchComm | None
    """The communicator of the mini-batch, over which batch normalisation sums; None: one process has all rows."""
    sums_all: bool = False
    """Whether sums are known to stand for all in-edges in the whole graph, so that :meth:`sampled_weight` is what
    :meth:`graph_degrees` says of the destinations, but for rounding."""

    @abstractmethod
    def sum(self, x: Tensor, *, weighted: bool = False, project: nn.Linear | None = None) -> Tensor:
        """Sum over the in-edges of each destination.

        Args:
            x: [num_own_sources, D] rows of the own sources.
            weighted: multiply by the edge weights, where the block carries any.
            project: linear map without bias of the rows or of the sums, see :meth:`projected`.

        Returns:
            [num_destinations, D], or as wide as ``project`` makes it, in the dtype of x.
        """

    @abstractmethod
    def mean(self, x: Tensor, *, project: nn.Linear | None = None) -> Tensor:
        """Mean over the in-edges of each destination, whatever their weights; shapes as :meth:`sum`'s."""

    def normalised_sum(self, x: Tensor, by: Factors, *, weighted: bool = False) -> Tensor:
        """``sums_v * sum over u of w_uv sources_u x_u + own_v x_v`` of each destination v.

        Args:
            x: [num_own_sources, D] rows of the own sources.
            by: the factors, in the type that rows like x are added up in.
            weighted: multiply by the edge weights w, where the block carries any.

        Returns:
            [num_destinations, D].
        """
        # Each trainer scales its own rows before they travel, so that no factor has to.
        sums = times(self.sum(times(x, by.sources), weighted=weighted), by.sums)
        if by.own is None:
            return sums
        return torch.addcmul(sums, by.own.unsqueeze(1), x[: self.num_destinations]).to(x.dtype)

    def self_and_mean(
        self, x: Tensor | StoredRows, lin_self: nn.Linear, lin_neigh: nn.Linear, finish: Finish | None = None
    ) -> Tensor:
        """``lin_self`` of each destination's own row, plus the mean over its in-edges projected by ``lin_neigh``.

        Args:
            x: [num_own_sources, D] rows of the own sources.
            lin_self: linear map from D features.
            lin_neigh: linear map without bias, as wide as ``lin_self``.
            finish: what stands behind the layer.

        Returns:
            [num_destinations, as wide as the maps make it].
        """
        x = copied(x)
        rows = lin_self(x[: self.num_destinations]) + self.mean(x, project=lin_neigh)
        return rows if finish is None else finish(rows)

    @abstractmethod
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
        """Additive attention over the in-edges of each destination (Velickovic et al., ICLR 2018, equations 3 and 4).

            e_uv = LeakyReLU(att_source . z_u + att_destination . z_v)          per head
            out_v = sum over u of dropout(softmax_u(e_uv)) z_u

        Nothing of the size of the edges is wider than the heads.

        Args:
            z: [num_own_sources, heads, D] projected rows of the own sources.
            att_source, att_destination: [heads, D].
            negative_slope: slope of the LeakyReLU below 0.
            dropout: the shares, [edges, heads] or [num_destinations, heads], are multiplied by what it makes of ones.
            loops: whether every destination attends to itself, too.

        Returns:
            [num_destinations, heads, D].
        """

    @abstractmethod
    def sampled_weight(self) -> Tensor:
        """Weight of the in-edges that :meth:`sum` stands for, [num_destinations]; without weights, their number."""

    @abstractmethod
    def graph_degrees(self) -> Tensor:
        """Weight of all in-edges in the whole graph, [num_own_sources]; their number without weights.

        Raises:
            ValueError: where the block carries none; a model that asks sets ``uses_degrees = True``.
        """

    def projected(
        self,
        x: Tensor,
        project: nn.Linear | None,
        aggregate: Callable[[Tensor], Tensor],
        bias: Tensor | None = None,
        finish: Finish | None = None,
    ) -> Tensor:
        """``aggregate(project(x))`` or ``project(aggregate(x))``, whichever has narrower rows to aggregate.

        Both are equal but for rounding.

        Args:
            x: [num_own_sources, D] rows of the own sources.
            project: linear map without bias; None: x is aggregated as it is.
            aggregate: gives rows of the destinations for rows of the own sources; it must be linear in them.
            bias: as wide as the result, added to it.
            finish: what stands behind it.

        Raises:
            ValueError: for a ``project`` with a bias, which a sum would count once for each edge.
        """
        if project is not None and not narrows(project):
            return linear(aggregate(x), project, bias, finish)
        return finished(aggregate(x if project is None else linear(x, project)), bias, finish)


def finished(sums: Tensor, bias: Tensor | None, finish: Finish | None) -> Tensor:
    """``finish(sums + bias)`` for sums [n, D]."""
    if finish is not None:
        return finish(sums, bias)
    return sums if bias is None else (sums + bias).to(sums.dtype)


def narrows(project: nn.Linear) -> bool:
    """Return whether a projection of neighbours makes their rows narrower, and is better done before they are summed.

    Raises:
        ValueError: for a ``project`` with a bias, which a sum would count once for each edge.
    """
    if project.bias is not None:
        raise ValueError("a projection of neighbours must have no bias; add the bias to the result")
    return project.in_features > project.out_features
