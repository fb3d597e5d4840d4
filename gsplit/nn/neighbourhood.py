"""The seam where models meet parallelism: what a convolution may ask of the in-edges of its layer.

A convolution gives rows of its own sources and gets rows of its own destinations. Where the rows of other trainers
come from, what is sent, and whether rows are projected before or after they are summed is the business of the block.
:class:`~gsplit.nn.block.Block`, a layer of a sampled mini-batch, exchanges rows and sums over the drawn edges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from gsplit.kernels import StoredRows, copied
from gsplit.nn.dense import linear
from gsplit.nn.exchange import Chain


class Neighbourhood(ABC):
    """The in-edges of one layer, as a convolution sees them: from level l-1 (sources) to level l (destinations).

    Another kind of block is a subclass with these three attributes and the abstract methods. ``sum``, ``mean`` and
    ``attend`` may send rows, so all trainers make the same calls in the same order, also with no rows. Where a vertex
    has no in-edges, a sum or a mean is zero.
    """

    num_own_sources: int
    """Number of own sources: the rows that a convolution gives."""
    num_destinations: int
    """Number of destinations: the rows that it gets. The first own sources are the destinations."""
    chain: Chain | None
    """The chain of the mini-batch, which batch normalisation sums over; None where one process has all rows."""

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

    def self_and_mean(self, x: Tensor | StoredRows, lin_self: nn.Linear, lin_neigh: nn.Linear) -> Tensor:
        """``lin_self`` of each destination's own row, plus the mean over its in-edges projected by ``lin_neigh``.

        Args:
            x: [num_own_sources, D] rows of the own sources.
            lin_self: linear map from D features.
            lin_neigh: linear map without bias, as wide as ``lin_self``.

        Returns:
            [num_destinations, as wide as the maps make it].
        """
        x = copied(x)
        return lin_self(x[: self.num_destinations]) + self.mean(x, project=lin_neigh)

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
    def drawn_weight(self) -> Tensor:
        """Weight of the in-edges that :meth:`sum` stands for, [num_destinations]; without weights, their number."""

    @abstractmethod
    def graph_degrees(self) -> Tensor:
        """Weight of all in-edges in the whole graph, [num_own_sources]; their number without weights.

        Raises:
            ValueError: where the block carries none; a model that asks sets ``uses_degrees = True``.
        """

    def projected(self, x: Tensor, project: nn.Linear | None, aggregate: Callable[[Tensor], Tensor]) -> Tensor:
        """``aggregate(project(x))`` or ``project(aggregate(x))``, whichever has narrower rows to aggregate.

        Both are equal but for rounding.

        Args:
            x: [num_own_sources, D] rows of the own sources.
            project: linear map without bias; None: x is aggregated as it is.
            aggregate: gives rows of the destinations for rows of the own sources; it must be linear in them.

        Raises:
            ValueError: for a ``project`` with a bias, which a sum would count once for each edge.
        """
        if project is None:
            return aggregate(x)
        return aggregate(linear(x, project)) if narrows(project) else linear(aggregate(x), project)


def narrows(project: nn.Linear) -> bool:
    """Whether a projection of neighbours makes their rows narrower, and is better done before they are summed.

    Raises:
        ValueError: for a ``project`` with a bias, which a sum would count once for each edge.
    """
    if project.bias is not None:
        raise ValueError("a projection of neighbours must have no bias; add the bias to the result")
    return project.in_features > project.out_features
