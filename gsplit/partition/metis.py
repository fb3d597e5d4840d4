"""METIS: multilevel k-way partitioning (Karypis and Kumar, J. Parallel Distrib. Comput. 1998), through pymetis.

One thread; the best known, and hungry: about a hundred bytes an adjacency.
"""

from __future__ import annotations

import numpy as np
import pymetis
from numpy.typing import NDArray

from gsplit.host import interruptible
from gsplit.partition.problem import Footprint, Problem, Undirected

PER_MILLE_OVER = 10
"""How much heavier than the mean a part may be."""
MEMORY = Footprint(per_adjacency=105, per_weighted_adjacency=125, per_vertex=100)


def assign(problem: Problem) -> NDArray[np.int32]:
    """[N] the part of each vertex; the same for the same seed."""
    graph = Undirected.of(problem, wide=True)
    with interruptible():
        result = pymetis.part_graph(
            problem.parts,
            pymetis.CSRAdjacency(graph.indptr, graph.indices),
            vweights=graph.vertex_weight,
            eweights=graph.edge_weight,
            recursive=False,
            options=pymetis.Options(seed=problem.seed, ufactor=PER_MILLE_OVER),
        )
    return graph.assignment(np.asarray(result.vertex_part, np.int32), problem.graph.num_vertices)
