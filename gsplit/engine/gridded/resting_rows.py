"""Subgraphs whose rows are at rest with their owners between layers: the operators of the whole graph sum over them.

The edges into the vertices of a trainer's grid row are cut, and those that come from its grid column are kept. Rows
that the last layer computes, those of training vertices, are a prefix of each trainer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor
from typing_extensions import override

from gsplit.device import accelerator
from gsplit.engine.gridded.held_sets import Held
from gsplit.engine.gridded.subgraph_batches import Cut, SubgraphBatches
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.whole.whole_batch import grid_operator
from gsplit.full import COLUMNS, FEATURES, ROWS
from gsplit.full.grid_attention import GridAttention
from gsplit.full.grid_operator import GridOperator
from gsplit.full.moves import Moves
from gsplit.full.whole_block import WholeBlock
from gsplit.nn import BatchComm
from gsplit.supply.ring import Handle


@dataclass(frozen=True, kw_only=True)
class RestingMiniBatch(MiniBatch):
    """This trainer's share of a subgraph on a grid."""

    operators: Sequence[GridOperator | GridAttention]
    """What sums or attends in its layers; layers between the same rows have one."""

    @override
    def tensors(self) -> Iterator[Tensor]:
        yield from super().tensors()
        for block in self.blocks.values():
            yield from (each for each in vars(block).values() if isinstance(each, Tensor))
        for operator in self.operators:
            yield from operator.tensors()


class RestingRows(SubgraphBatches):
    """Mini-batches whose layers are blocks, of a model of sums or attention. Arguments as its base's."""

    @override
    def _cut(self, handle: Handle, held: Held, comm: BatchComm, moves: Moves) -> Cut:
        blocks, operators = self._blocks(held, comm, moves)
        # Trainers along the features share the columns of an edge: the first of them counts it.
        counts_edges = self._grid.coordinate(self._rank, FEATURES) == 0
        edges = sum(block.operator.num_edges for block in blocks.values()) if counts_edges else 0
        return Cut(partial(RestingMiniBatch, blocks=blocks, operators=operators), edges)

    def _blocks(
        self, held: Held, comm: BatchComm, moves: Moves
    ) -> tuple[dict[int, WholeBlock], list[GridOperator | GridAttention]]:
        """The blocks of all layers, the last of which computes the targets alone, and their operators."""
        components, layers = self._components, self._components.run.config.layers
        row = self._grid.group(self._rank, COLUMNS, FEATURES)
        column = self._grid.group(self._rank, ROWS, FEATURES)
        into = self._edges_into(held, row)
        column_S = held.places_among(column)
        of_level = [held.sizes[:, 0]] * layers + [held.sizes[:, 1]]
        degrees = None
        if components.edges.degrees:
            degrees = components.edges.degrees_of(held.vertices[self._rank])
        blocks: dict[int, WholeBlock] = {}
        operators = []
        for layer in range(1, layers + 1):
            if 1 < layer < layers:
                blocks[layer] = replace(blocks[1], layer=layer)
                continue
            last = layer == layers
            kept = held.of_targets(row) if last else None
            shard, own = into.shard(column_S, kept), held.own_in(row, self._rank, last=last)
            given, wanted = of_level[layer - 1], of_level[layer]
            operator = grid_operator(components, shard, moves, self._grid, self._rank, given, wanted)
            operators.append(operator)
            blocks[layer] = WholeBlock(
                num_own_sources=int(held.sizes[self._rank, 0]),
                num_destinations=int(wanted[self._rank]),
                layer=layer,
                sums_all=into.estimates,
                operator=operator,
                in_degrees=accelerator.moved(into.numbers[own], components.member.device),
                in_weights=None if into.totals is None else components.edges.tensor(into.totals[own]),
                degrees=degrees,
                estimates=into.estimates,
                comm=comm,
            )
        return blocks, operators
