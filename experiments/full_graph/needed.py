"""Rows that parts need of each other: what a product receives where only those are sent.

Legend: N vertices, P parts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.data import GraphArrays


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
