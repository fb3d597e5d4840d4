"""Blocks: the bipartite graph of one layer of one split, as a model sees it.

A model does ``x = block.exchange(x)`` once per layer and then reads source rows by ``block.indices``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gsplit.nn.exchange import Chain, Route, exchange, scatter_back
from gsplit.sampling.segment import Segment


@dataclass(frozen=True, kw_only=True)
class Block:
    """From the sources (level l-1) to the destinations (level l) of one split.

    The first ``num_destinations`` own sources are the destinations themselves.
    """

    num_destinations: int
    num_own_sources: int
    """Rows of x before the exchange."""
    indptr: Tensor
    """int32 [num_destinations + 1]"""
    indices: Tensor
    """int32 [edges] source rows after the exchange: own rows, then received ones"""
    edge_ids: Tensor | None
    """int64 [edges] positions in the layout's indices, where asked for"""
    edge_weight: Tensor | None
    """[edges] of the drawn edges (the paper's w_e); None where the graph has none, or the model wants none"""
    degrees: Tensor | None
    """[num_own_sources] see :meth:`graph_degrees`"""
    whole_out_degrees: Callable[[], Tensor] | None = None
    """Where all neighbours are taken, in evaluation: gives int64 [inputs of the segment], see :meth:`out_degrees`"""
    route: Route | None
    """None where the block is not split: then the exchange does nothing."""
    chain: Chain | None

    @property
    def num_sources(self) -> int:
        """Rows of x after the exchange."""
        return self.num_own_sources + (0 if self.route is None else self.route.num_received)

    @property
    def num_edges(self) -> int:
        return len(self.indices)

    def in_degrees(self) -> Tensor:
        """int32 [num_destinations] drawn in-edges of each destination."""
        return self.indptr.diff()

    def drawn_weight(self) -> Tensor:
        """[num_destinations] the sum of the weights of the drawn in-edges; without weights, their number."""
        if self.edge_weight is None:
            return self.in_degrees()
        total = self.edge_weight.new_zeros(self.num_destinations)
        return total.index_add(0, self.destinations(), self.edge_weight)

    def graph_degrees(self) -> Tensor:
        """[num_own_sources] the sum of the weights of all in-edges in the whole graph; without weights, their number.

        Raises:
            ValueError: where the block carries none: a model that calls this sets ``uses_degrees = True``.
        """
        if self.degrees is None:
            raise ValueError("the block carries no degrees; set uses_degrees = True on the model")
        return self.degrees

    def out_degrees(self) -> Tensor:
        """int64 [num_sources] drawn out-edges of each source, counted over the whole mini-batch.

        All trainers must ask, or none: the counts travel. In exact evaluation those of the whole graph, so that no
        result depends on which vertices are evaluated together.
        """
        if self.whole_out_degrees is not None:
            return self.whole_out_degrees()[: self.num_sources]
        counts = torch.bincount(self.indices, minlength=self.num_sources)
        if self.route is None or self.chain is None:
            return counts
        return exchange(scatter_back(counts, self.num_own_sources, self.route, self.chain), self.route, self.chain)

    def destinations(self) -> Tensor:
        """int32 [edges] destination row of each edge"""
        rows = torch.arange(self.num_destinations, dtype=torch.int32, device=self.indptr.device)
        return torch.repeat_interleave(rows, self.in_degrees(), output_size=self.num_edges)

    def edge_index(self) -> Tensor:
        """int64 [2, edges] source and destination rows, as PyG's convolutions take them."""
        return torch.stack([self.indices, self.destinations()]).long()

    def adjacency(self, dtype: torch.dtype) -> Tensor:
        """Sparse CSR [num_destinations, num_sources] of edge weights (1 without), PyG's ``adj_t``."""
        weight = self.indices.new_ones(self.num_edges) if self.edge_weight is None else self.edge_weight
        size = (self.num_destinations, self.num_sources)
        return torch.sparse_csr_tensor(self.indptr.long(), self.indices.long(), weight.to(dtype), size=size)

    def exchange(self, x: Tensor) -> Tensor:
        """Own source rows [num_own_sources, ...] -> all source rows [num_sources, ...].

        Raises:
            ValueError: for an ``x`` with another number of rows.
        """
        if x.shape[0] != self.num_own_sources:
            raise ValueError(f"the block has {self.num_own_sources} own source rows, x has {x.shape[0]}")
        if self.route is None or self.chain is None:
            return x
        return exchange(x, self.route, self.chain)


def blocks_of(
    segment: Segment,
    device: torch.device,
    chain: Chain | None,
    *,
    edge_weights: dict[int, Tensor] | None = None,
    degrees: Tensor | None = None,
    whole_out_degrees: Callable[[], Tensor] | None = None,
) -> dict[int, Block]:
    """The blocks of all layers, keyed 1 .. L. Copies the segment to the device in one piece.

    Args:
        segment: of this trainer; unsplit (one part) where ``chain`` is None.
        device: where the blocks shall be.
        chain: of the mini-batch.
        edge_weights: [edges] of each layer, on the device.
        degrees: [num_own_sources of layer 1] of the segment's vertices in the whole graph, on the device.
        whole_out_degrees: for blocks with all neighbours, gives the same of the out-edges.
    """
    assert chain is not None or segment.parts == 1
    data = torch.from_numpy(segment.data).to(device, non_blocking=True)

    def view(at: int, count: int, dtype: torch.dtype) -> Tensor:
        return data[at : at + count * dtype.itemsize].view(dtype)

    blocks = {}
    for layer, header in segment.layers.items():
        route = None
        if chain is not None and segment.parts > 1:
            route = Route(
                send_rows=view(header.send_rows_at, sum(header.send_counts), torch.int32),
                send_counts=header.send_counts,
                receive_counts=header.receive_counts,
                layer=layer,
            )
        blocks[layer] = Block(
            num_destinations=header.num_destinations,
            num_own_sources=header.num_own_sources,
            indptr=view(header.indptr_at, header.num_destinations + 1, torch.int32),
            indices=view(header.indices_at, header.num_edges, torch.int32),
            edge_ids=view(header.edge_ids_at, header.num_edges, torch.int64) if segment.has_edge_ids else None,
            edge_weight=None if edge_weights is None else edge_weights[layer],
            degrees=None if degrees is None else degrees[: header.num_own_sources],
            whole_out_degrees=whole_out_degrees,
            route=route,
            chain=chain,
        )
    return blocks
