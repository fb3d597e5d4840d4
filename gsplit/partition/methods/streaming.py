"""A partitioner for graphs that fit neither METIS nor KaMinPar: it reads the graph in order and keeps O(N) beside it.

1. Cluster: label propagation with a limit on the weight of a cluster, in a few passes over the graph.
2. Pack: the graph of the clusters, a sample of its edges where there are too many, is small; METIS partitions it.
3. Restream: each vertex goes to the part of most of its neighbours, as far as there is room, in a few more passes.

That clusters come first is what makes it good: vertices streamed one by one, in an order that tells nothing, see too
few of their neighbours placed (two-phase streaming: Mayer et al., ICDE 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.partition.methods.clusters import MAX_PAIRS, cluster_vertices, graph_of_clusters, pack
from gsplit.partition.methods.cuts import best_cut
from gsplit.partition.methods.restream import Stream, judge, restream
from gsplit.partition.problem import Footprint, Size


@dataclass(frozen=True, kw_only=True)
class StreamingFootprint(Footprint):
    """Memory of streaming, with the graph of clusters: no graph needs more, one without communities as much."""

    per_pair: int

    def of(self, size: Size) -> int:
        """Bytes for a graph of this size."""
        pairs = max(MAX_PAIRS, size.vertices // 4)
        return super().of(size) + self.per_pair * min(size.adjacencies // 2, pairs)


MEMORY = StreamingFootprint(per_adjacency=0, per_weighted_adjacency=4, per_vertex=100, per_pair=160)


def stream(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    parts: int,
    *,
    seed: int,
    vertex_weight: NDArray[np.int64] | None = None,
    edge_weight: NDArray[np.uint32] | None = None,
    targets: NDArray[np.int64] | None = None,
    imbalance: float = 0.03,
    passes: int = 6,
    cuts: int = 1,
    assignment: NDArray[np.int32] | None = None,
    movable: NDArray[Any] | None = None,
) -> NDArray[np.int32]:
    """Assign every vertex to a part, int32 [N]; the same for the same arguments.

    Args:
        indptr, indices: int64 [N + 1], int32 or int64 [E]: in-neighbours; may be memory-mapped.
        vertex_weight: int64 [N], what parts hold equal amounts of; 1 each if None.
        edge_weight: uint32 [E], what it costs to cut an edge, 0 for nothing; 1 each if None.
        targets: ids of the training vertices, which are balanced as well, as far as the vertex weights let them.
        imbalance: by how much a part may be above the mean of the parts. Where a single vertex is heavier than
            that, no part has more than the mean and the weight of one vertex. Vertices that stay can break both.
        passes: of restreaming.
        cuts: clusters are packed and restreamed so often; the best outcome is kept.
        assignment: int32 [N] where to start from, -1 for vertices without a part. Not changed.
        movable: bool [N], or ids: only these get another part. The others need one in ``assignment``.

    Raises:
        ValueError: for arrays that do not fit together and values out of range.
    """
    n = len(indptr) - 1
    _require(1 <= parts <= max(n, 1), f"parts must be 1 to {n}, the number of vertices, not {parts}")
    _require(n < 2**31, f"vertices must be fewer than 2**31, not {n}")
    _require(passes >= 1 and imbalance >= 0, f"passes {passes} must be at least 1, imbalance {imbalance} 0")
    _require(cuts >= 1, f"cuts must be at least 1, not {cuts}")
    _require(0 <= seed < 2**63, f"seed must be 0 to 2**63 - 1, not {seed}")
    for name, array, dtype, size in [
        ("vertex_weight", vertex_weight, np.int64, n),
        ("edge_weight", edge_weight, np.uint32, len(indices)),
        ("assignment", assignment, np.int32, n),
    ]:
        if array is not None and (array.dtype != dtype or array.shape != (size,)):
            raise ValueError(f"{name} must be {np.dtype(dtype)} [{size}], not {array.dtype} {list(array.shape)}")
    _require(vertex_weight is None or n == 0 or vertex_weight.min() >= 0, "a vertex weight is negative")
    graph = Stream(
        indptr=indptr,
        indices=indices,
        edge_weight=edge_weight,
        vertex_weight=vertex_weight,
        target_weight=None if targets is None else _mask(targets, n, "targets").astype(np.int32),
        movable=None if movable is None else _mask(movable, n, "movable"),
    )
    if assignment is None:
        _require(movable is None, "movable needs an assignment for the vertices that stay")
        return np.zeros(n, np.int32) if parts == 1 else _stream(graph, parts, imbalance, passes, cuts, seed)
    group = assignment.astype(np.int32)
    _require(
        n == 0 or (group.min() >= -1 and group.max() < parts), f"the assignment has a part not in -1 .. {parts - 1}"
    )
    stays = group[graph.movable == 0] if graph.movable is not None else group[:0]
    _require((stays >= 0).all(), "a vertex that is not movable has no part")
    restream(graph, group, parts, imbalance, passes, seed)
    return group


def _stream(graph: Stream, parts: int, imbalance: float, passes: int, cuts: int, seed: int) -> NDArray[np.int32]:
    """The three steps, the last two once for each cut."""
    cluster, clusters = cluster_vertices(graph, parts, seed)
    packed = graph_of_clusters(graph, cluster, clusters, seed)

    def make(seed: int) -> NDArray[np.int32]:
        part_C = pack(packed, parts, imbalance, seed)
        group = np.where(cluster >= 0, part_C[cluster], -1).astype(np.int32)
        restream(graph, group, parts, imbalance, passes, seed)
        return group

    return best_cut(cuts, seed, make, lambda group: judge(graph, group, parts, imbalance))


def _mask(chosen: NDArray[Any], n: int, name: str) -> NDArray[np.uint8]:
    """Mask uint8 [N], from bool [N] or ids."""
    if chosen.dtype == bool:
        _require(chosen.shape == (n,), f"{name} must be one for each of {n} vertices")
        return chosen.astype(np.uint8)
    _require(len(chosen) == 0 or (chosen.min() >= 0 and chosen.max() < n), f"{name} has an id outside 0 .. {n - 1}")
    mask = np.zeros(n, np.uint8)
    mask[chosen] = 1
    return mask


def _require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise ValueError(message)
