"""What an edge stands for where its source was drawn with a known chance: estimates of sums over all in-edges.

A kept edge has a scale s_u, 1 over the chance that its source was drawn (:meth:`gsplit.sampling.Segment.scales`). Of
a destination v with in-edges of weights w_vu, W_v together, the sum over all of them is estimated from those kept:

    unbiased   sum of w_vu s_u h_u                                     its expectation is the sum
    ratio      W_v (sum of w_vu s_u h_u) / (sum of w_vu s_u)           a mean of what is there, times the weight

The ratio (Hajek's estimate; "row normalisation" in LADIES) is off by a little, and has several times less variance
where vectors share a mean, as those behind a ReLU do. Either is a factor of the edge: models ask their blocks for
sums and means, and do not know which rule drew. Means are sums with w = 1 over the number of in-edges.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Estimate = Literal["ratio", "unbiased"]


def edge_factors(
    scales: NDArray[np.floating],
    rows: NDArray[np.integer],
    whole: NDArray[np.floating],
    weights: NDArray[np.floating] | None,
    estimate: Estimate,
) -> NDArray[np.float64]:
    """Return what each kept edge is multiplied by, beside its weight: float64 [edges].

    Args:
        scales: [edges] of the sources.
        rows: [edges] destination rows, from 0 on.
        whole: [num_destinations] W, the weights of all in-edges in the graph; their numbers without weights.
        weights: [edges]; None: 1 each.
        estimate: of which kind the sums shall be.
    """
    factors = scales.astype(np.float64)
    if estimate == "unbiased":
        return factors
    # Weights are 0 or more here (gsplit.engine.sampled.edge_weights): where what is kept weighs 0, so does each term.
    kept = np.bincount(rows, factors if weights is None else factors * weights, minlength=len(whole))
    share = np.divide(whole, kept, out=np.zeros(len(whole)), where=kept > 0)
    return factors * share[rows]
