"""Clusters of a graph that is read in order, and METIS on the graph of clusters, which is small.

Size-constrained label propagation: Meyerhenke, Sanders and Schulz, SEA 2014.

N vertices, E edges, C clusters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import row_ranges
from gsplit.partition.methods import metis, restream
from gsplit.partition.methods.restream import Stream, one_pass

CLUSTER_PASSES = 3
CLUSTERS_PER_PART = 64
"""Least number of clusters a part, which sets the limit on the weight of a cluster."""
PACK_PASSES = 24
"""Most passes over the graph of clusters: they are cheap, and two weights are hard to balance."""
MAX_CLUSTERS, MAX_PAIRS = 1 << 20, 1 << 22
"""Most clusters, and pairs of adjacent clusters, that METIS gets; N / 16 and N / 4 where those are more."""
MAX_CUTS, PAIRS_PER_PACKING = 32, 1 << 25
"""Most cuts of the graph of clusters, of which METIS keeps the best, and the pairs that all of them may have in sum:
chance decides much where weights are concentrated."""
EDGES_PER_PAIR = 4
"""Most edges that are looked at for each of these pairs, where edges have no weights."""


def cluster_vertices(graph: Stream, parts: int, seed: int) -> tuple[NDArray[np.int32], int]:
    """Cluster of each vertex, int32 [N], and C; the heaviest is first, and -1 stands for the many too small ones."""
    n = graph.num_vertices
    cluster = np.arange(n, dtype=np.int32)
    load, target_load = graph.loads(cluster, n)
    weight, target_weight = (total // (CLUSTERS_PER_PART * parts) for total in graph.totals)
    limits = weight, target_weight
    gain = np.zeros(n, np.int64)
    for number in range(CLUSTER_PASSES):
        one_pass(
            graph, cluster, load, target_load, gain, limits, False, 1, seed + number, f"cluster, pass {number + 1}"
        )
    del gain
    size = np.bincount(cluster, minlength=n)
    order = np.flatnonzero(size)
    kept = min(len(order), max(MAX_CLUSTERS, n // 16))
    order = order[np.lexsort((-size[order], -load[order]))][:kept]
    number_of = np.full(n, -1, np.int32)
    number_of[order] = np.arange(kept)
    return number_of[cluster], kept


def graph_of_clusters(graph: Stream, cluster: NDArray[np.int32], clusters: int, seed: int) -> Stream:
    """The symmetric graph of C vertices, one for each cluster; vertices in none of them are left out."""
    load, target_load = graph.loads(cluster, clusters)
    to, of, weight = _cluster_edges(graph, cluster, clusters, seed)
    too_wide = max(0, int(weight.max(initial=0)).bit_length() - np.iinfo(np.uint32).bits)
    return Stream(
        indptr=np.searchsorted(to, np.arange(clusters + 1)).astype(np.int64),
        indices=of,
        edge_weight=np.maximum(weight >> too_wide, 1).astype(np.uint32),
        vertex_weight=load,
        target_weight=None if graph.target_weight is None else target_load.astype(np.int32),
    )


def pack(packed: Stream, parts: int, imbalance: float, seed: int) -> NDArray[np.int32]:
    """Part of each cluster, int32 [C]."""
    assert packed.vertex_weight is not None
    assert packed.edge_weight is not None
    # METIS through pymetis balances one weight: that of vertices, or the sum of both. The better outcome counts.
    starts = [packed.vertex_weight]
    if packed.target_weight is not None and packed.target_weight.any():
        weight, target_weight = packed.totals
        both = packed.vertex_weight / max(1, weight) + packed.target_weight / target_weight
        starts.append(np.rint(2.0**30 * both).astype(np.int64))
    cuts = int(np.clip(PAIRS_PER_PACKING // max(1, len(packed.indices)), 1, MAX_CUTS))
    tried = []
    for number, balanced in enumerate(starts):
        part = metis.part_graph(
            parts,
            packed.indptr,
            packed.indices,
            balanced,
            packed.edge_weight.astype(np.int64),
            seed=seed,
            imbalance=imbalance,
            cuts=cuts,
        )
        restream.restream(packed, part, parts, imbalance, PACK_PASSES, seed)
        tried.append((*restream.judge(packed, part, parts, imbalance), number, part))
    return min(tried)[-1]


def _cluster_edges(
    graph: Stream, cluster: NDArray[np.int32], clusters: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Edges (to, from, weight) of the symmetric graph of clusters, ascending.

    Where there are many, every unit of every edge is kept with the same probability, halved as often as needed: pairs
    with many edges between them stay, roughly in proportion.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    most = max(MAX_PAIRS, graph.num_vertices // 4)
    pairs, weight = np.empty((2, 0), np.int64)
    kept = 1.0 if graph.edge_weight is not None else min(1.0, EDGES_PER_PAIR * most / max(1, len(graph.indices)))
    with graph.bar("graph of clusters") as bar:
        for begin, end in row_ranges(graph.indptr, restream.EDGES_AT_ONCE):
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
