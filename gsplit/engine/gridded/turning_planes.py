"""Subgraphs whose layers rotate, as ScaleGNN trains them: the planes of a step's set, cut by each trainer for itself.

The whole graph's rotation (:mod:`gsplit.full.rotation`) takes a graph of the set's vertices, in the order of the
trainers' ranges on every level. A trainer reads the edges into three blocks of rows, those along z, y and x, of which
each layer in turn sums over one; along an axis of one trainer these are all rows of the set. The last layer computes
all rows, too, of which those of training vertices leave.

Legend: S vertices of the set, P trainers of a group, R rows of a block.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from gsplit.engine.components import Components
from gsplit.engine.gridded.held_sets import EdgesOfSet, Held
from gsplit.engine.gridded.subgraph_batches import Cut, SubgraphBatches
from gsplit.engine.whole.rotated_batch import DROPPED, RotatedMiniBatch, summed_over
from gsplit.full import GridPlan
from gsplit.full.moves import Moves
from gsplit.full.rotation import Ends, Planes, Relaid, Rotated, RotatedLayer, orders_of, roles_of
from gsplit.full.shards import with_loops
from gsplit.nn import BatchComm, Factors
from gsplit.nn.gcn import GCNConv, mean_factors, missing_share, symmetric_factors
from gsplit.sampling import Rule
from gsplit.sampling.plan import fold_key
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.ring import Handle


class TurningPlanes(SubgraphBatches):
    """Mini-batches whose layers rotate, of a GCN. Arguments as its base's."""

    def __init__(self, components: Components, rule: Rule, plan: GridPlan, end: TrainerEnd | None) -> None:
        super().__init__(components, rule, plan, end)
        self._features = components.feature_loader(components.run.dtype)  # as on the whole graph
        self._model: Any = components.model

    @override
    def _cut(self, handle: Handle, held: Held, comm: BatchComm, moves: Moves) -> Cut:
        components = self._components
        config, member = components.run.config, components.member
        bounds = np.concatenate([[0], np.cumsum(held.sizes[:, 0])])
        planes = Planes(self._grid, self._rank, orders_of(bounds, config.seed, double=False))
        read: dict[tuple[int, ...], EdgesOfSet] = {}
        cut: dict[tuple[Any, ...], tuple[RotatedLayer, int]] = {}
        layers, edges = [], 0
        for layer in range(1, config.layers + 1):
            conv: Any = self._model.convs[layer - 1]
            name = (layer % 3, conv.loops, conv.normalization)  # of layers three apart it is the same
            if name not in cut:
                into = tuple(planes.peers(roles_of(layer).rows))
                if into not in read:
                    read[into] = self._edges_into(held, into)
                cut[name] = self._layer(layer, held, planes, read[into])
            layers.append(replace(cut[name][0], layer=layer))
            edges += cut[name][1]
        targets = [np.arange(begin, begin + size) for begin, size in zip(bounds, held.sizes[:, 1], strict=False)]
        rotated = Rotated(
            layers=layers,
            ends=Ends.of(planes, config.layers, targets, member.device),
            moves=moves,
            checker=member.checker,
        )
        seed = fold_key(config.seed, handle.ticket.epoch, handle.ticket.batch, self._micro, DROPPED)
        return Cut(partial(RotatedMiniBatch, blocks={}, rotated=rotated, kept=None, seed=seed), edges)

    def _layer(self, layer: int, held: Held, planes: Planes, into: EdgesOfSet) -> tuple[RotatedLayer, int]:
        """One layer, and the number of edges that this trainer counts in it.

        Args:
            layer: 1 .. L.
            held: the set.
            planes: of its vertices.
            into: the edges into the rows of the layer.
        """
        run, device, roles = self._components.run, self._components.member.device, roles_of(layer)
        rows, sources = planes.block(layer, roles.rows), planes.block(layer - 1, roles.columns)
        column_S = held.places_among(planes.peers(roles.columns))
        shard = into.shard(column_S, None)
        # Trainers along the features share the columns of an edge: the first of them counts it.
        edges = len(shard.edges.indices) if planes.grid.coordinate(planes.rank, roles.features) == 0 else 0
        conv: Any = self._model.convs[layer - 1]
        by, loops = self._factors(conv, held, rows, sources, into)
        if conv.loops:
            shard = with_loops(shard, column_S[rows], loops)
        blocks, skips = run.config.row_blocks, bool(len(self._model.skips))
        pieces, turned = summed_over(shard, len(sources), blocks, device, run.dtype, skips=skips)
        rotated = RotatedLayer(
            layer=layer,
            pieces=pieces,
            turned=turned,
            by=by,
            relaid=Relaid.of(planes, layer, device) if skips else None,
        )
        return rotated, edges

    def _factors(
        self, conv: GCNConv, held: Held, rows: NDArray[np.int64], sources: NDArray[np.int64], into: EdgesOfSet
    ) -> tuple[Factors, NDArray[np.float64] | None]:
        """What a layer multiplies by, as :class:`~gsplit.nn.gcn.GCNConv` does on blocks; and weights of loops."""
        edges, missing = self._components.edges, None
        drawn = torch.from_numpy((into.numbers if into.totals is None else into.totals).astype(np.float64))
        if conv.normalization == "mean":
            by = mean_factors(drawn, loops=conv.loops)
        else:
            everyone = np.concatenate(held.vertices)
            degrees, others = (torch.from_numpy(edges.host_degrees_of(everyone[each])) for each in (rows, sources))
            missing = None if into.estimates else missing_share(degrees, drawn)
            by = symmetric_factors(degrees, others, 1.0 if conv.loops else None, missing)
        of_sources, of_sums = (None if each is None else edges.tensor(each.numpy()) for each in (by.sources, by.sums))
        # Loops are not among the edges that the factors of sums make up for.
        return Factors(sources=of_sources, sums=of_sums), None if missing is None else missing.reciprocal().numpy()
