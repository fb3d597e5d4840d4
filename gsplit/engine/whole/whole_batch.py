"""The one mini-batch of the whole graph, on one trainer: made once, handed out every epoch."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.engine.components import Components
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.whole.own_rows import OwnRows
from gsplit.engine.whole.recomputing import RecomputedMiniBatch
from gsplit.features import LoadCounters
from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan
from gsplit.full.common_link import CommonLink
from gsplit.full.common_rows import CommonRows
from gsplit.full.covers import Covered, edges_of_sums
from gsplit.full.edge_shares import EdgeBlock, EdgeShare, read_edge_share
from gsplit.full.first_sum import FirstBlock, FirstSums
from gsplit.full.grid_attention import GridAttention, places_of_own
from gsplit.full.grid_operator import GridOperator
from gsplit.full.moves import Moves, fresh_counters
from gsplit.full.moving import MovingOperator
from gsplit.full.operators import CommonOperator, Operator, Sizes
from gsplit.full.reading import Places, places_in_list
from gsplit.full.reading.turning import turned_edges
from gsplit.full.routes import all_other_rows, remote_sources, route_to
from gsplit.full.shards import Shard, read_shard, with_loops
from gsplit.full.whole_block import WholeBlock
from gsplit.models.registry import OURS
from gsplit.nn import GAT, GCN, SAGE, BatchComm, Block
from gsplit.nn.exchange import Link
from gsplit.nn.neighbourhood import Neighbourhood
from gsplit.nn.norm import BatchNorm
from gsplit.parallel import Grid
from gsplit.parallel.member import mailboxes_of
from gsplit.runs.log import level_name
from gsplit.supply.ring import Handle

logger = logging.getLogger(__name__)

Bind = Callable[[BatchComm], Neighbourhood]
"""A block that waits for the communicator of its mini-batch."""


class WholeBatches:
    """The mini-batches of one trainer, which are all the same; all trainers make one, together.

    Args:
        components: of the trainer.
        plan: of the run.
    """

    def __init__(self, components: Components, plan: GridPlan) -> None:
        start_s = time.perf_counter()
        self._components, self._plan = components, plan
        member, config = components.member, components.run.config
        self._grid = plan.grid
        self._recomputes = config.recompute and type(components.model) in OURS
        self._in_slices = sums_in_slices(self._recomputes, components.model)
        mail = None
        if member.device.type == "cpu" and len(member.here) > 1:
            mail = mailboxes_of(member, components.shared.mail, member.here)
        self._common = CommonRows(member, components.shared.rows, mail)
        self._moves = Moves.of(member, components.run.moves_dtype) if not plan.of_all_sources else None
        self._own = own = OwnRows(components, whole=needs_all_rows(components.model))
        self._kept: FirstSums[Tensor] | None = (
            FirstSums() if sums_features(components.model) and components.trained is None else None
        )
        self._degrees = own.degrees(0) if components.edges.degrees else None
        self.edges: dict[int, int] = {}
        """Number of edges that are summed over in each layer."""
        self._operators: dict[tuple[tuple[int, ...], ...], Operator | GridAttention] = {}
        self._blocks = {layer: self._block(layer) for layer in range(1, config.layers + 1)}
        self._operators.clear()
        if member.rank == 0 and self._kept is None:
            logger.info("the sums of the first layer are taken anew in every epoch: they are no sums of the features")
        self._x: Callable[[], Tensor]
        features = components.feature_loader(components.run.dtype)
        if components.trained is None:
            x = own.features(features.load)
            self._x = lambda: x
        else:
            self._x = components.trained.of_rows(own.levels.vertices(member.rank))
        self._labels = own.labels()
        self._loaded = features.take_counters()
        own.close()
        self._seconds = time.perf_counter() - start_s

    def make(self, handle: Handle) -> MiniBatch:
        """The mini-batch of a ticket."""
        comm = self._comm()
        sizes = self._own.sizes
        if self._kept is not None and self._kept.sums is not None:
            self.edges[1] = 0
            self._blocks.pop(1, None)
        blocks = {layer: bind(comm) for layer, bind in self._blocks.items()}
        if self._kept is not None:
            blocks[1] = FirstBlock(
                num_own_sources=sizes[0], num_destinations=sizes[1], comm=comm, kept=self._kept, inner=blocks.get(1)
            )
        loaded, self._loaded = self._loaded, LoadCounters()
        seconds, self._seconds = self._seconds, 0.0
        return (RecomputedMiniBatch if self._recomputes else MiniBatch)(
            handle=handle,
            num_targets=len(self._components.layout.graph.train_idx),
            comm=comm,
            blocks=blocks,
            x=self._x(),
            labels=self._labels,
            loaded=loaded,
            counts={
                "sampled_edges": 0,
                "computed_edges": sum(self.edges.values()),
                "computed_vertices": sum(sizes[1:]),
                "segment_bytes": 0,
                **{level_name(level): size for level, size in enumerate(sizes)},
            },
            seconds={"sample": 0.0, "load": seconds},
        )

    def _comm(self) -> BatchComm:
        member, counters = self._components.member, fresh_counters()
        link = None
        if self._plan.algorithm == "shared":
            link = CommonLink(
                group=member.group, counters=counters, checker=member.checker, common=self._common, rank=member.rank
            )
        self._common.counters = counters
        if self._moves is not None:
            self._moves.counters = counters
        comm = BatchComm(
            member.group,
            counters,
            member.device,
            checker=member.checker,
            exchange_dtype=self._components.run.exchange_dtype,
            link=cast("Link | None", link),
        )
        comm.in_slices = self._in_slices
        return comm

    def _block(self, layer: int) -> Bind:
        plan, model = self._plan, self._components.model
        if not plan.of_all_sources or (plan.algorithm == "shared" and type(model) in (SAGE, GCN)):
            return self._summed(layer)
        return self._exchanged(layer)

    def _exchanged(self, layer: int) -> Bind:
        """A block that is brought the rows of other trainers, and sums by itself."""
        levels, member = self._own.levels, self._components.member
        others = (
            all_other_rows(levels, layer, member.rank)
            if self._plan.algorithm == "1d"
            else remote_sources(self._components.layout.graph, levels, layer, member.rank)
        )
        own = self._own.sizes[layer - 1]
        if self._plan.algorithm == "1d":
            everyone = [member.rank, *(rank for rank in range(member.world) if rank != member.rank)]
            places = self._own.places(layer - 1, everyone)
        else:
            places = places_in_list(self._own.places(layer - 1, [member.rank]), others, own)
        shard = self._read(layer, range(member.rank, member.rank + 1), places)
        self.edges[layer] = len(shard.edges.indices)
        route, send_weight = None, None
        takes_sums = self._components.run.partial_sums and member.world > 1
        if takes_sums:
            covered = Covered(shard, others, own, levels)
            shard, (route, send_weight) = covered.left(), covered.route(layer, member)
            self.edges[layer] = len(shard.edges.indices) + edges_of_sums(route)
        elif member.world > 1:
            route = route_to(others, levels, layer, member)
        own_edges = int((shard.edges.indices < own).sum())
        edges = on_device(shard, member.device, self._components.run.dtype)
        out_degrees, loops = self._asked_of_sources(layer, others)
        block = Block(
            num_destinations=self._own.sizes[layer],
            num_own_sources=own,
            indptr=edges.edges.indptr,
            indices=edges.edges.indices,
            num_own_edges=own_edges,
            edge_ids=None,
            edge_weight=edges.weight,
            degrees=None if self._degrees is None else self._degrees[:own],
            whole_out_degrees=out_degrees,
            graph_loops=loops,
            route=route,
            send_weight=None if send_weight is None else send_weight.to(self._components.run.dtype),
            sampled_degrees=self._own.in_degrees(layer) if takes_sums else None,
            drawn_weights=self._own.degrees(layer) if takes_sums and self._components.edges.weights else None,
            sums_all=True,
            comm=None,
        )
        return block.with_comm

    def _asked_of_sources(self, layer: int, others: NDArray[np.int64]) -> Sequence[Callable[[], Tensor] | None]:
        """Return what tells the out-degrees of a layer's sources in the whole graph, and what tells their loops."""
        if isinstance(self._components.model, SAGE | GCN | GAT):  # these do not ask
            return None, None
        edges, own = self._components.edges, self._own.vertices(layer - 1)
        sources = np.concatenate([own, others])
        return functools.cache(lambda: edges.out_degrees(sources)), functools.cache(lambda: edges.loops_of(own))

    def _summed(self, layer: int) -> Bind:
        """A block that is brought the sums, by all trainers together."""
        components, member = self._components, self._components.member
        operator = self._operator(layer)
        destinations, sources = self._own.sizes[layer], self._own.sizes[layer - 1]
        block = WholeBlock(
            num_own_sources=sources,
            num_destinations=destinations,
            layer=layer,
            operator=operator,
            in_degrees=self._own.in_degrees(layer),
            in_weights=self._own.degrees(layer) if components.edges.weights else None,
            degrees=None if self._degrees is None else self._degrees[:sources],
            comm=_no_comm(member.device),
        )
        return lambda comm: replace(block, comm=comm)

    def _operator(self, layer: int) -> Operator | GridAttention:
        """Return what sums in a layer; layers between the same rows have one."""
        sizes = self._own.levels.sizes
        name = (tuple(sizes[:, layer - 1]), tuple(sizes[:, layer]), (int(self._returns(layer)),))
        if name not in self._operators:
            moves = self._moves
            if moves is None:
                self._operators[name] = self._common_operator(layer)
            else:
                of_grid = self._moving_operator if self._plan.graph_moves else self._grid_operator
                self._operators[name] = of_grid(layer, moves)
        self.edges[layer] = self._operators[name].num_edges
        return self._operators[name]

    def _common_operator(self, layer: int) -> Operator:
        levels, member = self._own.levels, self._components.member
        everyone = range(member.world)
        shard = self._read(layer, range(member.rank, member.rank + 1), self._own.places(layer - 1, everyone))
        sources, destinations = (levels.sizes[:, level].tolist() for level in (layer - 1, layer))
        dtype, turned = self._components.run.dtype, None
        if self._returns(layer):
            first = sum(destinations[: member.rank])
            turned = on_device(Shard(*turned_edges(*shard, member, sources, first)), member.device, dtype)
        return CommonOperator(on_device(shard, member.device, dtype), turned, self._common, sources, destinations)

    def _grid_operator(self, layer: int, moves: Moves) -> GridOperator | GridAttention:
        sizes, rank = self._own.levels.sizes, self._components.member.rank
        row, column = self._grid.group(rank, COLUMNS, FEATURES), list(self._grid.group(rank, ROWS, FEATURES))
        return grid_operator(
            self._components,
            self._read(layer, range(row[0], row[-1] + 1), self._own.places(layer - 1, column)),
            moves,
            self._grid,
            rank,
            sizes[:, layer - 1],
            sizes[:, layer],
            returns=self._returns(layer),
            in_slices=self._in_slices,
        )

    def _moving_operator(self, layer: int, moves: Moves) -> MovingOperator:
        """Return what sums over edges of which the trainer holds its share."""
        levels, member, run = self._own.levels, self._components.member, self._components.run
        grid, rank = self._grid, member.rank
        row, column = grid.group(rank, COLUMNS, FEATURES), list(grid.group(rank, ROWS, FEATURES))
        given, wanted = levels.sizes[:, layer - 1], levels.sizes[:, layer]
        block = EdgeBlock(
            graph=self._components.layout.graph,
            ranges=[(int(levels.bounds[row[0]]), int(levels.bounds[row[-1] + 1]))],
            rows=self._own.places(layer, range(row[0], row[-1] + 1)),
            num_rows=int(wanted[list(row)].sum()),
            sources=self._own.places(layer - 1, column),
            num_sources=int(given[column].sum()),
            weights=self._components.layout.graph.edge_weight if self._components.edges.weights else None,
        )
        along = moves.sides[FEATURES]

        def share(*, turned: bool) -> EdgeShare:
            read = read_edge_share(block, along.place, along.size, turned=turned)
            return read.to(member.device, run.dtype)

        turned = share(turned=True) if self._returns(layer) else None
        around = Sizes.of(given, grid, rank, ROWS), Sizes.of(wanted, grid, rank, COLUMNS)
        return MovingOperator(share(turned=False), turned, moves, *around)

    def _returns(self, layer: int) -> bool:
        """Return whether gradients come back through the sums of a layer."""
        return layer > 1 or self._kept is None

    def _read(self, layer: int, trainers: range, places: Places) -> Shard:
        """The edges into the destinations of some trainers, which own one range of the layout between them."""
        levels, graph = self._own.levels, self._components.layout.graph
        begin, end = int(levels.bounds[trainers.start]), int(levels.bounds[trainers.stop])
        rows = int(levels.sizes[trainers.start : trainers.stop, layer].sum())
        weights = graph.edge_weight if self._components.edges.weights else None
        return read_shard(graph, [(begin, end)], self._own.places(layer, trainers), rows, places, weights)


def needs_all_rows(model: nn.Module) -> bool:
    """Return whether a model would notice if rows that no training vertex depends on were left out."""
    return any(isinstance(module, BatchNorm) for module in model.modules())


def sums_features(model: nn.Module) -> bool:
    """Return whether the first layer of a model sums the features as they are: the same sum in every epoch."""
    ours = isinstance(model, SAGE | GCN) and type(model) in (SAGE, GCN)  # what is derived may do anything
    return ours and model.projection is None and model.input_dropout.p == 0


def sums_in_slices(recomputes: bool, model: nn.Module) -> bool:
    """Return whether rows move and are summed in slices, as where layers are computed again, which is for memory."""
    return recomputes and type(model) in (SAGE, GCN)


def grid_operator(
    components: Components,
    shard: Shard,
    moves: Moves,
    grid: Grid,
    rank: int,
    given: NDArray[np.int64],
    wanted: NDArray[np.int64],
    *,
    returns: bool = True,
    in_slices: bool = False,
) -> GridOperator | GridAttention:
    """What sums in a layer on one trainer of a grid, or attends.

    Args:
        components: of the trainer.
        shard: the edges from its column to its row, on the host.
        moves: of the trainer.
        grid: the rows, columns and features.
        rank: the trainer's place on it.
        given, wanted: [P] rows of all trainers, sources and destinations.
        returns: whether gradients come back.
        in_slices: whether columns go around in slices, for less memory.
    """
    device, dtype, model = components.member.device, components.run.dtype, components.model
    around = Sizes.of(given, grid, rank, ROWS), Sizes.of(wanted, grid, rank, COLUMNS)
    if not isinstance(model, GAT):
        edges = on_device(shard, device, dtype)
        return GridOperator(edges, moves, *around, returns=returns, in_slices=in_slices)
    number = len(shard.edges.indices)
    if model.loops:
        row, column = grid.group(rank, COLUMNS, FEATURES), grid.group(rank, ROWS, FEATURES)
        shard = with_loops(shard, places_of_own(row, column, wanted, given))
    return GridAttention(on_device(shard, device, dtype), moves, *around, loops=model.loops, num_edges=number)


def on_device(shard: Shard, device: torch.device, dtype: torch.dtype) -> Shard:
    """The same edges where they are summed, with weights in the type of the rows."""

    def there(values: Tensor) -> Tensor:
        return values.to(device)

    edges = replace(shard.edges, indptr=there(shard.edges.indptr), indices=there(shard.edges.indices))
    return Shard(edges, None if shard.weight is None else there(shard.weight).to(dtype))


def _no_comm(device: torch.device) -> BatchComm:
    return BatchComm(None, fresh_counters(), device)
