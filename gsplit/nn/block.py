"""Blocks: the bipartite graph of one layer of one split, as it was sampled.

Convolutions ask a block for sums, means and attention over neighbours (:mod:`gsplit.nn.neighbourhood`), for which it
exchanges rows and sums over the drawn edges. Other models do ``x = block.exchange(x)`` once a layer and then read
source rows by ``block.indices``, where trainers do not send each other sums of rows (``--exchange auto``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn
from typing_extensions import override

from gsplit.kernels import Edges, StoredRows, Sums, TwoWayEdges, computed_in, copied, kernels_for, product_dtype
from gsplit.nn.aggregate import neighbour_sum
from gsplit.nn.attention import attention_over_neighbours
from gsplit.nn.exchange import BatchComm, Route, exchange, scatter_back
from gsplit.nn.neighbourhood import NO_FACTORS, Factors, Neighbourhood, finished, narrows
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import both_linear, is_plain, linear_sum


@dataclass(frozen=True, kw_only=True)
class Block(Neighbourhood):
    """One layer of one split of a mini-batch: edges from its sources (level l-1) to its destinations (level l).

    The first ``num_destinations`` own sources are the destinations themselves.

    Examples:
        >>> ends, sources = torch.tensor([0, 2, 3], dtype=torch.int32), torch.tensor([1, 2, 0], dtype=torch.int32)
        >>> none = {"edge_ids": None, "edge_weight": None, "degrees": None, "route": None, "comm": None}
        >>> block = Block(num_destinations=2, num_own_sources=3, indptr=ends, indices=sources, **none)
        >>> block.mean(torch.tensor([[1.0], [2.0], [4.0]]))  # of vertex 0 from 1 and 2, of vertex 1 from 0
        tensor([[3.],
                [1.]])
    """

    num_destinations: int
    """Number of destinations, all of this split."""
    num_own_sources: int
    """Number of sources of this split: rows of x before the exchange."""
    indptr: Tensor
    """Where the edges of each destination begin in ``indices``, int32 [num_destinations + 1]."""
    indices: Tensor
    """Source row of each edge after the exchange, int32 [edges]: own rows come first, then received ones. The edge
    from one that is a sum of rows stands for several drawn edges."""
    num_own_edges: int | None = None
    """Number of edges from own sources; None: not known, and on accelerators no sum overlaps with the exchange."""
    edge_ids: Tensor | None
    """Position of each edge in the layout's indices, int64 [edges], -1 of an edge from a sum; None where nobody asked
    for it."""
    edge_weight: Tensor | None
    """Weight of each drawn edge (the paper's w_e), [edges]; None: the graph has none, or the model wants none. Where
    edges have scales, that times what the edge counts, also of graphs without weights."""
    edge_scale: Tensor | None = None
    """What each edge counts in sums and means without weights, [edges]: sums are estimates of those over all in-edges
    then (:mod:`gsplit.features.estimates`). None: 1 each, and sums are over the drawn edges."""
    degrees: Tensor | None
    """Degree of each own source, [num_own_sources], as :meth:`graph_degrees` gives it; None: the model wants none."""
    whole_out_degrees: Callable[[], Tensor] | None = None
    """Function that gives the out-degrees of all sources in the whole graph, int64 [at least num_sources]. It is set
    where all neighbours are taken, in evaluation and on the whole graph, and :meth:`out_degrees` calls it."""
    graph_loops: Callable[[], Tensor] | None = None
    """Function that says which of the own sources, or more, have an edge to themselves in the whole graph, bool [at
    least num_own_sources]; :meth:`has_loop` calls it."""
    route: Route | None
    """Which rows the exchange moves; None where the block is not split, and the exchange does nothing."""
    send_weight: Tensor | None = None
    """Weight of each of the route's ``send_rows`` in the sums sent, [own rows]; None: no weights, or no sums."""
    sampled_degrees: Tensor | None = None
    """Number of in-edges that the sum of each destination stands for, int32 [num_destinations]: of all that were
    drawn where some of the rows received are sums, of all in the graph where edges have scales. None: as ``indptr``
    says."""
    drawn_weights: Tensor | None = None
    """Weight of the same in-edges, [num_destinations]; None: that of the block's edges."""
    sums_all: bool = False
    """Whether sums are known to stand for all in-edges in the whole graph: all were drawn, or edges have scales."""
    comm: BatchComm | None
    """The communicator of the mini-batch; None in evaluation, where each trainer has all rows that it needs."""
    same_edges: TwoWayEdges | None = None
    """The edges of another block, where both have the same, so that they are transposed once; None: its own."""

    def with_comm(self, comm: BatchComm) -> Block:
        """The same block in another mini-batch; what was made of its edges stays made."""
        return replace(self, comm=comm, same_edges=self.two_way)

    def without_rows(self) -> Block:
        """A block like this one, not split, that has neither sources nor destinations."""
        return replace(
            self,
            num_destinations=0,
            num_own_sources=0,
            indptr=self.indptr.new_zeros(1),
            indices=self.indices[:0],
            num_own_edges=0,
            edge_ids=None if self.edge_ids is None else self.edge_ids[:0],
            edge_weight=None if self.edge_weight is None else self.edge_weight[:0],
            edge_scale=None if self.edge_scale is None else self.edge_scale[:0],
            degrees=None if self.degrees is None else self.degrees[:0],
            whole_out_degrees=None,
            route=None,
            send_weight=None,
            sampled_degrees=None if self.sampled_degrees is None else self.sampled_degrees[:0],
            drawn_weights=None if self.drawn_weights is None else self.drawn_weights[:0],
            comm=None,
            same_edges=None,
        )

    @property
    def num_sources(self) -> int:
        """Number of all sources: rows of x after the exchange."""
        return self.num_own_sources + (0 if self.route is None else self.route.num_received)

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.indices)

    @cached_property
    def two_way(self) -> TwoWayEdges:
        """The edges, a row for each destination, and for backward a row for each source."""
        if self.same_edges is not None and _is_same(self.same_edges.edges.indices, self.indices):
            return self.same_edges
        return TwoWayEdges(Edges(indptr=self.indptr, indices=self.indices), self.num_sources, self.num_own_edges)

    def in_degrees(self) -> Tensor:
        """Number of in-edges that the sum of each destination stands for, int32 [num_destinations]."""
        return self.indptr.diff() if self.sampled_degrees is None else self.sampled_degrees

    @override
    def sampled_weight(self) -> Tensor:
        """Weight of the in-edges that :meth:`sum` stands for, [num_destinations]; without weights, their number."""
        if self.drawn_weights is not None:
            return self.drawn_weights
        if self.edge_weight is None or self.edge_scale is not None:
            return self.in_degrees()
        weight, total = self.edge_weight, self.edge_weight.new_empty(self.num_destinations)
        kernels_for(weight).sum(Sums(self.two_way.edges.of_values(), weight.unsqueeze(1), None, total.unsqueeze(1)))
        return total

    @override
    def graph_degrees(self) -> Tensor:
        """Sum of the weights of all in-edges in the whole graph, [num_own_sources]; without weights, their number.

        Edges that a mini-batch of links must not see are not counted.

        Raises:
            ValueError: where the block carries none; a model that calls this sets ``uses_degrees = True``.
        """
        if self.degrees is None:
            raise ValueError("the block carries no degrees; set uses_degrees = True on the model")
        return self.degrees

    def has_loop(self) -> Tensor:
        """Return whether each own source has an edge to itself in the whole graph, bool [num_own_sources].

        Raises:
            ValueError: where the block does not know.
        """
        if self.graph_loops is None:
            raise ValueError("the block was made without graph_loops, and cannot tell which vertices have loops")
        return self.graph_loops()[: self.num_own_sources]

    def out_degrees(self) -> Tensor:
        """Number of drawn out-edges of each source, int64 [num_sources], counted over the whole mini-batch.

        All trainers must ask, or none: the counts travel. In exact evaluation, and with ``--strategy full``, the
        out-edges of the whole graph are counted, so that no result depends on which vertices are computed together.

        Raises:
            ValueError: where sums are sent, as :meth:`exchange` does.
        """
        self._check_rows_alone()
        if self.whole_out_degrees is not None:
            return self.whole_out_degrees()[: self.num_sources]
        counts = torch.bincount(self.indices, minlength=self.num_sources)
        if self.route is None or self.comm is None:
            return counts
        return exchange(scatter_back(counts, self.num_own_sources, self.route, self.comm), self.route, self.comm)

    def destinations(self) -> Tensor:
        """Destination row of each edge, int32 [edges].

        Raises:
            ValueError: where sums are sent, as :meth:`exchange` does.
        """
        self._check_rows_alone()
        return self.two_way.edges.rows()

    def edge_index(self) -> Tensor:
        """Source and destination row of each edge, int64 [2, edges], as PyG's; raises as :meth:`destinations`."""
        return torch.stack([self.indices, self.destinations()]).long()

    def adjacency(self, dtype: torch.dtype) -> Tensor:
        """Edge weights (1 without) as a sparse CSR tensor [num_destinations, num_sources], PyG's ``adj_t``."""
        self._check_rows_alone()
        weight = self.edge_scale if self.edge_weight is None else self.edge_weight
        weight = self.indices.new_ones(self.num_edges) if weight is None else weight
        edges = self.indptr.long(), self.indices.long(), weight.to(dtype)
        return torch.sparse_csr_tensor(*edges, size=(self.num_destinations, self.num_sources))

    def exchange(self, x: Tensor) -> Tensor:
        """Rows of all sources [num_sources, ...]: the own ones, x [num_own_sources, ...], then the received ones.

        Raises:
            ValueError: for an ``x`` with another number of rows, and where the trainers send sums of rows, which only
                models ask for that say ``uses_source_rows = False``.
        """
        self._check_rows(x)
        self._check_rows_alone()
        if self.route is None or self.comm is None:
            return x
        return exchange(x, self.route, self.comm)

    def _check_rows(self, x: Tensor | StoredRows) -> None:
        if x.shape[0] != self.num_own_sources:
            raise ValueError(f"the block has {self.num_own_sources} own source rows, x has {x.shape[0]}")

    def _check_rows_alone(self) -> None:
        receives_sums = self.sampled_degrees is not None and self.edge_scale is None
        if receives_sums or (self.route is not None and self.route.sums is not None):
            raise ValueError(
                "trainers send sums of rows here, so the rows of all sources cannot be had; leave out "
                "uses_source_rows = False on the model, or use --exchange rows"
            )

    @override
    def sum(self, x: Tensor, *, weighted: bool = False, project: nn.Linear | None = None) -> Tensor:
        weight = self._edge_factors(x, weighted=weighted)
        return self.projected(x, project, lambda rows: self._summed(rows, weight=weight))

    @override
    def mean(self, x: Tensor, *, project: nn.Linear | None = None, weighted: bool = False) -> Tensor:
        """As :meth:`Neighbourhood.mean`; ``weighted``: multiply rows by edge weights, and divide by their number."""
        scale = self._edge_factors(x, weighted=weighted)
        return self.projected(x, project, lambda rows: self._summed(rows, weight=scale, mean=True))

    @override
    def normalised_sum(self, x: Tensor, by: Factors, *, weighted: bool = False) -> Tensor:
        by = by.to(computed_in(x.dtype))
        return self._summed(x, weight=self._edge_factors(x, weighted=weighted), by=by)

    @override
    def self_and_mean(
        self, x: Tensor | StoredRows, lin_self: nn.Linear, lin_neigh: nn.Linear, finish: Finish | None = None
    ) -> Tensor:
        """Own rows projected, and to that added the means: projected, or of projections where those are narrower."""
        self._check_rows(x)
        if not (is_plain(lin_self) and is_plain(lin_neigh)):
            return super().self_and_mean(x, lin_self, lin_neigh, finish)
        if narrows(lin_neigh):
            own, rows = both_linear(x, self.num_destinations, lin_self, lin_neigh)
            sums = self._summed(rows, weight=self._factor(self.edge_scale, rows), mean=True, start=own)
            return finished(sums, None, finish)
        means, own_rows = neighbour_sum(
            self.two_way,
            copied(x).to(product_dtype(x)),
            self.route,
            self.comm,
            weight=self._factor(self.edge_scale, x),
            mean=True,
            own=True,
            drawn=self.sampled_degrees,
        )
        assert own_rows is not None
        return linear_sum(own_rows, means, lin_self, lin_neigh, finish)

    def _edge_factors(self, x: Tensor, *, weighted: bool) -> Tensor | None:
        """Weights of the edges where there are any and they are asked for, else their scales, for rows like x."""
        return self._factor(self.edge_weight if weighted and self.edge_weight is not None else self.edge_scale, x)

    @staticmethod
    def _factor(values: Tensor | None, x: Tensor | StoredRows) -> Tensor | None:
        """Factors of edges in the type that rows like ``x`` are added up in."""
        return None if values is None else values.to(computed_in(x.dtype))

    def _summed(
        self,
        x: Tensor,
        *,
        weight: Tensor | None = None,
        mean: bool = False,
        start: Tensor | None = None,
        by: Factors = NO_FACTORS,
    ) -> Tensor:
        self._check_rows(x)
        route = self.route
        if route is not None and weight is not None and self.send_weight is not None:
            route = replace(route, sum_weight=self.send_weight.to(computed_in(x.dtype)).unsqueeze(1))
        drawn = self.sampled_degrees
        return neighbour_sum(
            self.two_way, x, route, self.comm, weight=weight, mean=mean, start=start, drawn=drawn, by=by
        )[0]

    @override
    def attend(
        self,
        z: Tensor,
        att_source: Tensor,
        att_destination: Tensor | None,
        *,
        negative_slope: float,
        dropout: Callable[[Tensor], Tensor],
        loops: bool,
        of_destinations: Tensor | None = None,
    ) -> Tensor:
        """As :meth:`Neighbourhood.attend`.

        Where destinations are not among the sources, ``of_destinations`` [num_destinations, heads] are their scores,
        in the dtype that rows like z are added up in; then there is no ``att_destination``, and there are no loops.
        """
        self._check_rows(z)
        self._check_rows_alone()
        return attention_over_neighbours(
            self.two_way,
            z,
            self.route,
            self.comm,
            att_source,
            att_destination,
            negative_slope=negative_slope,
            dropout=dropout,
            loops=loops,
            scale=self._factor(self.edge_scale, z),
            of_destinations=of_destinations,
        )


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors of one type are the same memory."""
    return one.shape == other.shape and one.data_ptr() == other.data_ptr()
