"""``--words``: words of an epoch by formula, and rows that parts of real graphs need of each other.

Legend: N vertices, P parts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.full_graph import covers, words
from experiments.full_graph.graphs import REAL, graph_of
from experiments.full_graph.statements import CAGNET, PLEXUS, statements
from experiments.full_graph.words import WORD_BYTES, Grid, Model
from experiments.shared.datasets import PREFIX, open_or_make
from gsplit.data import GraphArrays
from gsplit.partition import methods
from gsplit.partition.problem import Problem

SHOWN = (
    *((PLEXUS[0], 8), (PLEXUS[1], 4), (PLEXUS[1], 8), (PLEXUS[1], 64), (PLEXUS[5], 8)),
    *((model, 64) for model in PLEXUS[2:5]),
    *((model, processes) for model in CAGNET for processes in (16, 64)),
)
"""Graphs and numbers of processes of the table."""
DRAWN = "products?scale=0.02"
"""A synthetic graph beside the real ones."""
PARTS = (4, 8)
SPARSE_HIDDEN = 16
CUTS = 4
"""Cuts of METIS, the best of which is taken, as ``gsplit partition --cuts 4`` does."""


def measure(data: Path, work: Path, *, quick: bool, seed: int) -> dict[str, Any]:
    """The tables of ``--words``: ``formulas``, ``statements``, ``needed``, ``sparse``, ``covers``, ``grids``.

    Args:
        data: the folder of the real graphs.
        work: keeps the synthetic graph.
        quick: two small graphs.
        seed: of the partitions.
    """
    names = REAL[:2] if quick else REAL
    graphs = {name: graph_of(name, data) for name in names}
    if not quick:
        graphs[DRAWN] = open_or_make(PREFIX + DRAWN, seed=0, work=work)[0].graph
    needed, sparse, covered, grids = [], [], [], []
    for name, graph in graphs.items():
        for parts in PARTS:
            problem = Problem(graph=graph, parts=parts, seed=seed, cuts=CUTS)
            part_N = {method: methods.assign(method, problem) for method in ("random", "metis")}
            counts = {method: needed_rows(graph, part_N[method], parts) for method in part_N}
            needed.append(needed_row(name, graph, parts, counts))
            covered.append(covers.cover_row(name, graph, part_N["metis"], parts))
            grids += covers.grid_rows(name, graph, part_N["metis"], covered[-1])
            if name != DRAWN and graph.num_features:
                sparse.append(sparse_row(name, graph, parts, counts["metis"]))
    return {
        "formulas": [formula_row(model, processes) for model, processes in SHOWN],
        "statements": statements(),
        "needed": needed,
        "sparse": sparse,
        "covers": covered,
        "grids": grids,
    }


def needed_rows(graph: GraphArrays, part_N: NDArray[np.int32], parts: int) -> NDArray[np.int64]:
    """Rows that part p needs of part q for one product, int64 [P, P], each counted once; 0 on the diagonal.

    Forward p receives row p. Backward the gradients of these rows go back, so it receives column p.
    """
    needed = np.zeros((parts, parts), np.int64)
    part_E = np.repeat(part_N, np.diff(graph.indptr))
    for part in range(parts):
        sources = np.zeros(graph.num_vertices, bool)
        sources[graph.indices[part_E == part]] = True
        needed[part] = np.bincount(part_N[sources], minlength=parts)
        needed[part, part] = 0
    return needed


def formula_row(model: Model, processes: int) -> dict[str, Any]:
    """GiB of a process and epoch by each algorithm, as printed and as moved; null where it has no such grid."""

    def both(formula: Callable[..., float]) -> dict[str, float | None]:
        try:
            return {way: gib(formula(model, processes, printed=way == "printed")) for way in ("printed", "moved")}
        except ValueError:
            return {"printed": None, "moved": None}

    replicated = {way: words.best_c(model, processes, printed=way == "printed") for way in ("printed", "moved")}
    plexus, plexus_grid = words.best_plexus(model, processes)
    ours, grid = words.best_ours(model, processes)
    moving, moving_grid = words.best_ours(model, processes, graph_moves=True)
    one_d = words.cagnet_1d(model, processes)
    return {
        "graph": model.name,
        "processes": processes,
        "widths": list(model.widths),
        "hidden": model.widths[1],
        "cagnet_1d": both(words.cagnet_1d),
        "cagnet_15d": {way: None if best is None else gib(best[0]) for way, best in replicated.items()},
        "cagnet_15d_c": None if replicated["printed"] is None else replicated["printed"][1],
        "cagnet_2d": both(words.cagnet_2d),
        "cagnet_3d": both(words.cagnet_3d),
        "plexus": gib(plexus),
        "plexus_grid": text_of(plexus_grid),
        "ours": gib(ours),
        "ours_grid": text_of(grid),
        "ours_first_sum_moved": gib(words.best_ours(model, processes, first_sum_kept=False)[0]),
        "ours_graph_moves": gib(moving),
        "ours_graph_moves_grid": text_of(moving_grid),
        "of_1d": one_d / ours,
        "of_plexus": plexus / ours,
    }


def needed_row(name: str, graph: GraphArrays, parts: int, counts: dict[str, Any]) -> dict[str, Any]:
    """Rows that a product receives over those of 1D, n (P-1)/P: the worst part, and the mean."""
    whole = graph.num_vertices * (parts - 1) / parts
    row: dict[str, Any] = {"graph": name, "parts": parts, "vertices": graph.num_vertices, "edges": graph.num_edges}
    for method, needed_PP in counts.items():
        received = needed_PP.sum(axis=1) / whole
        row |= {f"{method}_worst": float(received.max()), f"{method}_mean": float(received.mean())}
    return row | {"columns": words.product(1, 1, (1, 1, parts)) * parts / (parts - 1)}


def sparse_row(name: str, graph: GraphArrays, parts: int, needed_PP: Any) -> dict[str, Any]:
    """Words of an epoch of a two-layer GCN: needed rows between METIS's parts against CAGNET's 1D.

    The first sum is kept, so the second layer's product alone moves anything. Weights are left out on both sides.
    """
    widths = (graph.num_features, SPARSE_HIDDEN, graph.num_classes)
    width = min(widths[1:])
    one_d = words.gathered(sum(graph.num_vertices * (a + b) for a, b in pairwise(widths)), parts)
    received_P = width * (needed_PP.sum(axis=1) + needed_PP.sum(axis=0))
    return {
        "graph": name,
        "parts": parts,
        "widths": list(widths),
        "cagnet_1d_words": one_d,
        "worst_words": int(received_P.max()),
        "mean_words": float(np.mean(received_P)),
        "of_1d_worst": one_d / int(received_P.max()),
        "of_1d_mean": one_d / float(np.mean(received_P)),
    }


def gib(count: float) -> float:
    """GiB of so many words."""
    return count * WORD_BYTES / 2**30


def text_of(grid: Grid) -> str:
    """A grid as ``2x2x2``."""
    return "x".join(map(str, grid))
