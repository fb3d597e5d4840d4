"""Exact vectors: over all neighbours, each vertex of each level computed once, by the trainer that owns it.

Level by level, every trainer computes its own range of vertices, in chunks bounded in edges and bytes, from the
level below to the next one. Levels lie in shared memory (two buffers in turn), level 0 in the layout's mapped
features, so that a source owned elsewhere is simply read. Rows of levels are in the type that feature rows are given
in, bfloat16 with ``bf16-mixed``; vectors of the last level are in that of the parameters. Only what the vertices
asked for depend on is computed, and has a row; the last level may be a hidden one (the embeddings of
gsplit.predict).

Models whose layers cannot be computed one at a time (:mod:`gsplit.engine.evaluation.single_layers`) are evaluated on
chunks of targets with their whole neighbourhoods; a chunk with too many edges is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.data import Layout
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.single_layers import SingleLayers, single_layers_of
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.own_ranges import own_range
from gsplit.features import gather
from gsplit.host import SharedBuffer
from gsplit.nn import Block
from gsplit.parallel import Member, count_over_trainers
from gsplit.parallel.collectives import all_reduce
from gsplit.parallel.host_memory import complete
from gsplit.sampling import MiniBatchSampler, Segment, sampler_of

IN_A_PIECE = 256
"""Vertices whose rows are numbered by a byte."""

MAX_EDGES = 1 << 22
MAX_ROW_BYTES = 1 << 29
"""Bounds of one chunk, per trainer: edges, and bytes of source rows."""


def forward_to(level: int, num_layers: int, model: nn.Module, blocks: dict[int, Block], x: Tensor) -> Tensor:
    """Features of the inputs [n_0, D] -> level-``level`` vectors of the targets, through blocks 1 .. ``level``."""
    if level == num_layers:
        return model(blocks, x)
    if not hasattr(model, "forward_layer"):
        return cast("Callable[[int, Any, Tensor], Tensor]", model.forward_until)(level, blocks, x)
    for layer in range(1, level + 1):
        x = cast("Callable[[int, Any, Tensor], Tensor]", model.forward_layer)(layer, blocks[layer], x)
    return x


def pieces(ids: NDArray[np.int64], cost: NDArray[np.int64], most: int) -> Iterator[NDArray[np.int64]]:
    """Ids in pieces that cost so much at most, but for one that costs more alone; ``cost`` is each one's."""
    total, begin = np.cumsum(cost), 0
    while begin < len(ids):
        before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, before + most, side="right")))
        yield ids[begin:end]
        begin = end


class LevelMemory:
    """Memory that trainers map for the rows of levels, in two buffers that have turns.

    Args:
        member: this trainer.
        levels: the buffers.
        precision: in which models are called.
    """

    def __init__(self, member: Member, levels: tuple[SharedBuffer, SharedBuffer], precision: Precision) -> None:
        self._member, self._levels, self._precision = member, levels, precision

    def shared(self, level: int, rows: int, width: int, dtype: Any = None) -> NDArray[Any]:
        """Memory [rows, width] that the trainers of a host map, in the place of a level; all make the call.

        What others than they wrote comes there by :func:`~gsplit.parallel.host_memory.complete`.

        Args:
            level: whose buffer it is.
            rows: of the memory.
            width: of a row.
            dtype: of its numbers; None: that of vectors of the last level.
        """
        buffer = self._levels[level % 2]
        dtype = np.dtype(dtype or torch.empty(0, dtype=self._precision.dtype).numpy().dtype)
        if self._member.local == 0:
            buffer.grow(rows * width * dtype.itemsize)
        self._member.barrier()
        return buffer.view((rows, width), dtype)

    def hidden(self, level: int, rows: int, width: int) -> Tensor:
        """Memory [rows, width] for the rows of a hidden level, that all trainers map; all make the call."""
        buffer, dtype = self._levels[level % 2], self._precision.rows
        num_bytes = rows * width * dtype.itemsize
        if self._member.local == 0:
            buffer.grow(num_bytes)
        self._member.barrier()
        if not num_bytes:
            return torch.empty((rows, width), dtype=dtype)
        return torch.from_numpy(buffer.view((num_bytes,), np.uint8)).view(dtype).view(rows, width)


class ExactLevels(LevelMemory):
    """Computes vectors of the vertices of a layout; every trainer makes every call.

    Args:
        layout: whose vertices they are.
        member: this trainer.
        loader: of what belongs to segments.
        levels: two buffers that all trainers map, for the levels in turn.
        num_layers: of the models, L.
        precision: in which they are called.
        threads: that gather rows.
        max_edges: of one chunk.
        goes_on: called with each chunk of targets before it is computed: whether to, and those after it.
    """

    def __init__(
        self,
        layout: Layout,
        member: Member,
        loader: SplitLoader,
        levels: tuple[SharedBuffer, SharedBuffer],
        *,
        num_layers: int,
        precision: Precision,
        threads: int,
        max_edges: int = MAX_EDGES,
        goes_on: Callable[[object], bool] = lambda _: True,
    ) -> None:
        super().__init__(member, levels, precision)
        self._graph, self._layout, self._loader, self._num_layers = layout.graph, layout, loader, num_layers
        self._threads, self._max_edges, self._goes_on = threads, max_edges, goes_on
        self._samplers: dict[int, MiniBatchSampler] = {}
        self._layers: tuple[nn.Module | None, SingleLayers | None] = (None, None)
        """The model evaluated last, and what computes its layers."""
        self._begin, self._end = own_range(layout, member)

    def own(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Layout ids that this trainer evaluates, of those given."""
        return ids[(ids >= self._begin) & (ids < self._end)]

    @torch.no_grad()
    def vectors(
        self, model: nn.Module, own: NDArray[np.int64], level: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Chunks of ``own`` with their vectors of a level [chunk, width]; by default of the last one, the logits.

        All trainers go through all levels, also those with no vertex.

        Args:
            model: with ``forward_layer``, or with ``forward_until`` where the level is not the last.
            own: int64 layout ids of this trainer's part.
            level: 1 .. L.
        """
        level = self._num_layers if level is None else level
        was_training = model.training
        model.eval()
        if self._layers[0] is not model:
            self._layers = (
                model,
                single_layers_of(model, self._loader, self._num_layers, warns=self._member.rank == 0),
            )
            can = count_over_trainers([self._layers[1] is not None], self._member) == [self._member.world]
            if not can:  # a model that draws at random may seem so to some trainers
                self._layers = model, None
        layers = self._layers[1]
        if layers is not None:
            yield from self._by_layer(layers, own, level)
        else:
            yield from self._by_target(model, own, level, whole_chunk=4096)
        model.train(was_training)

    def _called(self, function: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return self._precision.called(self._member.device, function, *arguments)

    def _by_layer(
        self, layers: SingleLayers, own: NDArray[np.int64], last: int
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        top_N = self._top_levels(own, last)
        below: Tensor | None = None
        rows_below: LevelRows | None = None
        for layer in range(1, last):
            mask = None if top_N is None else top_N >= layer
            rows = LevelRows(mask, self._graph.num_vertices)
            ids = np.arange(self._begin, self._end)
            if mask is not None:
                ids = self._begin + np.flatnonzero(mask[self._begin : self._end])
            level = self.hidden(layer, rows.num_rows, layers.widths[layer])
            for chunk in takewhile(self._goes_on, self._chunks(ids, self._row_bytes(below))):
                with self._precision.calling(self._member.device):
                    vectors = layers.compute(layer, *self._one_hop(chunk, below, rows_below))
                level.index_copy_(0, torch.from_numpy(rows.places(chunk)), vectors.to(level.dtype).cpu())
            complete(self._member, level, partial(rows.places, ids))
            self._member.barrier()
            below, rows_below = level, rows
        for chunk in takewhile(self._goes_on, self._chunks(own, self._row_bytes(below))):
            yield chunk, self._called(layers.compute, last, *self._one_hop(chunk, below, rows_below))

    def _top_levels(self, own: NDArray[np.int64], last: int) -> NDArray[np.uint8] | None:
        """[N] the highest level that vectors of anyone's ``own`` need a vertex in, 0 for none; None: all vertices."""
        n = self._graph.num_vertices
        if count_over_trainers([len(own)], self._member) == [n]:
            return None
        top_N = np.zeros(n, np.uint8)
        top_N[own] = last
        for layer in range(last - 1, 0, -1):
            mine = top_N[self._begin : self._end] > layer
            for chunk in takewhile(self._goes_on, self._chunks(self._begin + np.flatnonzero(mine), row_bytes=0)):
                segment = self._neighbourhood(chunk, 1, None)
                assert segment is not None
                top_N[segment.vertices] = np.maximum(top_N[segment.vertices], layer)
            all_reduce(torch.from_numpy(top_N), self._member.group, "max")
        return top_N

    def _by_target(
        self, model: nn.Module, own: NDArray[np.int64], level: int, whole_chunk: int
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        self._member.barrier()  # features may be trained, and are read as others have left them
        chunks = [own[i : i + whole_chunk] for i in range(0, len(own), whole_chunk)]
        while chunks and self._goes_on(chunks[-1]):
            chunk = chunks.pop()
            limit = self._max_edges if len(chunk) > 1 else None
            segment = self._neighbourhood(chunk, level, limit)
            if segment is None:
                chunks += [chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]]
                continue
            blocks, x = self._loader.whole_blocks(segment), self._loader.features.load(segment.vertices)
            yield chunk, self._called(forward_to, level, self._num_layers, model, blocks, x)

    def _one_hop(
        self, chunk: NDArray[np.int64], below: Tensor | None, rows: LevelRows | None
    ) -> tuple[Block, Tensor]:
        """The block of all in-edges of a chunk, and the rows of its sources on the level below (None: features)."""
        segment = self._neighbourhood(chunk, 1, None)
        assert segment is not None
        block = self._loader.whole_blocks(segment)[1]
        if below is None or rows is None:
            return block, self._loader.features.load(segment.vertices)
        read = gather(below.view(torch.uint8).numpy(), rows.places(segment.vertices), threads=self._threads)
        return block, read.view(below.dtype).to(self._member.device)

    def _neighbourhood(self, targets: NDArray[np.int64], hops: int, max_edges: int | None) -> Segment | None:
        if hops not in self._samplers:
            self._samplers[hops] = sampler_of(
                self._layout, fan_outs=[-1] * hops, seed=0, edge_ids=self._loader.edges.weights
            )
        sampler = self._samplers[hops]
        limit: dict[str, Any] = {} if max_edges is None else {"max_edges": max_edges}
        return sampler.segment(0) if sampler.sample(targets, epoch=0, batch=0, **limit) else None

    def _chunks(self, ids: NDArray[np.int64], row_bytes: int) -> Iterator[NDArray[np.int64]]:
        """Cuts ids so that a chunk keeps to both bounds (but for a vertex that breaks them alone)."""
        edges = self._max_edges
        if self._graph.num_vertices * row_bytes > MAX_ROW_BYTES:
            edges = min(edges, max(1, MAX_ROW_BYTES // row_bytes))
        return pieces(ids, self._graph.indptr[ids + 1] - self._graph.indptr[ids] + 1, edges)

    def _row_bytes(self, below: Tensor | None) -> int:
        if below is None:
            return int(self._graph.num_features) * self._precision.dtype.itemsize
        return below.shape[1] * below.itemsize


class LevelRows:
    """The vertices of a level in ascending order, and the row of each.

    A vertex takes a byte and a few bits, whichever have rows: the rows before its piece, and those in it before.

    Args:
        mask_N: bool [N] vertices of the level; None: all N, each at the row of its own number.
        num_vertices: N.
    """

    def __init__(self, mask_N: NDArray[np.bool_] | None, num_vertices: int) -> None:
        self.num_rows = num_vertices
        """Number of rows."""
        self._before: NDArray[np.int64] | None = None
        if mask_N is None:
            return
        pieces = -(-num_vertices // IN_A_PIECE)
        padded = np.zeros(pieces * IN_A_PIECE, np.uint8)
        padded[:num_vertices] = mask_N
        of_piece = padded.reshape(pieces, IN_A_PIECE)
        counts = of_piece.sum(axis=1, dtype=np.int64)
        self.num_rows = int(counts.sum())
        self._before = np.cumsum(counts) - counts
        within = np.cumsum(of_piece, axis=1, dtype=np.uint8)  # of a whole piece 256 wraps to 0, and 0 - 1 to 255
        self._within = (within - of_piece).reshape(-1)

    def places(self, vertices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of some vertices of the level, int64 [n]."""
        if self._before is None:
            return vertices
        return self._before[vertices // IN_A_PIECE] + self._within[vertices]
