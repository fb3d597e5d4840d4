"""The one mini-batch of the whole graph, on one trainer: made once, handed out every epoch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.engine.evaluation import bounds_of
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.parts import Parts
from gsplit.features import LoadCounters
from gsplit.full import COLUMNS, ROWS, Plan, levels_of
from gsplit.full.common_link import CommonLink
from gsplit.full.common_rows import CommonRows
from gsplit.full.first_sum import FirstBlock, Kept
from gsplit.full.moves import Moves, fresh_counters
from gsplit.full.operators import CommonOperator, GridOperator, Operator, Sizes, turned_round
from gsplit.full.routes import all_other_rows, remote_sources, route_to
from gsplit.full.shards import Shard, places_of, read_shard
from gsplit.full.whole_block import WholeBlock
from gsplit.nn import GCN, SAGE, Block, Chain
from gsplit.nn.exchange import Link
from gsplit.nn.neighbourhood import Neighbourhood
from gsplit.nn.norm import BatchNorm
from gsplit.parallel.collectives import all_reduce
from gsplit.runs.log import level_name
from gsplit.supply.ring import Handle

logger = logging.getLogger(__name__)

Bind = Callable[[Chain], Neighbourhood]
"""A block that waits for the chain of its mini-batch."""


class WholeBatches:
    """The mini-batches of one trainer, which are all the same; all trainers make one, together.

    Args:
        parts: of the trainer.
        plan: of the run.
    """

    def __init__(self, parts: Parts, plan: Plan) -> None:
        start_s = time.perf_counter()
        self._parts, self._plan = parts, plan
        member, graph, config = parts.member, parts.layout.graph, parts.run.config
        self._grid = plan.grid
        self._common = CommonRows(member, parts.shared.rows)
        self._moves = Moves.of(member) if not plan.of_all_sources else None
        bounds = bounds_of(parts.layout, member.world)
        self._begin, self._end = int(bounds[member.rank]), int(bounds[member.rank + 1])
        self._levels = levels_of(
            graph,
            bounds,
            config.layers,
            whole=needs_all_rows(parts.model),
            begin=self._begin,
            end=self._end,
            combine=lambda mark_N: all_reduce(torch.from_numpy(mark_N), member.group, "max"),
        )
        self._vertices = self._levels.vertices(member.rank)
        self._degrees = parts.edges.degrees_of(self._vertices) if parts.edges.degrees else None
        self._edges: dict[int, int] = {}
        self._blocks = {layer: self._block(layer) for layer in range(1, config.layers + 1)}
        self._kept = Kept() if sums_features(parts.model) and parts.trained is None else None
        if member.rank == 0 and self._kept is None:
            logger.info("the sums of the first layer are taken anew in every epoch: they are no sums of the features")
        self._x: Callable[[], Tensor]
        features = parts.loading.loader(parts.run.dtype)
        if parts.trained is None:
            x = features.load(self._vertices)
            self._x = lambda: x
        else:
            self._x = parts.trained.of_vertices(self._vertices)
        targets = self._vertices[: self._levels.sizes[member.rank, -1]]
        self._labels = torch.from_numpy(graph.labels[targets]).to(member.device)
        self._loaded = features.take_counters()
        self._own_sizes = [int(size) for size in self._levels.sizes[member.rank]]
        del self._levels
        self._seconds = time.perf_counter() - start_s

    def make(self, handle: Handle) -> MiniBatch:
        """The mini-batch of a ticket."""
        chain = self._chain()
        blocks = {layer: bind(chain) for layer, bind in self._blocks.items()}
        edges = dict(self._edges)
        if self._kept is not None:
            if self._kept.sums is not None:
                edges[1] = 0
            blocks[1] = FirstBlock(inner=blocks[1], kept=self._kept)
        loaded, self._loaded = self._loaded, LoadCounters()
        seconds, self._seconds = self._seconds, 0.0
        sizes = self._own_sizes
        return MiniBatch(
            handle=handle,
            num_targets=len(self._parts.layout.graph.train_idx),
            chain=chain,
            blocks=blocks,
            x=self._x(),
            labels=self._labels,
            loaded=loaded,
            counts={
                "sampled_edges": 0,
                "computed_edges": sum(edges.values()),
                "computed_vertices": sum(sizes[1:]),
                "segment_bytes": 0,
                **{level_name(level): size for level, size in enumerate(sizes)},
            },
            seconds={"sample": 0.0, "load": seconds},
        )

    def _chain(self) -> Chain:
        member, counters = self._parts.member, fresh_counters()
        link = None
        if self._plan.algorithm == "shared":
            link = CommonLink(
                group=member.group, counters=counters, board=member.board, common=self._common, rank=member.rank
            )
        if self._moves is not None:
            self._moves.counters = counters
        return Chain(
            member.group,
            counters,
            member.device,
            board=member.board,
            exchange_dtype=self._parts.run.exchange_dtype,
            link=cast("Link | None", link),
        )

    def _block(self, layer: int) -> Bind:
        plan, model = self._plan, self._parts.model
        if not plan.of_all_sources or (plan.algorithm == "shared" and type(model) in (SAGE, GCN)):
            return self._summed(layer)
        return self._exchanged(layer)

    def _exchanged(self, layer: int) -> Bind:
        """A block that is brought the rows of other trainers, and sums by itself."""
        levels, member = self._levels, self._parts.member
        others = (
            all_other_rows(levels, layer, member.rank)
            if self._plan.algorithm == "1d"
            else remote_sources(self._parts.layout.graph, levels, layer, member.rank)
        )
        route = route_to(others, levels, layer, member) if member.world > 1 else None
        own = self._own(layer - 1)
        place_N = np.full(len(levels.row_N), -1, np.int32)
        row_V = levels.row_N[self._begin : self._end]
        np.copyto(place_N[self._begin : self._end], row_V, where=row_V < own)
        place_N[others] = own + np.arange(len(others))
        shard = self._read(layer, range(member.rank, member.rank + 1), place_N)
        self._edges[layer] = len(shard.edges.indices)
        edges = on_device(shard, member.device, self._parts.run.dtype)
        block = Block(
            num_destinations=self._own(layer),
            num_own_sources=own,
            indptr=edges.edges.indptr,
            indices=edges.edges.indices,
            edge_ids=None,
            edge_weight=edges.weight,
            degrees=None if self._degrees is None else self._degrees[:own],
            whole_out_degrees=None,
            route=route,
            chain=None,
        )
        return block.with_chain

    def _summed(self, layer: int) -> Bind:
        """A block that is brought the sums, by all trainers together."""
        parts, member = self._parts, self._parts.member
        operator = self._common_operator(layer) if self._moves is None else self._grid_operator(layer, self._moves)
        destinations, sources = self._vertices[: self._own(layer)], self._own(layer - 1)
        indptr = parts.layout.graph.indptr
        degrees = (indptr[destinations + 1] - indptr[destinations]).astype(np.int32)
        block = WholeBlock(
            num_own_sources=sources,
            num_destinations=len(destinations),
            layer=layer,
            operator=operator,
            in_degrees=torch.from_numpy(degrees).to(member.device),
            in_weights=parts.edges.degrees_of(destinations) if parts.edges.weights else None,
            degrees=None if self._degrees is None else self._degrees[:sources],
            chain=_no_chain(member.device),
        )
        return lambda chain: replace(block, chain=chain)

    def _common_operator(self, layer: int) -> Operator:
        levels, member = self._levels, self._parts.member
        everyone = range(member.world)
        place_N = places_of(levels, layer - 1, everyone)
        shard = self._read(layer, range(member.rank, member.rank + 1), place_N)
        self._edges[layer] = len(shard.edges.indices)
        sources, destinations = (levels.sizes[:, level].tolist() for level in (layer - 1, layer))
        turned = turned_round(shard, member, sources, first=sum(destinations[: member.rank]))
        dtype = self._parts.run.dtype
        return CommonOperator(
            on_device(shard, member.device, dtype),
            on_device(turned, member.device, dtype),
            self._common,
            sources,
            destinations,
        )

    def _grid_operator(self, layer: int, moves: Moves) -> Operator:
        levels, grid, rank = self._levels, self._grid, self._parts.member.rank
        row = [peer for peer in range(grid.world) if grid.coordinate(peer, ROWS) == grid.coordinate(rank, ROWS)]
        column = [
            peer for peer in range(grid.world) if grid.coordinate(peer, COLUMNS) == grid.coordinate(rank, COLUMNS)
        ]
        place_N = places_of(levels, layer - 1, column)
        shard = self._read(layer, range(row[0], row[-1] + 1), place_N)
        self._edges[layer] = len(shard.edges.indices)
        return GridOperator(
            on_device(shard, self._parts.member.device, self._parts.run.dtype),
            moves,
            Sizes.of(levels, layer - 1, grid, rank, ROWS),
            Sizes.of(levels, layer, grid, rank, COLUMNS),
        )

    def _read(self, layer: int, trainers: range, place_N: NDArray[np.int32]) -> Shard:
        """The edges into the destinations of some trainers, which own one range of the layout between them."""
        levels, graph = self._levels, self._parts.layout.graph
        begin, end = int(levels.bounds[trainers.start]), int(levels.bounds[trainers.stop])
        row_N = places_of(levels, layer, trainers)
        weights = graph.edge_weight if self._parts.edges.weights else None
        rows = int(levels.sizes[trainers.start : trainers.stop, layer].sum())
        return read_shard(graph, begin, end, row_N[begin:end], rows, place_N, weights)

    def _own(self, level: int) -> int:
        """Number of this trainer's rows of a level."""
        return int(self._levels.sizes[self._parts.member.rank, level])


def needs_all_rows(model: nn.Module) -> bool:
    """Whether a model would notice if rows that no training vertex depends on were left out."""
    return any(isinstance(module, BatchNorm) for module in model.modules())


def sums_features(model: nn.Module) -> bool:
    """Whether the first layer of a model sums the features as they are: the same sum in every epoch."""
    ours = isinstance(model, SAGE | GCN) and type(model) in (SAGE, GCN)  # what is derived may do anything
    return ours and model.projection is None and model.input_dropout.p == 0


def on_device(shard: Shard, device: torch.device, dtype: torch.dtype) -> Shard:
    """The same edges where they are summed, with weights in the type of the rows."""

    def there(values: Tensor) -> Tensor:
        return values.to(device)

    edges = replace(shard.edges, indptr=there(shard.edges.indptr), indices=there(shard.edges.indices))
    return Shard(edges, None if shard.weight is None else there(shard.weight).to(dtype))


def _no_chain(device: torch.device) -> Chain:
    return Chain(None, fresh_counters(), device)
