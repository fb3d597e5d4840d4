"""The words of a segment that say where its arrays lie, of a layer and of pairs (docs/formats.md, "Segment").

Legend: P splits, T types, R relations, level l in 0 .. L, layer l in 1 .. L.
"""

from __future__ import annotations

from dataclasses import dataclass

SUMS_WORDS = (
    *("num_drawn_edges", "num_send_rows", "num_summed_edges", "send_indptr_at", "send_ids_at", "in_degrees_at"),
    *("num_moved", "moved_rows_at", "moved_ids_at"),
)
"""The words, in order, of a layer in which this split sends or receives sums of rows."""
PAIR_WORDS = (
    *("num_groups", "groups_of_all", "negatives_of_all", "num_own_candidates", "num_shared_candidates", "num_chunks"),
    *("own_at_source", "shared_at_source", "turned", "num_apart", "num_left_out"),
    *("sources_at", "destinations_at", "own_candidates_at", "shared_candidates_at", "chunk_groups_at", "masked_at"),
    *("rows_at", "own_log_q_at", "shared_log_q_at"),
    *("num_excluded", "excluded_rows_at", "excluded_ids_at"),
    "send_rows_at",
)
"""The words, in order, that say where a split's pairs lie; the counts of rows sent and received follow."""


@dataclass(frozen=True, kw_only=True)
class PairHeader:
    """The places and lengths of the arrays of a split's pairs in the segment.

    A group is a pair with candidates to put in the place of its destination, the last of them in that of its source.
    It is scored by the owner of its source.
    """

    num_groups: int
    """Number of own groups, G."""
    groups_of_all: int
    """Number of groups of all splits of all micro-batches."""
    negatives_of_all: int
    """Number of candidates of the same groups that are not masked."""
    num_own_candidates: int
    """Number of candidates of each group, K."""
    num_shared_candidates: int
    """Number of candidates that all groups of a chunk share, C."""
    num_chunks: int
    """Number of chunks that have own groups, S."""
    own_at_source: int
    """How many of the K, the last ones, take the place of the source, where others take that of the destination."""
    shared_at_source: int
    """How many of the C likewise."""
    turned: bool
    """Whether pairs are turned round, so that candidates take the place of sources."""
    num_apart: int
    """Number of the own groups, the last, that are candidates with the end of their pair that stays; the last
    ``own_at_source`` of these take the place of the source."""
    num_left_out: int
    """Number of candidates that are none of these, because they are masked."""
    sources_at: int
    """Offset in bytes of ``sources``, int32 [G]: own target rows."""
    destinations_at: int
    """Offset in bytes of ``destinations``, int32 [G]: own target rows, then rows received from trainer 0, 1, ..."""
    own_candidates_at: int
    """Offset in bytes of ``own_candidates``, int32 [G, K]: likewise."""
    shared_candidates_at: int
    """Offset in bytes of ``shared_candidates``, int32 [S, C]: likewise."""
    chunk_groups_at: int
    """Offset in bytes of ``chunk_groups``, int32 [S]: own groups of each chunk, in order."""
    masked_at: int
    """Offset in bytes of ``masked``, uint8 [G, K + C]: candidates that count nothing, own ones first; 0: none is."""
    rows_at: int
    """Offset in bytes of ``rows``, int64 [G]: the numbers of the pairs."""
    own_log_q_at: int
    """Offset in bytes of ``own_log_q``, float32 [G, K]: logarithms of how often each is expected; 0 without."""
    shared_log_q_at: int
    """Offset in bytes of ``shared_log_q``, float32 [S, C]: likewise."""
    num_excluded: int
    """Length of ``excluded_rows`` and ``excluded_ids``: edges to own targets that the mini-batch must not see."""
    excluded_rows_at: int
    """Offset in bytes of ``excluded_rows``, int32 [num_excluded]: destination rows of these edges."""
    excluded_ids_at: int
    """Offset in bytes of ``excluded_ids``, int64 [num_excluded]: positions in the layout's indices."""
    send_rows_at: int
    """Offset in bytes of ``send_rows``, int32 [sum(send_counts)]: own target rows for trainer 0, 1, ..."""
    send_counts: tuple[int, ...]
    """[P] numbers of rows sent to each trainer."""
    receive_counts: tuple[int, ...]
    """[P] numbers of rows received from each trainer."""


@dataclass(frozen=True, kw_only=True)
class LayerHeader:
    """The places and lengths of the arrays of one layer in the segment: of its block by one relation.

    What is sent and received are rows of the relation's source type, for all relations that have it.
    """

    num_destinations: int
    """Number of own level-l vertices of the relation's destination type."""
    num_own_sources: int
    """Number of own level-(l-1) vertices of its source type."""
    num_edges: int
    """Number of edges of the layer's block."""
    num_own_edges: int
    """Number of edges from own sources."""
    num_drawn_edges: int
    """Number of in-edges drawn for the destinations; more than ``num_edges`` where others send sums."""
    num_summed_edges: int
    """Number of own rows that the sums are made of that are sent; 0 where rows alone are sent."""
    num_send_rows: int
    """Length of ``send_rows``."""
    indptr_at: int
    """Offset in bytes of ``indptr``, int32 [num_destinations + 1]; 0 of a typed graph's block without edges."""
    indices_at: int
    """Offset in bytes of ``indices``, int32 [num_edges]: source rows, own level-(l-1) rows first, then the rows
    received from trainer 0, 1, ..."""
    send_rows_at: int
    """Offset in bytes of ``send_rows``, int32 [num_send_rows]: own level-(l-1) rows for trainer 0, 1, ..."""
    edge_ids_at: int
    """Offset in bytes of ``edge_ids``, int64 [num_edges]: positions in the relation's indices, -1 of an edge from a
    sum that was received; 0 without them."""
    send_indptr_at: int
    """Offset in bytes of ``send_indptr``, int32 [sum(send_counts) + 1]: which run of ``send_rows`` each row sent is
    the sum of; 0 where each is one row."""
    send_ids_at: int
    """Offset in bytes of ``send_ids``, int64 [num_send_rows]: positions in the layout's indices of the edges that are
    summed here, -1 of a row that is sent as it is; 0 without them."""
    in_degrees_at: int
    """Offset in bytes of ``in_degrees``, int32 [num_destinations]: in-edges drawn; 0 where ``indptr`` says it."""
    num_moved: int
    """Length of ``moved_rows`` and ``moved_ids``: in-edges that others sum, where there are edge ids."""
    moved_rows_at: int
    """Offset in bytes of ``moved_rows``, int32 [num_moved]: destination rows of these edges; 0 without them."""
    moved_ids_at: int
    """Offset in bytes of ``moved_ids``, int64 [num_moved]: positions in the layout's indices; 0 without them."""
    scales_at: int
    """Offset in bytes of ``scales``, float32 [num_own_sources + sum(receive_counts)]; 0 without them."""
    send_counts: tuple[int, ...]
    """[P] numbers of rows sent to each trainer."""
    receive_counts: tuple[int, ...]
    """[P] numbers of rows received from each trainer."""


@dataclass(frozen=True, kw_only=True)
class SendHeader:
    """The rows of one type that travel before one layer."""

    num_own_sources: int
    """Number of own level-(l-1) vertices of the type."""
    send_rows_at: int
    """Offset in bytes of ``send_rows``, int32 [sum(send_counts)]: own level-(l-1) rows for trainer 0, 1, ..."""
    send_counts: tuple[int, ...]
    """[P] numbers of rows sent to each trainer."""
    receive_counts: tuple[int, ...]
    """[P] numbers of rows received from each trainer."""


def layer_words(parts: int, types: int, relations: int, *, scales: bool) -> int:
    """Words of a layer in the header of a segment."""
    return 5 * relations + 1 + scales + (1 + 2 * parts) * types


def sends_of_layer(
    words: list[int], own_sources: tuple[int, ...], parts: int, relations: int, *, scales: bool
) -> tuple[SendHeader, ...]:
    """Read what the words of a layer say of rows that travel, by type.

    Args:
        words: of the layer, as :func:`layer_words` counts them.
        own_sources: [T] numbers of own level-(l-1) vertices.
        parts: P.
        relations: R.
        scales: whether scales are carried.

    Returns:
        [T].
    """
    types = len(own_sources)
    counts_at = 5 * relations + types + 1 + scales
    counts = [words[counts_at + parts * i : counts_at + parts * (i + 1)] for i in range(2 * types)]
    return tuple(
        SendHeader(
            num_own_sources=own_sources[type_],
            send_rows_at=words[4 * relations + type_],
            send_counts=tuple(counts[2 * type_]),
            receive_counts=tuple(counts[2 * type_ + 1]),
        )
        for type_ in range(types)
    )
