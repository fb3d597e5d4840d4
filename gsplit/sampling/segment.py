"""A split at rest: one piece of memory with a header (docs/formats.md, "Segment").

:class:`Segment` reads the header and gives views, without a copy. It works on host memory only; a trainer copies
the bytes to its device and asks the same header where the arrays are.

A segment of a graph of several types or relations is one of version 4. Of it, what belongs to a type or relation is
asked for by its number; what names none is of the only one, and raises ``ValueError`` where there are several.

Legend: P splits, L layers, level l in 0 .. L, layer l in 1 .. L, T types, R relations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.sampling.segment_headers import (
    PAIR_WORDS,
    SUMS_WORDS,
    LayerHeader,
    PairHeader,
    SendHeader,
    layer_words,
    sends_of_layer,
)

MAGIC = int.from_bytes(b"GSPLTSEG", "little")
VERSION = 3
"""Of a graph of one type and one relation."""
TYPED_VERSION = 4
"""Of a graph of several types or relations: the same with the words of these."""
HAS_EDGE_IDS = 1
"""The bit of the header's flags that says that edge ids are carried."""
HAS_SCALES = 2
"""The bit of the header's flags that says that scales are carried."""
SURE_LOOPS = 4
"""The bit that says that an edge from a vertex to itself counts 1: it is kept wherever the vertex is."""
DRAWN_TARGETS = 8
"""The bit that says that targets were drawn with the chances that their scales have."""
HAS_PAIRS = 16
"""The bit that says that pairs of vertices are carried, to be scored."""
HEADER_FIXED_WORDS = 12
"""Words of the header before those of types and relations, and the level sizes."""
TYPE_WORDS = 3
"""Words of types and relations before the two types of each relation."""


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
        if head[0] != MAGIC or head[1] not in (VERSION, TYPED_VERSION):
            raise ValueError(f"not a segment of version {VERSION} or {TYPED_VERSION}")
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
        self.has_edge_ids, self.has_scales = bool(flags & HAS_EDGE_IDS), bool(flags & HAS_SCALES)
        self.sure_loops = bool(flags & SURE_LOOPS)
        self.has_drawn_targets = bool(flags & DRAWN_TARGETS)
        at = HEADER_FIXED_WORDS
        types, self.target_type = 1, 0
        self.relations: tuple[tuple[int, int], ...] = ((0, 0),)
        """[R] the source and destination type of each relation, by number."""
        if head[1] == TYPED_VERSION:
            types, relations, self.target_type = self._int64(8 * at, TYPE_WORDS).tolist()
            ends = self._int64(8 * (at + TYPE_WORDS), 2 * relations).reshape(relations, 2).tolist()
            self.relations = tuple((source, destination) for source, destination in ends)
            at += TYPE_WORDS + 2 * relations
        levels = self.num_layers + 1
        of_layer = layer_words(self.parts, types, len(self.relations), scales=self.has_scales)
        end = types * levels + self.num_layers * of_layer
        words = self._int64(8 * at, end + bool(flags & HAS_PAIRS)).tolist()
        self.levels = tuple(tuple(words[levels * type_ : levels * (type_ + 1)]) for type_ in range(types))
        """[T][L + 1] sizes of the levels: of level l are the first ``levels[type][l]`` of the type's vertices."""
        self.sends: dict[int, tuple[SendHeader, ...]] = {}
        """[T] rows that travel before each layer, 1 .. L."""
        self.blocks: dict[int, tuple[LayerHeader, ...]] = {}
        """[R] headers of each layer, 1 .. L."""
        for layer in range(1, levels):
            begin = types * levels + (layer - 1) * of_layer
            self.sends[layer], self.blocks[layer] = self._layer_headers(words[begin : begin + of_layer], layer)
        self.pairs = self._pair_header(words[-1]) if flags & HAS_PAIRS else None
        """Where the pairs lie that this split scores; None where the mini-batch has none."""

    def _layer_headers(self, words: list[int], layer: int) -> tuple[tuple[SendHeader, ...], tuple[LayerHeader, ...]]:
        types, relations = len(self.levels), len(self.relations)
        own_sources = tuple(sizes[layer - 1] for sizes in self.levels)
        sends = sends_of_layer(words, own_sources, self.parts, relations, scales=self.has_scales)
        edge_ids_at = words[4 * relations + types :]
        sums_at, scales_at = edge_ids_at[relations], edge_ids_at[relations + 1]
        blocks = []
        for number, (source, destination) in enumerate(self.relations):
            edges, own_edges, indptr_at, indices_at = words[4 * number : 4 * number + 4]
            of_sums = dict.fromkeys(SUMS_WORDS, 0)
            of_sums |= {"num_drawn_edges": edges, "num_send_rows": sum(sends[source].send_counts)}
            if sums_at:
                of_sums = dict(zip(SUMS_WORDS, self._int64(sums_at, len(SUMS_WORDS)).tolist(), strict=True))
            blocks.append(
                LayerHeader(
                    num_destinations=self.levels[destination][layer],
                    num_own_sources=own_sources[source],
                    num_edges=edges,
                    num_own_edges=own_edges,
                    indptr_at=indptr_at,
                    indices_at=indices_at,
                    send_rows_at=sends[source].send_rows_at,
                    edge_ids_at=edge_ids_at[number],
                    scales_at=scales_at if self.has_scales else 0,
                    send_counts=sends[source].send_counts,
                    receive_counts=sends[source].receive_counts,
                    **of_sums,
                )
            )
        return sends, tuple(blocks)

    def _pair_header(self, at: int) -> PairHeader:
        fixed = len(PAIR_WORDS)
        words = self._int64(at, fixed + 2 * self.parts).tolist()
        send_counts, receive_counts = words[fixed : fixed + self.parts], words[fixed + self.parts :]
        return PairHeader(
            **dict(zip(PAIR_WORDS, words[:fixed], strict=True)) | {"turned": bool(words[PAIR_WORDS.index("turned")])},
            send_counts=tuple(send_counts),
            receive_counts=tuple(receive_counts),
        )

    def _int32(self, at: int, count: int) -> NDArray[np.int32]:
        return self.data[at : at + 4 * count].view(np.int32)

    def _float32(self, at: int, count: int) -> NDArray[np.float32]:
        return self.data[at : at + 4 * count].view(np.float32)

    def _int64(self, at: int, count: int) -> NDArray[np.int64]:
        return self.data[at : at + 8 * count].view(np.int64)

    @property
    def is_typed(self) -> bool:
        """Whether the graph has several types or relations."""
        return len(self.levels) > 1 or len(self.relations) > 1

    def _of_only_one(self) -> int:
        if self.is_typed:
            types, relations = len(self.levels), len(self.relations)
            raise ValueError(f"the segment has {types} types and {relations} relations; say which")
        return 0

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """[L + 1] sizes of the levels: the level-l vertices are the first ``level_sizes[l]`` of ``vertices``."""
        return self.levels[self._of_only_one()]

    @property
    def layers(self) -> dict[int, LayerHeader]:
        """The header of each layer, 1 .. L."""
        only = self._of_only_one()
        return {layer: headers[only] for layer, headers in self.blocks.items()}

    @property
    def vertices(self) -> NDArray[np.int64]:
        """Layout ids of this split's vertices, int64 [level_sizes[0]], targets first."""
        return self.vertices_of(self._of_only_one())

    def vertices_of(self, type_: int) -> NDArray[np.int64]:
        """Layout ids of this split's vertices of a type, int64 [levels[type][0]], those of higher levels first."""
        before = sum(sizes[0] for sizes in self.levels[:type_])
        return self._int64(self.vertices_at + 8 * before, self.levels[type_][0])

    @property
    def targets(self) -> NDArray[np.int64]:
        """Layout ids of this split's targets, int64 [number], of the target type."""
        return self.vertices_of(self.target_type)[: self.levels[self.target_type][self.num_layers]]

    def _block(self, layer: int, relation: int | None) -> LayerHeader:
        return self.blocks[layer][self._of_only_one() if relation is None else relation]

    def indptr(self, layer: int, relation: int | None = None) -> NDArray[np.int32]:
        """Return where the edges of each destination row of a layer begin and end, int32 [num_destinations + 1]."""
        header = self._block(layer, relation)
        if header.indptr_at == 0:
            return np.zeros(header.num_destinations + 1, np.int32)
        return self._int32(header.indptr_at, header.num_destinations + 1)

    def indices(self, layer: int, relation: int | None = None) -> NDArray[np.int32]:
        """The source row of each edge of a layer, int32 [num_edges]."""
        header = self._block(layer, relation)
        return self._int32(header.indices_at, header.num_edges)

    def send_rows(self, layer: int) -> list[NDArray[np.int32]]:
        """The own level-(l-1) rows that each trainer needs for layer l, or sums of, [P] int32 arrays."""
        header = self.layers[layer]
        rows = self._int32(header.send_rows_at, header.num_send_rows)
        return np.split(rows, self.send_indptr(layer)[np.cumsum(header.send_counts)[:-1]])

    def send_rows_of(self, layer: int, type_: int) -> list[NDArray[np.int32]]:
        """The own level-(l-1) rows of a type that each trainer needs for layer l, [P] int32 arrays, each row once."""
        header = self.sends[layer][type_]
        rows = self._int32(header.send_rows_at, sum(header.send_counts))
        return np.split(rows, np.cumsum(header.send_counts)[:-1])

    def send_indptr(self, layer: int) -> NDArray[np.int32]:
        """Return where the own rows of each sum that is sent begin, over all trainers, int32 [rows sent + 1]."""
        header = self.layers[layer]
        if header.send_indptr_at == 0:
            return np.arange(header.num_send_rows + 1, dtype=np.int32)
        return self._int32(header.send_indptr_at, sum(header.send_counts) + 1)

    def send_ids(self, layer: int) -> NDArray[np.int64] | None:
        """Positions of the edges that are summed here, int64 [own rows sent or summed]; None where none is.

        -1 stands for a row that is sent as it is.
        """
        header = self.layers[layer]
        return self._int64(header.send_ids_at, header.num_send_rows) if header.send_ids_at else None

    def in_degrees(self, layer: int) -> NDArray[np.int32]:
        """Number of in-edges drawn for each destination of a layer, by any trainer, int32 [num_destinations]."""
        header = self.layers[layer]
        if header.in_degrees_at == 0:
            return np.diff(self.indptr(layer))
        return self._int32(header.in_degrees_at, header.num_destinations)

    def moved(self, layer: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The in-edges of a layer that others sum: int32 [M] destination rows, int64 [M] positions in ``indices``.

        Both are empty without edge ids.
        """
        header = self.layers[layer]
        return self._int32(header.moved_rows_at, header.num_moved), self._int64(header.moved_ids_at, header.num_moved)

    def edge_ids(self, layer: int, relation: int | None = None) -> NDArray[np.int64] | None:
        """The position of each edge in the relation's indices, int64 [num_edges]; None without edge ids."""
        header = self._block(layer, relation)
        return self._int64(header.edge_ids_at, header.num_edges) if self.has_edge_ids else None

    def scales(self, layer: int) -> NDArray[np.float32] | None:
        """Return the count of an edge from each source, float32 [own sources, then rows received]; None: 1 each.

        It is 1 over the chance that the source was drawn, and 0 of sources that were not. With ``sure_loops`` edges
        from a vertex to itself count 1.
        """
        header = self.layers[layer]
        if not self.has_scales:
            return None
        count = header.num_own_sources + sum(header.receive_counts)
        return self._float32(header.scales_at, count)

    def target_scales(self) -> NDArray[np.float32] | None:
        """Return what each own target stands for in a sum over all training vertices, float32 [n_L]; None: itself.

        It is 1 over the chance that the vertex was in the mini-batch.
        """
        scales = self.scales(len(self.layers)) if self.has_drawn_targets else None
        return None if scales is None else scales[: len(self.targets)]  # the first sources are the destinations

    @property
    def pair_rows(self) -> NDArray[np.int64]:
        """Numbers of the pairs that this split scores, int64 [G]."""
        return np.empty(0, np.int64) if self.pairs is None else self._int64(self.pairs.rows_at, self.pairs.num_groups)

    @property
    def excluded(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The edges to own targets that the mini-batch must not see: int32 [X] rows, int64 [X] positions."""
        header = self.pairs
        if header is None:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        rows = self._int32(header.excluded_rows_at, header.num_excluded)
        return rows, self._int64(header.excluded_ids_at, header.num_excluded)

    @property
    def log_q(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logarithms of how often candidates are expected, float32 [G, K] and [S, C]; empty where nobody asked."""
        header = self.pairs
        if header is None or not (header.own_log_q_at or header.shared_log_q_at):
            return np.empty((0, 0), np.float32), np.empty((0, 0), np.float32)
        own, shared = (
            self._float32(at, rows * width).reshape(rows, width)
            for at, rows, width in (
                (header.own_log_q_at, header.num_groups, header.num_own_candidates),
                (header.shared_log_q_at, header.num_chunks, header.num_shared_candidates),
            )
        )
        return own, shared

    @property
    def chunk_groups(self) -> NDArray[np.int32]:
        """How many own groups each chunk has that has any, int32 [S]."""
        return (
            np.empty(0, np.int32)
            if self.pairs is None
            else self._int32(self.pairs.chunk_groups_at, self.pairs.num_chunks)
        )

    @property
    def masked_candidates(self) -> NDArray[np.bool_]:
        """Return which candidates of the pairs that this split scores count nothing, bool [G, K + C]."""
        header = self.pairs
        if header is None:
            return np.zeros((0, 0), np.bool_)
        shape = header.num_groups, header.num_own_candidates + header.num_shared_candidates
        if not header.masked_at:
            return np.zeros(shape, np.bool_)
        return self.data[header.masked_at : header.masked_at + shape[0] * shape[1]].view(np.bool_).reshape(shape)

    @property
    def num_edges(self) -> int:
        """Number of in-edges drawn for this split's destinations, over all layers."""
        return sum(header.num_drawn_edges for headers in self.blocks.values() for header in headers)

    @property
    def num_computed_edges(self) -> int:
        """Number of edges that this split sums over, in all layers: its blocks', and those of the sums it sends."""
        headers = (header for headers in self.blocks.values() for header in headers)
        return sum(header.num_edges + header.num_summed_edges for header in headers)

    def validate(self) -> None:
        """Assert what every split must satisfy on its own; for tests."""
        assert self.num_bytes <= len(self.data)
        for type_, sizes in enumerate(self.levels):
            assert all(a <= b for a, b in zip(sizes[1:], sizes[:-1], strict=True))
            assert len(np.unique(self.vertices_of(type_))) == len(self.vertices_of(type_))
            assert sizes[-1] == 0 or type_ == self.target_type
        for layer, sends in self.sends.items():
            read = [[np.empty(0, np.int32)] for _ in self.levels]
            for relation, (source, _) in enumerate(self.relations):
                self._validate_block(layer, relation)
                read[source].append(self.indices(layer, relation))
            for type_, header in enumerate(sends):
                assert header.send_counts[self.rank] == 0
                assert header.receive_counts[self.rank] == 0
                num_sources = header.num_own_sources + sum(header.receive_counts)
                received = np.arange(header.num_own_sources, num_sources)
                assert np.isin(received, np.concatenate(read[type_])).all()
                for rows in self.send_rows_of(layer, type_) if self.is_typed else ():
                    assert len(np.unique(rows)) == len(rows)
                    assert ((rows >= 0) & (rows < header.num_own_sources)).all()
            if not self.is_typed:
                self._validate_sums(layer)

    def _validate_block(self, layer: int, relation: int) -> None:
        header = self.blocks[layer][relation]
        indptr, indices = self.indptr(layer, relation), self.indices(layer, relation)
        assert indptr[0] == 0
        assert indptr[-1] == header.num_edges
        assert (np.diff(indptr) >= 0).all()
        assert ((indices >= 0) & (indices < header.num_own_sources + sum(header.receive_counts))).all()
        assert (indices < header.num_own_sources).sum() == header.num_own_edges

    def _validate_sums(self, layer: int) -> None:
        header = self.layers[layer]
        lengths = np.diff(self.send_indptr(layer))
        assert (lengths >= 1).all()
        assert lengths[lengths > 1].sum() == header.num_summed_edges
        ends = np.cumsum(header.send_counts)
        for rows, begin, end in zip(self.send_rows(layer), ends - header.send_counts, ends, strict=True):
            as_they_are = rows[np.repeat(lengths[begin:end] == 1, lengths[begin:end])]
            assert len(np.unique(as_they_are)) == len(as_they_are)
            assert not np.isin(as_they_are, rows[np.repeat(lengths[begin:end] > 1, lengths[begin:end])]).any()
            assert ((rows >= 0) & (rows < header.num_own_sources)).all()
        drawn = self.in_degrees(layer)
        assert drawn.sum() == header.num_drawn_edges
        assert (drawn >= np.diff(self.indptr(layer))).all()
