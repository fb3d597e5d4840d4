"""A partitioner for graphs that fit neither METIS nor KaMinPar: it reads the graph in order and keeps O(N) beside it.

1. Cluster: label propagation with a limit on the weight of a cluster, in a few passes over the graph.
2. Pack: the graph of the clusters, a sample of its edges where there are too many, is small; METIS partitions it.
3. Restream: each vertex goes to the part of most of its neighbours, as far as there is room, in a few more passes.

1 and 3 are the same kernel, csrc/stream.hpp. That clusters come first is what makes it good: vertices streamed one by
one, in an order that tells nothing, see too few of their neighbours placed (two-phase streaming: Mayer et al.,
ICDE 2022; size-constrained label propagation: Meyerhenke, Sanders, Schulz, SEA 2014).

N vertices, E edges, P parts, C clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymetis
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.bars import SECONDS_BEFORE_BAR, tqdm
from gsplit.data.graph import row_ranges

EDGES_AT_ONCE = 1 << 22
"""Read by one call of C++, which Ctrl-C cannot interrupt."""
CLUSTER_PASSES = 3
CLUSTERS_PER_PART = 64
"""At least: it sets the limit on the weight of a cluster."""
PACK_PASSES = 24
"""Over the graph of clusters, at most: they are cheap, and two weights are hard to balance."""
LOOSE = 2
"""Times the limit on vertex weights, while targets are brought within theirs."""
MAX_CLUSTERS, MAX_PAIRS = 1 << 20, 1 << 22
"""Clusters, and pairs of adjacent clusters, that METIS gets; where N / 16 and N / 4 are more, that many."""
EDGES_PER_PAIR = 4
"""Looked at for each of these pairs, at most, where edges have no weights."""
SETTLED = 1000
"""Restreaming ends when a pass moves less than one vertex in so many."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A graph to be read in order, with its weights. None: 1 each, or no targets, or all movable."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    edge_weight: NDArray[np.uint32] | None = None
    vertex_weight: NDArray[np.int64] | None = None
    target_weight: NDArray[np.int32] | None = None
    movable: NDArray[np.uint8] | None = None

    @property
    def num_vertices(self) -> int:
        return len(self.indptr) - 1

    @property
    def totals(self) -> tuple[int, int]:
        """Of vertex weights and of target weights."""
        weight = self.num_vertices if self.vertex_weight is None else int(self.vertex_weight.sum())
        return weight, 0 if self.target_weight is None else int(self.target_weight.sum(dtype=np.int64))

    def loads(self, group: NDArray[np.int32], groups: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[groups] each: the sums of vertex weights and of target weights."""
        load, target_load = np.zeros((2, groups), np.int64)
        placed = slice(None) if (group >= 0).all() else group >= 0
        np.add.at(load, group[placed], 1 if self.vertex_weight is None else self.vertex_weight[placed])
        if self.target_weight is not None:
            np.add.at(target_load, group[placed], self.target_weight[placed])
        return load, target_load

    def bar(self, name: str) -> tqdm[Any]:
        return tqdm(total=len(self.indices), desc=name, unit="edge", unit_scale=True, leave=False, disable=None,
                    delay=SECONDS_BEFORE_BAR)  # fmt: skip


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
        assignment: int32 [N] where to start from, -1 for vertices without a part. Not changed.
        movable: bool [N], or ids: only these get another part. The others need one in ``assignment``.

    Raises:
        ValueError: for arrays that do not fit together and values out of range.
    """
    n = len(indptr) - 1
    _require(1 <= parts <= max(n, 1), f"parts must be 1 to {n}, the number of vertices, not {parts}")
    _require(n < 2**31, f"vertices must be fewer than 2**31, not {n}")
    _require(passes >= 1 and imbalance >= 0, f"passes {passes} must be at least 1, imbalance {imbalance} 0")
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
        if parts == 1:
            return np.zeros(n, np.int32)
        group = _pack(graph, *_cluster(graph, parts, seed), parts, imbalance, seed)
    else:
        group = assignment.astype(np.int32)
        _require(
            n == 0 or (group.min() >= -1 and group.max() < parts),
            f"the assignment has a part not in -1 .. {parts - 1}",
        )
        stays = group[graph.movable == 0] if graph.movable is not None else group[:0]
        _require((stays >= 0).all(), "a vertex that is not movable has no part")
    _restream(graph, group, parts, imbalance, passes, seed)
    return group


def _cluster(graph: Stream, parts: int, seed: int) -> tuple[NDArray[np.int32], int]:
    """(int32 [N] cluster of each vertex, C), the heaviest cluster first; -1 in the many too small for METIS."""
    n = graph.num_vertices
    cluster = np.arange(n, dtype=np.int32)
    load, target_load = graph.loads(cluster, n)
    weight, target_weight = (total // (CLUSTERS_PER_PART * parts) for total in graph.totals)
    limits = weight, target_weight
    gain = np.zeros(n, np.int64)
    for number in range(CLUSTER_PASSES):
        _pass(graph, cluster, load, target_load, gain, limits, False, 1, seed + number, f"cluster, pass {number + 1}")
    del gain
    size = np.bincount(cluster, minlength=n)
    order = np.flatnonzero(size)
    kept = min(len(order), max(MAX_CLUSTERS, n // 16))
    order = order[np.lexsort((-size[order], -load[order]))][:kept]
    number_of = np.full(n, -1, np.int32)
    number_of[order] = np.arange(kept)
    return number_of[cluster], kept


def _pack(
    graph: Stream, cluster: NDArray[np.int32], clusters: int, parts: int, imbalance: float, seed: int
) -> NDArray[np.int32]:
    """int32 [N] part of each vertex, or -1: clusters are placed as a whole."""
    load, target_load = graph.loads(cluster, clusters)
    to, of, weight = _cluster_edges(graph, cluster, clusters, seed)
    packed = Stream(
        indptr=np.searchsorted(to, np.arange(clusters + 1)).astype(np.int64),
        indices=of,
        edge_weight=np.minimum(weight, np.iinfo(np.uint32).max).astype(np.uint32),
        vertex_weight=load,
        target_weight=None if graph.target_weight is None else target_load.astype(np.int32),
    )
    # METIS through pymetis balances one weight: that of vertices, or the sum of both. The better outcome counts.
    starts = [load]
    if target_load.any():
        both = load / max(1, load.sum()) + target_load / target_load.sum()
        starts.append(np.rint(2.0**30 * both).astype(np.int64))
    tried = []
    for number, balanced in enumerate(starts):
        result = pymetis.part_graph(
            parts,
            pymetis.CSRAdjacency(packed.indptr, packed.indices),
            vweights=balanced,
            eweights=weight,
            options=pymetis.Options(seed=seed % 2**31, ufactor=max(1, int(imbalance * 1000))),
        )
        part = np.asarray(result.vertex_part, dtype=np.int32)
        assert len(part) == clusters
        _restream(packed, part, parts, imbalance, PACK_PASSES, seed)
        excess = max(0, int(packed.loads(part, parts)[1].max()) - _limits(packed, parts, imbalance)[1])
        cut = int(weight[part[to] != part[of]].sum())
        tried.append((excess, cut, number, part))
    part = min(tried)[-1]
    return np.where(cluster >= 0, part[cluster], -1).astype(np.int32)


def _cluster_edges(
    graph: Stream, cluster: NDArray[np.int32], clusters: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(to, from, weight) of the symmetric graph of clusters, ascending.

    Where there are many, every unit of every edge is kept with the same probability, halved as often as needed: pairs
    with many edges between them stay, roughly in proportion.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    most = max(MAX_PAIRS, graph.num_vertices // 4)
    pairs, weight = np.empty((2, 0), np.int64)
    kept = 1.0 if graph.edge_weight is not None else min(1.0, EDGES_PER_PAIR * most / max(1, len(graph.indices)))
    with graph.bar("graph of clusters") as bar:
        for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
            edges = slice(int(graph.indptr[begin]), int(graph.indptr[end]))
            there = np.repeat(cluster[begin:end], np.diff(graph.indptr[begin : end + 1]))
            here = cluster[graph.indices[edges]]
            between = (there != here) & (there >= 0) & (here >= 0)
            if graph.edge_weight is None:
                if kept < 1.0:
                    between &= random.random(len(between), dtype=np.float32) < kept
                units = np.ones(int(between.sum()), np.int64)
            else:
                units = random.binomial(graph.edge_weight[edges][between].astype(np.int64), kept)
            new = np.minimum(there, here)[between].astype(np.int64) * clusters + np.maximum(there, here)[between]
            pairs, weight = _summed(np.concatenate([pairs, new]), np.concatenate([weight, units]))
            while len(pairs) > most:
                kept /= 2
                pairs, weight = _summed(pairs, random.binomial(weight, 0.5))
            bar.update(edges.stop - edges.start)
    low, high = pairs // clusters, pairs % clusters
    to, of, weight = (np.concatenate(both) for both in ((low, high), (high, low), (weight, weight)))
    order = np.lexsort((of, to))
    return to[order], of[order], weight[order]


def _summed(pairs: NDArray[np.int64], weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each pair once, ascending, with the sum of its weights; without those of weight 0."""
    order = np.argsort(pairs[weight > 0], kind="stable")
    pairs, weight = pairs[weight > 0][order], weight[weight > 0][order]
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    return pairs[first], np.add.reduceat(weight, first) if len(first) else weight


def _restream(graph: Stream, group: NDArray[np.int32], parts: int, imbalance: float, passes: int, seed: int) -> None:
    """Improve ``group`` in place, and bring it within the limits."""
    load, target_load = graph.loads(group, parts)
    limit, target_limit = _limits(graph, parts, imbalance)
    gain = np.zeros(parts, np.int64)
    unplaced = bool((group < 0).any())
    for number in range(passes):
        last = number == passes - 1
        # In the first passes vertices wait for a neighbour that has a part, so that parts grow from what there is.
        everywhere = last or not unplaced or number >= passes // 2
        strain = np.iinfo(np.int64).max if last else 1 << min(number, 30)
        # Targets that have to leave need room where they go; other vertices make it in the passes after these.
        loose = target_load.max() > target_limit and number < passes // 2
        limits = LOOSE * limit if loose else limit, target_limit
        moved = _pass(graph, group, load, target_load, gain, limits, everywhere, strain, seed + number,
                      f"restream, pass {number + 1} of {passes}")  # fmt: skip
        if moved * SETTLED <= len(group) and everywhere and load.max() <= limit and target_load.max() <= target_limit:
            break


def _limits(graph: Stream, parts: int, imbalance: float) -> tuple[int, int]:
    """On the vertex weights and on the target weights of a part."""
    limit, target_limit = (max(int((1 + imbalance) * total / parts), -(-total // parts)) for total in graph.totals)
    return limit, target_limit


def _pass(
    graph: Stream,
    group: NDArray[np.int32],
    load: NDArray[np.int64],
    target_load: NDArray[np.int64],
    gain: NDArray[np.int64],
    limits: tuple[int, int],
    everywhere: bool,
    strain: int,
    seed: int,
    name: str,
) -> int:
    """One pass over all vertices; returns how many changed their group."""
    moved = 0
    with graph.bar(name) as bar:
        for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
            moved += _core.stream_range(
                graph.indptr, graph.indices, graph.edge_weight, graph.vertex_weight, graph.target_weight,
                graph.movable, group, load, target_load, gain, *limits, everywhere, strain, seed, begin, end,
            )  # fmt: skip
            bar.update(int(graph.indptr[end] - graph.indptr[begin]))
    return moved


def _mask(chosen: NDArray[Any], n: int, name: str) -> NDArray[np.uint8]:
    """uint8 [N] from bool [N] or ids."""
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
