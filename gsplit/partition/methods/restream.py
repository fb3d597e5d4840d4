"""Passes over a graph that is read in order: a vertex goes to the group of most of its neighbours, if there is room.

One kernel, csrc/stream.hpp, for both uses: groups are clusters with a limit on their weight
(gsplit.partition.methods.clusters), or the parts themselves. Restreamed greedy assignment: Nishimura and Ugander,
KDD 2013.

N vertices, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.bars import progress_bar, tqdm
from gsplit.data.graph import row_ranges

EDGES_AT_ONCE = 1 << 22
"""Edges that one call of C++ reads, which Ctrl-C cannot interrupt."""
LOOSE = 2
"""Factor by which the weight of a part may be above its limit, while targets are brought within theirs."""
SETTLED = 1000
"""Vertices of which a pass must move one, or restreaming ends."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A graph to be read in order, with its weights. None stands for weights of 1, no targets, or all movable."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    edge_weight: NDArray[np.uint32] | None = None
    vertex_weight: NDArray[np.int64] | None = None
    target_weight: NDArray[np.int32] | None = None
    movable: NDArray[np.uint8] | None = None

    @property
    def num_vertices(self) -> int:
        """N."""
        return len(self.indptr) - 1

    @property
    def totals(self) -> tuple[int, int]:
        """Sums of the vertex weights and of the target weights."""
        weight = self.num_vertices if self.vertex_weight is None else int(self.vertex_weight.sum())
        return weight, 0 if self.target_weight is None else int(self.target_weight.sum(dtype=np.int64))

    def loads(self, group: NDArray[np.int32], groups: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sums of vertex weights and of target weights of each group: int64 [groups] each."""
        load, target_load = np.zeros((2, groups), np.int64)
        placed = slice(None) if (group >= 0).all() else group >= 0
        np.add.at(load, group[placed], 1 if self.vertex_weight is None else self.vertex_weight[placed])
        if self.target_weight is not None:
            np.add.at(target_load, group[placed], self.target_weight[placed])
        return load, target_load

    def bar(self, name: str) -> tqdm[Any]:
        """Progress bar of one pass over the edges."""
        return progress_bar(len(self.indices), name, "edge")


def restream(graph: Stream, group: NDArray[np.int32], parts: int, imbalance: float, passes: int, seed: int) -> None:
    """Improve ``group`` in place, and bring it within the limits."""
    load, target_load = graph.loads(group, parts)
    limit, target_limit = limits_of(graph, parts, imbalance)
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
        moved = one_pass(
            graph,
            group,
            load,
            target_load,
            gain,
            limits,
            everywhere,
            strain,
            seed + number,
            f"restream, pass {number + 1} of {passes}",
        )
        if moved * SETTLED <= len(group) and everywhere and load.max() <= limit and target_load.max() <= target_limit:
            break


def judge(graph: Stream, group: NDArray[np.int32], parts: int, imbalance: float) -> tuple[int, int, int]:
    """Targets above their limit, weight above its limit and weight of the cut edges of parts; less is better."""
    loads, limits = graph.loads(group, parts), limits_of(graph, parts, imbalance)
    excess, target_excess = (max(0, int(load.max()) - limit) for load, limit in zip(loads, limits, strict=True))
    cut = 0
    for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
        edges = slice(int(graph.indptr[begin]), int(graph.indptr[end]))
        across = group[graph.indices[edges]] != np.repeat(group[begin:end], np.diff(graph.indptr[begin : end + 1]))
        cut += int(
            across.sum() if graph.edge_weight is None else graph.edge_weight[edges][across].sum(dtype=np.int64)
        )
    return target_excess, excess, cut


def limits_of(graph: Stream, parts: int, imbalance: float) -> tuple[int, int]:
    """Limits on the vertex weights and on the target weights of a part."""
    limit, target_limit = (max(int((1 + imbalance) * total / parts), -(-total // parts)) for total in graph.totals)
    return limit, target_limit


def one_pass(
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
                graph.indptr,
                graph.indices,
                graph.edge_weight,
                graph.vertex_weight,
                graph.target_weight,
                graph.movable,
                group,
                load,
                target_load,
                gain,
                *limits,
                everywhere,
                strain,
                seed,
                begin,
                end,
            )
            bar.update(int(graph.indptr[end] - graph.indptr[begin]))
    return moved
