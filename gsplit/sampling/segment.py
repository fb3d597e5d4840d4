"""A split at rest: one piece of memory with a header (docs/formats.md, "Segment").

:class:`Segment` reads the header and gives views, without a copy. It works on host memory only; a trainer copies
the bytes to its device and asks the same header where the arrays are.

Legend: P splits, L layers, level l in 0 .. L, layer l in 1 .. L.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAGIC = int.from_bytes(b"GSPLTSEG", "little")
VERSION = 1
HAS_EDGE_IDS = 1
"""The bit of the header's flags that says that edge ids are carried."""
HEADER_FIXED_WORDS = 12
"""Words of the header before the level sizes."""
LAYER_FIXED_WORDS = 6
"""Words of a layer's header before the counts of rows sent and received."""


@dataclass(frozen=True, kw_only=True)
class LayerHeader:
    """Where the arrays of one layer lie in the segment, and how long they are."""

    num_destinations: int
    """Number of own level-l vertices."""
    num_own_sources: int
    """Number of own level-(l-1) vertices."""
    num_edges: int
    """Number of edges of the layer's block."""
    indptr_at: int
    """Offset in bytes of ``indptr``, int32 [num_destinations + 1]."""
    indices_at: int
    """Offset in bytes of ``indices``, int32 [num_edges]: source rows, own level-(l-1) rows first, then the rows
    received from trainer 0, 1, ..."""
    send_rows_at: int
    """Offset in bytes of ``send_rows``, int32 [sum(send_counts)]: own level-(l-1) rows for trainer 0, 1, ..."""
    edge_ids_at: int
    """Offset in bytes of ``edge_ids``, int64 [num_edges]: positions in the layout's indices; 0 without them."""
    send_counts: tuple[int, ...]
    """[P] numbers of rows sent to each trainer."""
    receive_counts: tuple[int, ...]
    """[P] numbers of rows received from each trainer."""


class Segment:
    """The header of one split, parsed, and views of its arrays.

    Args:
        data: uint8 [bytes] in host memory, starting on an 8-byte boundary.

    Raises:
        ValueError: where ``data`` is no segment of this version.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        if len(data) < HEADER_FIXED_WORDS * 8:
            raise ValueError(f"{len(data)} bytes are too few for a segment")
        head = data[: HEADER_FIXED_WORDS * 8].view(np.int64).tolist()
        if head[0] != MAGIC or head[1] != VERSION:
            raise ValueError(f"not a segment of version {VERSION}")
        (
            self.num_bytes,
            self.parts,
            self.rank,
            self.num_layers,
            self.epoch,
            self.batch,
            self.num_targets,
            flags,
            self.vertices_at,
            self.micro,
        ) = head[2:12]
        # num_targets counts the targets of all splits of all micro-batches: the loss is divided by it (law 2).
        self.has_edge_ids = bool(flags & HAS_EDGE_IDS)
        levels = self.num_layers + 1
        layer_words = LAYER_FIXED_WORDS + 2 * self.parts
        end = HEADER_FIXED_WORDS + levels + self.num_layers * layer_words
        words = data[HEADER_FIXED_WORDS * 8 : end * 8].view(np.int64).tolist()
        self.level_sizes: tuple[int, ...] = tuple(words[:levels])
        """[L + 1] sizes of the levels: the level-l vertices are the first ``level_sizes[l]`` of ``vertices``."""
        self.layers: dict[int, LayerHeader] = {}
        """The header of each layer, 1 .. L."""
        for layer in range(1, levels):
            at = levels + (layer - 1) * layer_words
            edges, indptr_at, indices_at, send_rows_at, edge_ids_at = words[at : at + 5]
            counts = words[at + LAYER_FIXED_WORDS : at + layer_words]
            self.layers[layer] = LayerHeader(
                num_destinations=self.level_sizes[layer],
                num_own_sources=self.level_sizes[layer - 1],
                num_edges=edges,
                indptr_at=indptr_at,
                indices_at=indices_at,
                send_rows_at=send_rows_at,
                edge_ids_at=edge_ids_at,
                send_counts=tuple(counts[: self.parts]),
                receive_counts=tuple(counts[self.parts :]),
            )

    def _int32(self, at: int, count: int) -> NDArray[np.int32]:
        return self.data[at : at + 4 * count].view(np.int32)

    @property
    def vertices(self) -> NDArray[np.int64]:
        """Layout ids of this split's vertices, int64 [level_sizes[0]], targets first."""
        return self.data[self.vertices_at : self.vertices_at + 8 * self.level_sizes[0]].view(np.int64)

    @property
    def targets(self) -> NDArray[np.int64]:
        """Layout ids of this split's targets, int64 [level_sizes[L]]."""
        return self.vertices[: self.level_sizes[self.num_layers]]

    def indptr(self, layer: int) -> NDArray[np.int32]:
        """Where the edges of each destination row of a layer begin and end, int32 [num_destinations + 1]."""
        return self._int32(self.layers[layer].indptr_at, self.layers[layer].num_destinations + 1)

    def indices(self, layer: int) -> NDArray[np.int32]:
        """The source row of each edge of a layer, int32 [num_edges]."""
        return self._int32(self.layers[layer].indices_at, self.layers[layer].num_edges)

    def send_rows(self, layer: int) -> list[NDArray[np.int32]]:
        """The own level-(l-1) rows that each trainer needs for layer l, [P] int32 arrays."""
        counts = self.layers[layer].send_counts
        rows = self._int32(self.layers[layer].send_rows_at, sum(counts))
        return np.split(rows, np.cumsum(counts)[:-1])

    def edge_ids(self, layer: int) -> NDArray[np.int64] | None:
        """The position of each edge of a layer in the layout's indices, int64 [num_edges]; None without edge ids."""
        header = self.layers[layer]
        if not self.has_edge_ids:
            return None
        return self.data[header.edge_ids_at : header.edge_ids_at + 8 * header.num_edges].view(np.int64)

    @property
    def num_edges(self) -> int:
        """Number of edges of all layers: what this split computes."""
        return sum(header.num_edges for header in self.layers.values())

    def validate(self) -> None:
        """Assert what every split must satisfy on its own; for tests."""
        assert self.num_bytes <= len(self.data)
        assert all(a <= b for a, b in zip(self.level_sizes[1:], self.level_sizes[:-1], strict=True))
        assert len(np.unique(self.vertices)) == len(self.vertices)
        for layer, header in self.layers.items():
            indptr, indices = self.indptr(layer), self.indices(layer)
            assert indptr[0] == 0
            assert indptr[-1] == header.num_edges
            assert (np.diff(indptr) >= 0).all()
            assert header.send_counts[self.rank] == 0
            assert header.receive_counts[self.rank] == 0
            num_sources = header.num_own_sources + sum(header.receive_counts)
            assert ((indices >= 0) & (indices < num_sources)).all()
            for rows in self.send_rows(layer):
                assert len(np.unique(rows)) == len(rows)
                assert ((rows >= 0) & (rows < header.num_own_sources)).all()
            received = np.arange(header.num_own_sources, num_sources)
            assert np.isin(received, indices).all()
