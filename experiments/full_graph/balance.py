"""``--balance``: the heaviest block of the adjacency matrix over the mean, by how rows and columns are permuted.

*Original*: ranges of the ids as they come. *Single*: one random permutation of rows and columns alike. *Double*: one
of the rows and another of the columns, as Plexus has it (section 5.1). *Dealt*: ``--method deal``. A GCN adds a loop
to every vertex; with one permutation all loops lie in the diagonal blocks, so blocks are counted without loops, which
we keep apart, and with one for each vertex, as Plexus multiplies them.

Legend: N vertices, g x g blocks.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.full_graph.graphs import LATTICE, QUICK_SIDE, REAL, SIDE, graph_of
from gsplit.data import GraphArrays
from gsplit.partition.methods import deal
from gsplit.partition.methods.deal import block_edges
from gsplit.partition.problem import Problem

SIZES = (2, 3, 4, 5, 6, 7, 8)
"""Values of g."""
SEEDS = 5
"""Permutations and deals of each kind."""
OSM_VERTICES, OSM_EDGES, OSM_NONZEROS = 50_912_018, 54_054_660, 159_021_338
"""europe_osm in table 4 of Plexus: edges have no direction, nonzeros count both, and a loop for every vertex."""
PLEXUS = (
    {"permutation": "original", "ratio": 7.70},
    {"permutation": "single", "ratio": 3.24},
    {"permutation": "double", "ratio": 1.001},
)
"""Table 3 of Plexus: europe_osm, 8 x 8 blocks, with loops."""


def single_expected(vertices: int, edges: int, blocks: int) -> float:
    """Heaviest block over the mean after one perfect permutation, if loops are counted.

    Every block has an even share of the edges, and each of the diagonal ones 1 / g of the loops besides:
    (E / g^2 + N / g) / ((E + N) / g^2).

    Args:
        vertices: N, each of which has a loop.
        edges: E, directed, without loops.
        blocks: g.
    """
    return (edges / blocks**2 + vertices / blocks) / ((edges + vertices) / blocks**2)


def ranges(n: int, parts: int) -> NDArray[np.int32]:
    """Part of each id, int32 [N]: consecutive ids, equal in number."""
    return (np.arange(n) * parts // max(1, n)).astype(np.int32)


def ratio(edges_PP: NDArray[np.int64]) -> float:
    """Heaviest over the mean."""
    return float(edges_PP.max() / edges_PP.mean()) if edges_PP.any() else 1.0


def with_a_loop_each(
    edges_PP: NDArray[np.int64], rows_N: NDArray[np.int32], columns_N: NDArray[np.int32], parts: int
) -> NDArray[np.int64]:
    """Edges of the blocks and a loop for every vertex, int64 [g, g]."""
    loops = np.bincount(rows_N.astype(np.int64) * parts + columns_N, minlength=parts * parts)
    return edges_PP + loops.reshape(parts, parts)


def balance_row(name: str, graph: GraphArrays, blocks: int, seeds: int) -> dict[str, Any]:
    """Ratios of a graph in g x g blocks: medians over the seeds, and of the deals the worst as well."""
    n = graph.num_vertices
    plain = ranges(n, blocks)
    found: dict[str, list[float]] = {}

    def count(kind: str, rows_N: NDArray[np.int32], columns_N: NDArray[np.int32]) -> NDArray[np.int64]:
        edges_PP = block_edges(graph, rows_N, columns_N, blocks)
        found.setdefault(kind, []).append(ratio(edges_PP))
        looped = with_a_loop_each(edges_PP, rows_N, columns_N, blocks)
        found.setdefault(f"{kind}_with_loops", []).append(ratio(looped))
        return edges_PP

    count("original", plain, plain)
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        rows_N, columns_N = random.permutation(plain), random.permutation(plain)
        count("single", rows_N, rows_N)
        count("double", rows_N, columns_N)
        dealt = deal.assign(Problem(graph=graph, parts=blocks, seed=seed, cuts=deal.DEALS))
        found.setdefault("dealt_rows", []).append(ratio(count("dealt", dealt, dealt).sum(axis=1)))
    edges = graph.num_edges - int((graph.indices == np.repeat(np.arange(n), np.diff(graph.indptr))).sum())
    return {
        "graph": name,
        "vertices": n,
        "edges": edges,
        "blocks": blocks,
        **{kind: median(ratios) for kind, ratios in found.items()},
        "dealt_worst": max(found["dealt"]),
        "single_expected_with_loops": single_expected(n, edges, blocks),
    }


def measure(data: Path, *, quick: bool) -> dict[str, Any]:
    """The tables of ``--balance``: ``blocks``, and Plexus's ``paper``."""
    names = (*(REAL[:1] if quick else REAL), LATTICE)
    sizes = SIZES[:: len(SIZES) - 1] if quick else SIZES
    seeds = 2 if quick else SEEDS
    rows = []
    for name in names:
        graph = graph_of(name, data, side=QUICK_SIDE if quick else SIDE)
        rows += [balance_row(name, graph, blocks, seeds) for blocks in sizes]
    expected = single_expected(OSM_VERTICES, OSM_NONZEROS - OSM_VERTICES, 8)
    paper = [{**row, "expected": expected if row["permutation"] == "single" else None} for row in PLEXUS]
    return {"blocks": rows, "paper": paper, "settings": [{"seeds": seeds, "deals": deal.DEALS, "quick": quick}]}
