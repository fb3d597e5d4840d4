"""Blocks: the bipartite graph of one layer of one split, as a model sees it.

A model does ``x = block.exchange(x)`` once per layer and then reads source rows by ``block.indices``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gsplit.nn.exchange import Lane, Route, exchange
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
    route: Route | None
    """None where the block is not split: then the exchange does nothing."""
    lane: Lane | None

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

    def exchange(self, x: Tensor) -> Tensor:
        """Own source rows [num_own_sources, ...] -> all source rows [num_sources, ...].

        Raises:
            ValueError: for an ``x`` with another number of rows.
        """
        if x.shape[0] != self.num_own_sources:
            raise ValueError(f"the block has {self.num_own_sources} own source rows, x has {x.shape[0]}")
        if self.route is None or self.lane is None:
            return x
        return exchange(x, self.route, self.lane)


def blocks_of(segment: Segment, device: torch.device, lane: Lane | None) -> dict[int, Block]:
    """The blocks of all layers, keyed 1 .. L. Copies the segment to the device in one piece.

    With ``lane`` None the segment must be unsplit (one part).
    """
    assert lane is not None or segment.parts == 1
    data = torch.from_numpy(segment.data).to(device, non_blocking=True)

    def view(at: int, count: int, dtype: torch.dtype) -> Tensor:
        return data[at : at + count * dtype.itemsize].view(dtype)

    blocks = {}
    for layer, header in segment.layers.items():
        route = None
        if lane is not None and segment.parts > 1:
            route = Route(
                send_rows=view(header.send_rows_at, sum(header.send_counts), torch.int32),
                send_counts=header.send_counts,
                receive_counts=header.receive_counts,
            )
        blocks[layer] = Block(
            num_destinations=header.num_destinations,
            num_own_sources=header.num_own_sources,
            indptr=view(header.indptr_at, header.num_destinations + 1, torch.int32),
            indices=view(header.indices_at, header.num_edges, torch.int32),
            edge_ids=view(header.edge_ids_at, header.num_edges, torch.int64) if segment.has_edge_ids else None,
            route=route,
            lane=lane,
        )
    return blocks
