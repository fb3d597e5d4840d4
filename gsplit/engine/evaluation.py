"""Exact evaluation: over all neighbours, each vertex of each level computed once, by the trainer that owns it.

Level by level, every trainer computes its own range of vertices, in chunks bounded in edges and bytes, from the
level below to the next one. Levels lie in shared memory (two buffers in turn), level 0 in the layout's mapped
features, so that a source owned elsewhere is simply read. Only what the vertices asked for depend on is computed;
the last level may be a hidden one (the embeddings of gsplit.predict).

A model that does not offer its layers one at a time (``forward_layer``) is evaluated on chunks of targets with
their whole neighbourhoods; a chunk with too many edges is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.data import Layout
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.metrics import values_of
from gsplit.engine.objective import Objective
from gsplit.features import gather
from gsplit.host import SharedBuffer
from gsplit.nn import Block
from gsplit.parallel import Member, sum_over_trainers
from gsplit.parallel.collectives import all_reduce
from gsplit.runs.log import finite
from gsplit.sampling import MiniBatchSampler, Segment, sampler_of

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


def bounds_of(layout: Layout, trainers: int) -> NDArray[np.int64]:
    """[P + 1] bounds of the layout ids of the trainers.

    They are their parts, or, where those cannot be dealt out evenly, runs of equal length: what one vertex needs of
    another is read where it lies, so nothing asks for whole parts here.
    """
    if layout.parts % trainers == 0:
        return layout.offsets[:: layout.parts // trainers]
    return np.linspace(0, layout.graph.num_vertices, trainers + 1).astype(np.int64)


def own_range(layout: Layout, member: Member) -> tuple[int, int]:
    """Begin and end of the layout ids that a trainer evaluates."""
    bounds = bounds_of(layout, member.world)
    return int(bounds[member.rank]), int(bounds[member.rank + 1])


class Evaluator:
    """Evaluates models on the vertices of a layout; every trainer makes every call."""

    def __init__(
        self,
        layout: Layout,
        member: Member,
        loader: SplitLoader,
        objective: Objective,
        levels: tuple[SharedBuffer, SharedBuffer],
        *,
        num_layers: int,
        dtype: torch.dtype,
        threads: int,
        max_edges: int = MAX_EDGES,
        metrics: Sequence[str] = (),
    ) -> None:
        self._graph = layout.graph
        self._layout = layout
        self._member = member
        self._loader = loader
        self._objective = objective
        self._levels = levels
        self._num_layers = num_layers
        self._dtype = dtype
        self._threads = threads
        self._max_edges = max_edges
        self._metrics = metrics
        self._samplers: dict[int, MiniBatchSampler] = {}
        self._begin, self._end = own_range(layout, member)

    def score(self, model: nn.Module, ids: NDArray[np.int64]) -> float:
        """Accuracy or F1 of a model on layout ids, over all trainers by their counts."""
        own = ids[(ids >= self._begin) & (ids < self._end)]
        counts = np.zeros(self._objective.num_counts)
        for chunk, logits in self.vectors(model, own):
            labels = torch.from_numpy(self._graph.labels[chunk])
            counts += self._objective.counts(logits.cpu(), labels)
        return self._objective.score(sum_over_trainers(counts.tolist(), self._member))

    @property
    def names(self) -> tuple[str, ...]:
        """What :meth:`scores` gives, the one that decides first."""
        return tuple(self._metrics) or (self._objective.name,)

    def scores(self, model: nn.Module, ids: NDArray[np.int64]) -> dict[str, float | None]:
        """The metrics of a model on layout ids, over all trainers, by name; None where one is not defined."""
        if not self._metrics:
            return {self._objective.name: self.score(model, ids)}
        own = ids[(ids >= self._begin) & (ids < self._end)]
        gathered = self._shared(self._levels[self._num_layers % 2], len(ids), self._graph.num_classes)
        order = np.argsort(ids)
        for chunk, logits in self.vectors(model, own):
            gathered[order[np.searchsorted(ids, chunk, sorter=order)]] = logits.cpu().numpy()
        return self._measured(gathered, lambda: self._graph.labels[ids])

    def scores_of(self, said: Sequence[tuple[Tensor, Tensor]]) -> dict[str, float | None]:
        """The metrics of logits [n, C] and labels [n] or [n, C], piece by piece, of which each trainer has some.

        All trainers give as many pieces, at least one; what comes back is as :meth:`scores` has it.
        """
        counts = [0] * self._member.world
        counts[self._member.rank] = sum(len(logits) for logits, _ in said)
        sizes = [int(size) for size in sum_over_trainers(counts, self._member)]
        begin, total = sum(sizes[: self._member.rank]), sum(sizes)
        gathered = self._shared(self._levels[0], total, self._graph.num_classes)
        several = said[0][1].ndim == 2
        width = self._graph.num_classes if several else 1
        true = self._shared(self._levels[1], total, width)  # classes are small numbers, which any float holds
        for logits, labels in said:
            end = begin + len(logits)
            gathered[begin:end] = logits.cpu().numpy()
            true[begin:end] = labels.reshape(-1, width).cpu().numpy()
            begin = end
        return self._measured(gathered, lambda: true if several else true[:, 0])

    def _measured(self, gathered: NDArray[Any], labels: Callable[[], NDArray[Any]]) -> dict[str, float | None]:
        """Trainer 0 measures what all have written, and tells the others."""
        self._member.barrier()
        values = [0.0] * len(self._metrics)
        if self._member.rank == 0:
            values = values_of(self._metrics, gathered, labels())
        agreed = sum_over_trainers(values, self._member)
        return {name: finite(value) for name, value in zip(self._metrics, agreed, strict=True)}

    def all_logits(self, model: nn.Module) -> NDArray[Any] | None:
        """[N, C] of all vertices, in the order of global ids, on trainer 0; None on the others."""
        own = np.arange(self._begin, self._end)
        n, width = self._graph.num_vertices, self._graph.num_classes
        gathered = self._shared(self._levels[self._num_layers % 2], n, width)
        for chunk, logits in self.vectors(model, own):
            gathered[chunk] = logits.cpu().numpy()
        self._member.barrier()
        result = None
        if self._member.rank == 0:
            result = np.empty_like(gathered)
            result[self._layout.permutation] = gathered
        self._member.barrier()
        return result

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
        if hasattr(model, "forward_layer"):
            yield from self._by_layer(model, own, level)
        else:
            yield from self._by_target(model, own, level, whole_chunk=4096)
        model.train(was_training)

    def _by_layer(
        self, model: nn.Module, own: NDArray[np.int64], last: int
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        forward_layer = cast("Callable[[int, Any, Tensor], Tensor]", model.forward_layer)
        n = self._graph.num_vertices
        below: NDArray[Any] | None = None
        needed = self._needed(own, last)
        for layer in range(1, last):
            width = int(model.level_widths[layer])  # type: ignore[index]
            level = self._shared(self._levels[layer % 2], n, width)
            for chunk in self._chunks(needed[layer], self._row_bytes(below)):
                level[chunk] = forward_layer(layer, *self._one_hop(chunk, below)).cpu().numpy()
            self._member.barrier()
            below = level
        for chunk in self._chunks(own, self._row_bytes(below)):
            yield chunk, forward_layer(last, *self._one_hop(chunk, below))

    def _needed(self, own: NDArray[np.int64], last: int) -> dict[int, NDArray[np.int64]]:
        """This trainer's vertices of the levels 1 .. ``last`` - 1 that vectors of anyone's ``own`` depend on."""
        n = self._graph.num_vertices
        if sum_over_trainers([len(own)], self._member) == [n]:
            return dict.fromkeys(range(1, last), np.arange(self._begin, self._end))
        mask_N = np.zeros(n, np.uint8)
        mask_N[own] = 1
        needed = {last: own}
        for layer in range(last - 1, 0, -1):
            for chunk in self._chunks(needed[layer + 1], row_bytes=0):
                segment = self._neighbourhood(chunk, 1, None)
                assert segment is not None
                mask_N[segment.vertices] = 1
            all_reduce(torch.from_numpy(mask_N), self._member.group, "max")
            needed[layer] = self._begin + np.flatnonzero(mask_N[self._begin : self._end])
        return needed

    def _by_target(
        self, model: nn.Module, own: NDArray[np.int64], level: int, whole_chunk: int
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        self._member.barrier()  # features may be trained, and are read as others have left them
        chunks = [own[i : i + whole_chunk] for i in range(0, len(own), whole_chunk)]
        while chunks:
            chunk = chunks.pop()
            limit = self._max_edges if len(chunk) > 1 else None
            segment = self._neighbourhood(chunk, level, limit)
            if segment is None:
                chunks += [chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]]
                continue
            x = self._loader.features.load(segment.vertices)
            yield chunk, forward_to(level, self._num_layers, model, self._loader.whole_blocks(segment), x)

    def _one_hop(self, chunk: NDArray[np.int64], below: NDArray[Any] | None) -> tuple[Any, Tensor]:
        """The block of all in-edges of a chunk, and the rows of its sources on the level below (None: features)."""
        segment = self._neighbourhood(chunk, 1, None)
        assert segment is not None
        block = self._loader.whole_blocks(segment)[1]
        if below is None:
            return block, self._loader.features.load(segment.vertices)
        return block, gather(below, segment.vertices, threads=self._threads).to(self._member.device)

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
        cost = np.cumsum(self._graph.indptr[ids + 1] - self._graph.indptr[ids] + 1)
        begin = 0
        while begin < len(ids):
            before = cost[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(cost, before + edges, side="right")))
            yield ids[begin:end]
            begin = end

    def _row_bytes(self, below: NDArray[Any] | None) -> int:
        width = self._graph.num_features if below is None else below.shape[1]
        return int(width) * self._dtype.itemsize

    def _shared(self, buffer: SharedBuffer, rows: int, width: int) -> NDArray[Any]:
        dtype = torch.empty(0, dtype=self._dtype).numpy().dtype
        if self._member.rank == 0:
            buffer.grow(rows * width * dtype.itemsize)
        self._member.barrier()
        return buffer.view((rows, width), dtype)
