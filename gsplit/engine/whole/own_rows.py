"""What belongs to the rows of one trainer, read from the layout in pieces: levels, features, labels, degrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.engine.components import Components
from gsplit.engine.own_ranges import bounds_of
from gsplit.full import Levels, levels_of
from gsplit.full.reading import PIECE_EDGES, Places, places_among, vertex_pieces
from gsplit.parallel.collectives import all_reduce

PIECE_BYTES = 1 << 20
"""Bytes of values that are read at a time, or those of one row."""


class OwnRows:
    """The rows of one trainer; all trainers make one, together. Levels lie in memory that those of a host map.

    Each host finds the levels of all vertices, so nothing of them is sent between hosts.

    Args:
        components: of the trainer.
        whole: have all vertices in the levels below the last.
    """

    def __init__(self, components: Components, *, whole: bool) -> None:
        self._components = components
        member, buffers = components.member, iter(components.shared.rows)
        bounds = bounds_of(components.layout, member.world)
        self.begin, self.end = int(bounds[member.rank]), int(bounds[member.rank + 1])

        def room(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
            if member.world == 1:
                return np.empty(shape, dtype)
            buffer = next(buffers)
            if member.local == 0:
                buffer.grow(int(np.prod(shape)) * np.dtype(dtype).itemsize)
            member.barrier()
            return buffer.view(shape, dtype)

        def total(sizes: NDArray[np.int64]) -> None:
            all_reduce(torch.from_numpy(sizes), member.group)
            sizes //= member.hosts  # each of which has counted all

        self.levels: Levels = levels_of(
            components.layout.graph,
            bounds,
            components.run.config.layers,
            whole=whole,
            ours=range(member.local, member.world, len(member.here)),
            room=room,
            wait=member.barrier,
            total=total,
        )
        self.sizes = [int(size) for size in self.levels.sizes[member.rank]]
        """[L + 1] number of rows of each level."""

    def close(self) -> None:
        """Give the memory of the levels back; all make the call."""
        del self.levels
        member = self._components.member
        member.barrier()
        if member.local == 0 and member.world > 1:
            for buffer in self._components.shared.rows:
                buffer.clear()
        member.barrier()

    def places(self, level: int, trainers: range | list[int]) -> Places:
        """Places of a level's vertices among the rows of some trainers, one after another."""
        levels = self.levels
        return places_among(levels.bounds, levels.sizes[:, level], levels.row_N, trainers)

    def values(self, level: int, out: Tensor, read: Callable[[NDArray[np.int64]], Tensor]) -> Tensor:
        """``out`` [rows of the level, ...], filled with what is read of the vertices, a piece at a time.

        Args:
            level: whose rows are meant.
            out: on the trainer's device.
            read: gives the values of layout ids.
        """
        at_once = max(1, min(PIECE_EDGES, PIECE_BYTES // max(1, out.itemsize * out.shape[1:].numel())))
        for a, b in vertex_pieces(self.begin, self.end, at_once):
            rows = self.levels.row_N[a:b]
            there = np.flatnonzero((rows >= 0) & (rows < self.sizes[level]))
            if len(there):
                at = torch.from_numpy(rows[there].astype(np.int64)).to(out.device)
                out.index_copy_(0, at, read(a + there).to(out.device, out.dtype))
        return out

    def vertices(self, level: int) -> NDArray[np.int64]:
        """Layout ids of the rows of a level."""
        out = torch.empty(self.sizes[level], dtype=torch.int64)
        ids: NDArray[np.int64] = self.values(level, out, torch.from_numpy).numpy()
        return ids

    def features(self, load: Callable[[NDArray[np.int64]], Tensor]) -> Tensor:
        """Features of the rows of level 0."""
        graph, run = self._components.layout.graph, self._components.run
        return self.values(0, self._empty((self.sizes[0], graph.num_features), run.dtype), load)

    def labels(self) -> Tensor:
        """Labels of the targets."""
        labels = self._components.layout.graph.labels
        like = torch.from_numpy(np.empty((0, *labels.shape[1:]), labels.dtype))
        out = self._empty((self.sizes[-1], *like.shape[1:]), like.dtype)
        return self.values(len(self.sizes) - 1, out, lambda ids: torch.from_numpy(labels[ids]))

    def degrees(self, level: int) -> Tensor:
        """Weights of all in-edges of the rows of a level; their number without weights."""
        out = self._empty((self.sizes[level],), self._components.run.dtype)
        edges = self._components.edges

        def read(ids: NDArray[np.int64]) -> Tensor:
            begin, end = int(ids[0]), int(ids[-1]) + 1
            return edges.degrees_in(begin, end)[torch.from_numpy(ids - begin).to(out.device)]

        return self.values(level, out, read)

    def in_degrees(self, level: int) -> Tensor:
        """Numbers of in-edges of the rows of a level, int32."""
        indptr = self._components.layout.graph.indptr
        out = self._empty((self.sizes[level],), torch.int32)
        return self.values(level, out, lambda ids: torch.from_numpy(indptr[ids + 1] - indptr[ids]))

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=self._components.member.device)
