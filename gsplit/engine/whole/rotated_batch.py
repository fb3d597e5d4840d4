"""The one mini-batch of the whole graph where layers rotate: made once, computed by :mod:`gsplit.full.rotation`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from gsplit.engine.components import Components
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.whole.rotated_prices import orders_of_run
from gsplit.engine.whole.whole_batch import on_device, sums_features
from gsplit.features import LoadCounters
from gsplit.full import GridPlan
from gsplit.full.first_sum import FirstSums
from gsplit.full.moves import Moves, fresh_counters
from gsplit.full.operators import transposed
from gsplit.full.rotation import Ends, Planes, Relaid, Rotated, RotatedLayer, Summed, roles_of
from gsplit.full.shards import Shard, in_rows, read_shard, with_loops
from gsplit.nn import GCN, BatchComm
from gsplit.nn.gcn import mean_factors, symmetric_factors
from gsplit.runs.log import level_name
from gsplit.sampling.plan import fold_key
from gsplit.supply.ring import Handle

DROPPED = 0x504C414E  # keeps the keys of what is dropped on planes apart from others


@dataclass(frozen=True, kw_only=True)
class RotatedMiniBatch(MiniBatch):
    """This trainer's share of a mini-batch whose layers rotate; there are no blocks for a convolution to call."""

    rotated: Rotated
    """The layers on this trainer."""
    kept: FirstSums[Summed] | None
    """The sums of the first layer, where they are constant."""
    seed: int
    """Key that what is dropped follows from, the same on all trainers."""

    @override
    def tensors(self) -> Iterator[Tensor]:
        yield from super().tensors()
        yield from self.rotated.tensors()

    @override
    def logits(self, model: nn.Module) -> Tensor:
        features = self.x
        assert isinstance(model, GCN)
        assert isinstance(features, Tensor)

        def first() -> Summed:
            x = model.first_rows(features).to(features.dtype)  # projected ones may be in a shorter type
            return self.rotated.aggregated(1, self.rotated.entered(x), x.shape[1])

        summed = first() if self.kept is None else self.kept.get(first)
        return self.rotated.computed(model, summed, lambda layer, place: fold_key(self.seed, layer, *place) >> 1)


class RotatedBatches:
    """The mini-batches of one trainer, which are all the same; all trainers make one, together.

    Args:
        components: of the trainer, with a GCN.
        plan: of the run.
    """

    def __init__(self, components: Components, plan: GridPlan) -> None:
        start_s = time.perf_counter()
        self._components = components
        member, graph, config = components.member, components.layout.graph, components.run.config
        orders = orders_of_run(config, components.layout, member.world)
        self._planes = planes = Planes(plan.grid, member.rank, orders)
        self._trains_N = np.zeros(graph.num_vertices, bool)
        self._trains_N[graph.train_idx] = True
        shards: dict[Any, tuple[list[Shard], list[Shard]]] = {}
        relaid: dict[Any, Relaid] = {}
        layers = [self._layer(layer, shards, relaid) for layer in range(1, config.layers + 1)]
        self.edges = {layer.layer: sum(len(piece.edges.indices) for piece in layer.pieces) for layer in layers}
        """Number of edges that are summed over in each layer."""
        self._moves = Moves.of(member, components.run.moves_dtype)
        ends = Ends.of(planes, config.layers, [*map(self._targets, range(member.world))], member.device)
        self._rotated = Rotated(layers=layers, ends=ends, moves=self._moves, checker=member.checker)
        kept = sums_features(components.model) and components.trained is None
        self._kept: FirstSums[Summed] | None = FirstSums() if kept else None
        features = components.feature_loader(components.run.dtype)
        own = planes.order(0).vertices[member.rank]
        self._x: Callable[[], Tensor]
        if components.trained is None:
            x = features.load(own)
            self._x = lambda: x
        else:
            self._x = components.trained.of_rows(own)
        self._loaded = features.take_counters()
        self._labels = torch.from_numpy(graph.labels[self._targets(member.rank)]).to(member.device)
        self._sizes = [len(planes.order(level).vertices[member.rank]) for level in range(config.layers)]
        self._sizes.append(len(self._labels))
        self._seconds = time.perf_counter() - start_s

    def make(self, handle: Handle) -> MiniBatch:
        """The mini-batch of a ticket."""
        member, sizes = self._components.member, self._sizes
        self._moves.counters = counters = fresh_counters()
        if self._kept is not None and self._kept.sums is not None:
            self.edges[1] = 0
        loaded, self._loaded = self._loaded, LoadCounters()
        seconds, self._seconds = self._seconds, 0.0
        return RotatedMiniBatch(
            handle=handle,
            num_targets=len(self._components.layout.graph.train_idx),
            comm=BatchComm(member.group, counters, member.device, checker=member.checker),
            blocks={},
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
            rotated=self._rotated,
            kept=self._kept,
            seed=fold_key(self._components.run.config.seed, handle.ticket.epoch, DROPPED),
        )

    def _layer(
        self, layer: int, shards: dict[Any, tuple[list[Shard], list[Shard]]], relaid: dict[Any, Relaid]
    ) -> RotatedLayer:
        """One layer; layers three or six apart have the same block of the adjacency."""
        components, planes, roles = self._components, self._planes, roles_of(layer)
        model: Any = components.model
        conv = model.convs[layer - 1]
        loops = bool(conv.loops)
        rows, sources = planes.block(layer, roles.rows), planes.block(layer - 1, roles.columns)
        double = planes.orders[0] is not planes.orders[1]
        name = (layer % 3, layer % 2 if double else 0, loops)
        if name not in shards:
            shard = self._shard(layer, rows, sources, loops=loops)
            run, device = components.run, components.member.device
            blocks, skips = run.config.row_blocks, bool(len(model.skips))
            shards[name] = summed_over(shard, len(sources), blocks, device, run.dtype, skips=skips)
        pieces, turned = shards[name]
        if len(model.skips) and name not in relaid:
            relaid[name] = Relaid.of(planes, layer, components.member.device)
        # A degree is above 0, or the sum of its vertex is 0 (gsplit.engine.sampled.edge_weights).
        degrees = components.edges.degrees_of
        if conv.normalization == "mean":
            by = mean_factors(degrees(rows), loops=loops)
        else:
            by = symmetric_factors(degrees(rows), degrees(sources), 1.0 if loops else None)
        return RotatedLayer(
            layer=layer, pieces=pieces, turned=turned, by=replace(by, own=None), relaid=relaid.get(name)
        )

    def _shard(self, layer: int, rows: NDArray[np.int64], sources: NDArray[np.int64], *, loops: bool) -> Shard:
        graph, planes = self._components.layout.graph, self._planes
        ranges = [(0, graph.num_vertices)]
        if planes.order(layer) is planes.orders[0]:  # ranges of layout ids; those of a drawn order lie anywhere
            blocks = [planes.order(layer).vertices[peer] for peer in planes.peers(roles_of(layer).rows)]
            ranges = [(int(own[0]), int(own[-1]) + 1) for own in blocks if len(own)]
        row_N, place_N = _places(rows, graph.num_vertices), _places(sources, graph.num_vertices)

        def into(ids: NDArray[np.int64]) -> NDArray[np.int32]:
            return row_N[ids]

        def places(ids: NDArray[np.int64]) -> NDArray[np.int32]:
            return place_N[ids]

        weights = graph.edge_weight if self._components.edges.weights else None
        shard = read_shard(graph, ranges, into, len(rows), places, weights)
        return with_loops(shard, place_N[rows]) if loops else shard

    def _targets(self, trainer: int) -> NDArray[np.int64]:
        """Layout ids of the training vertices whose rows a trainer has at rest after the last layer."""
        vertices = self._planes.order(self._components.run.config.layers).vertices[trainer]
        return vertices[self._trains_N[vertices]]


def summed_over(
    shard: Shard, num_sources: int, row_blocks: int, device: torch.device, dtype: torch.dtype, *, skips: bool
) -> tuple[list[Shard], list[Shard]]:
    """The edges of a layer where they are summed, and turned round, both in blocks of rows.

    Args:
        shard: on the host, where it is cut without a wait for the device.
        num_sources: number of the rows that are summed.
        row_blocks: blocks at most.
        device: of the trainer.
        dtype: that weights are given in.
        skips: whether the layer's input also goes around it; then those turned round are in one block.
    """

    def there(edges: Shard, blocks: int) -> list[Shard]:
        return [on_device(piece, device, dtype) for piece in in_rows(edges, blocks)]

    return there(shard, row_blocks), there(transposed(shard, num_sources), 1 if skips else row_blocks)


def _places(vertices: NDArray[np.int64], n: int) -> NDArray[np.int32]:
    """int32 [n] place of each vertex in a list; -1 for others."""
    place_N = np.full(n, -1, np.int32)
    place_N[vertices] = np.arange(len(vertices))
    return place_N
