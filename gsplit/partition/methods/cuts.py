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
    *,
    what: str = "cut",
    least: str = "edges of weight",
) -> NDArray[np.int32]:
    """The best parts that ``make`` finds with several seeds, the first of which is ``seed``; int32 [N].

    Args:
        cuts: how many to make.
        make: finds parts, given a seed.
        judge: what is wrong with parts, the worst first, and the number that the log tells, such as the weight of the
            cut edges; less is better. Not asked where there is only one.
        what: names one of them in the log.
        least: names what the last number of ``judge`` counts.
    """
    best = make(seed)
    if cuts == 1:
        return best
    fewest = judge(best)
    logger.info("%s 1 of %d: %s %d", what, cuts, least, fewest[-1])
    for number in range(1, cuts):
        part = make(fold_key(seed, number))
        judged = judge(part)
        better = judged < fewest
        so_far = ", the best so far" * better
        logger.info("%s %d of %d: %s %d%s", what, number + 1, cuts, least, judged[-1], so_far)
        if better:
            best, fewest = part, judged
    return best
