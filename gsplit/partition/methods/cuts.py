"""Several cuts of one graph, of which the best is kept: chance decides much about what partitioners find."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.sampling.plan import fold_key

logger = logging.getLogger(__name__)


def best_cut(
    cuts: int,
    seed: int,
    make: Callable[[int], NDArray[np.int32]],
    judge: Callable[[NDArray[np.int32]], tuple[Any, ...]],
) -> NDArray[np.int32]:
    """The best parts that ``make`` finds with several seeds, the first of which is ``seed``; int32 [N].

    Args:
        cuts: how many to make.
        make: finds parts, given a seed.
        judge: what is wrong with parts, the worst first, and the weight of the cut edges; less is better. Not asked
            where there is only one.
    """
    best = make(seed)
    if cuts == 1:
        return best
    least = judge(best)
    logger.info("cut 1 of %d: edges of weight %d", cuts, least[-1])
    for number in range(1, cuts):
        part = make(fold_key(seed, number))
        judged = judge(part)
        better = judged < least
        logger.info("cut %d of %d: edges of weight %d%s", number + 1, cuts, judged[-1], ", the best so far" * better)
        if better:
            best, least = part, judged
    return best
