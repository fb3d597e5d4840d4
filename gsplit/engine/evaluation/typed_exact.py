"""Exact vectors of several types: over all neighbours, each vertex of each level computed once, by its trainer.

As :mod:`~gsplit.engine.evaluation.exact`, with a level for each type. A chunk has destinations of one type, and all
their in-edges of the relations that the layer has weights for, so in each layer an edge is read at most once. Types
that a level has not (:mod:`gsplit.sampling.reach`) are neither computed nor have memory there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import takewhile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import Layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.exact import MAX_EDGES, MAX_ROW_BYTES, LevelMemory, LevelRows, pieces
from gsplit.engine.own_ranges import own_range
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.features import gather
from gsplit.host import SharedBuffer
from gsplit.nn import TypedBlock, TypedLayeredModel
from gsplit.parallel import Member
from gsplit.parallel.collectives import all_reduce
from gsplit.parallel.host_memory import complete
from gsplit.sampling import Segment, TypedSampler, typed_sampler_of

Level = Mapping[int, tuple[LevelRows, Tensor]]
"""Of each type of a level: where its vertices have their rows, and the rows."""


class TypedExactLevels(LevelMemory):
    """Computes vectors of the vertices of a layout of several types; every trainer makes every call.

    Args:
        layout: whose vertices they are.
        member: this trainer.
        loader: of features, and of edge weights where the model takes some.
        levels: two buffers that all trainers map, for the levels in turn.
        precision: in which models are called.
        threads: that gather rows.
        max_edges: of one chunk.
        goes_on: called with each chunk of vertices before it is computed: whether to, and those after it.
    """

    def __init__(
        self,
        layout: Layout,
        member: Member,
        loader: TypedSplitLoader,
        levels: tuple[SharedBuffer, SharedBuffer],
        *,
        precision: Precision,
        threads: int,
        max_edges: int = MAX_EDGES,
        goes_on: Callable[[object], bool] = lambda _: True,
    ) -> None:
        super().__init__(member, levels, precision)
        self._graph, self._layout, self._loader, self._threads = layout.graph, layout, loader, threads
        self._max_edges, self._goes_on = max_edges, goes_on
        self._sizes = [each.num_vertices for each in layout.graph.schema.types]
        self._samplers: dict[tuple[int, ...], TypedSampler] = {}
        """By the fan-outs of a hop: -1 for the relations that are read, 0 for the others."""
        self._own = [own_range(layout, member, type_) for type_ in range(len(self._sizes))]

    def own(self, ids: NDArray[np.int64], type_: int | None = None) -> NDArray[np.int64]:
        """Layout ids that this trainer evaluates, of those given of a type; None: the target type."""
        type_ = self._graph.target if type_ is None else type_
        begin, end = self._own[type_]
        return ids[(ids >= begin) & (ids < end)]

    @torch.no_grad()
    def vectors(
        self, model: TypedLayeredModel, own: NDArray[np.int64], level: int | None = None, type_: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Chunks of ``own`` with their vectors of a level [chunk, width]; by default of the last one, the logits.

        All trainers go through all levels, also those with no vertex.

        Args:
            model: whose weights are the same on all trainers.
            own: int64 layout ids of this trainer's part, of the type.
            level: 1 .. L.
            type_: number of a type of that level; None: the target type.

        Raises:
            ValueError: for a type that the level has not.
        """
        level = model.num_layers if level is None else level
        type_ = model.reach.target if type_ is None else type_
        if type_ not in model.reach.types[level]:
            raise ValueError(f"level {level} has no vertices of type {self._graph.schema.types[type_].name}")
        was_training = model.training
        model.eval()
        needed = self._needed(model, own, type_, level)
        below: Level | None = None
        for layer in range(1, level):
            rows = {t: LevelRows(needed[t] >= layer, self._sizes[t]) for t in model.reach.types[layer]}
            here = self._level(layer, rows, model.level_widths[layer])
            for t, (places, memory) in here.items():
                begin, end = self._own[t]
                ids = begin + np.flatnonzero(needed[t][begin:end] >= layer)
                for chunk in takewhile(self._goes_on, self._chunks(model, layer, t, ids)):
                    vectors = self._computed(model, layer, t, chunk, below)
                    memory.index_copy_(0, torch.from_numpy(places.places(chunk)), vectors.to(memory.dtype).cpu())
                complete(self._member, memory, partial(places.places, ids))
            self._member.barrier()
            below = here
        for chunk in takewhile(self._goes_on, self._chunks(model, level, type_, own)):
            yield chunk, self._computed(model, level, type_, chunk, below)
        model.train(was_training)

    def _computed(
        self, model: TypedLayeredModel, layer: int, type_: int, chunk: NDArray[np.int64], below: Level | None
    ) -> Tensor:
        """Vectors of a chunk of a type, [chunk, width], by those of all types of the level below."""
        segment = self._one_hop(model, layer, type_, chunk)
        block, xs = self._inputs(segment, below)
        called = self._precision.called(
            self._member.device, lambda *given: model.forward_layer(layer, *given)[type_], block, xs
        )
        return called

    def _inputs(self, segment: Segment, below: Level | None) -> tuple[TypedBlock, list[Tensor]]:
        """The block of a segment of one hop, and the rows of its sources by type; without a level below features."""
        device, counts = self._member.device, [sizes[0] for sizes in segment.levels]
        if below is None:
            blocks, xs = self._loader.inputs(segment)
            return blocks[1], xs
        xs = []
        for type_, count in enumerate(counts):
            if type_ not in below:
                xs.append(torch.empty((count, 0), dtype=self._precision.rows, device=device))
                continue
            places, memory = below[type_]
            rows = places.places(segment.vertices_of(type_))
            read = gather(memory.view(torch.uint8).numpy(), rows, threads=self._threads)
            xs.append(read.view(memory.dtype).view(count, memory.shape[1]).to(device))
        return self._loader.blocks(segment)[1], xs

    def _needed(
        self, model: TypedLayeredModel, own: NDArray[np.int64], type_: int, last: int
    ) -> list[NDArray[np.uint8]]:
        """[T][N_t] the highest level that vectors of anyone's ``own`` need a vertex in; 0 for none."""
        needed = [np.zeros(size, np.uint8) for size in self._sizes]
        needed[type_][own] = last
        for layer in range(last, 0, -1):
            for of_type in needed:
                all_reduce(torch.from_numpy(of_type), self._member.group, "max")
            for t in model.reach.types[layer] if layer > 1 else ():
                begin, end = self._own[t]
                ids = begin + np.flatnonzero(needed[t][begin:end] >= layer)
                for chunk in takewhile(self._goes_on, self._chunks(model, layer, t, ids)):
                    segment = self._one_hop(model, layer, t, chunk)
                    for source, of_type in enumerate(needed):
                        met = segment.vertices_of(source)
                        of_type[met] = np.maximum(of_type[met], layer - 1)
        return needed

    def _one_hop(self, model: TypedLayeredModel, layer: int, type_: int, chunk: NDArray[np.int64]) -> Segment:
        """A chunk of a type with all in-edges of the relations of a layer."""
        reach = model.reach
        fan_outs = tuple(
            -1 if relation in reach.relations[layer] or to not in reach.types[layer] else 0
            for relation, (_, to) in enumerate(reach.ends)
        )
        if fan_outs not in self._samplers:
            self._samplers[fan_outs] = typed_sampler_of(self._layout, fan_outs=[fan_outs], seed=0, edge_ids=True)
        sampler = self._samplers[fan_outs]
        sampler.sample(chunk, epoch=0, batch=0, target_type=type_)
        return sampler.segment(0)

    def _level(self, level: int, rows: Mapping[int, LevelRows], width: int) -> Level:
        """Memory of the rows of a hidden level, type after type, that all trainers map; all make the call."""
        counts = [each.num_rows for each in rows.values()]
        memory = self.hidden(level, sum(counts), width)
        return dict(zip(rows, zip(rows.values(), memory.split(counts), strict=True), strict=True))

    def _chunks(
        self, model: TypedLayeredModel, layer: int, type_: int, ids: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int64]]:
        """Cut ids of a type so that a chunk keeps to both bounds (but for a vertex that breaks them alone)."""
        row_bytes = max(model.level_widths[layer - 1 :][:2]) * self._precision.rows.itemsize
        edges = min(self._max_edges, max(1, MAX_ROW_BYTES // max(row_bytes, 1)))
        cost = np.ones(len(ids), np.int64)
        for relation in model.reach.relations[layer]:
            if model.reach.ends[relation][1] == type_:
                indptr = self._graph.adjacencies[relation].indptr
                cost += indptr[ids + 1] - indptr[ids]
        return pieces(ids, cost, edges)
