"""Oddities of labels and vertex sets that are no mistakes: a line is printed for each when a store is made."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS, GraphArrays
from gsplit.data.labels.class_names import SHOWN, listed

logger = logging.getLogger(__name__)


def remark(graph: GraphArrays, where: str) -> None:
    """Say which classes have no vertex, whether all labels are one class, and whether there is nothing to train on.

    Where there are links, these are trained on.

    Args:
        graph: with checked labels and vertex sets.
        where: what messages call the source.
    """
    if graph.num_classes and not graph.regression:
        _of_classes(graph, where)
    if any(len(graph.vertex_set(name)) for name in VERTEX_SETS):
        if not len(graph.train_idx):
            logger.warning("%s: no vertex is in the training set; --train FILE names some", where)
    elif graph.num_classes and graph.links is None:
        logger.warning(
            "%s: there are no training, validation and test vertices, so nothing can be trained yet; --split "
            "0.6,0.2,0.2 draws some, --split-file FILE or --train FILE names them",
            where,
        )
    elif graph.links is None:
        logger.info(
            "%s: there are no labels and no training vertices; to train, give --labels FILE, and --split "
            "0.6,0.2,0.2, --split-file FILE or --train FILE",
            where,
        )


def _of_classes(graph: GraphArrays, where: str) -> None:
    if graph.labels.ndim == 2:
        there = np.flatnonzero((graph.labels > 0).any(axis=0))
    else:
        labelled = graph.labels[graph.labels >= 0]
        there = np.unique(labelled)
        if len(there) == 1:
            logger.warning(
                "%s: all %s labels are class %s, so there is nothing to learn",
                where,
                f"{len(labelled):,}",
                listed([int(there[0])], graph.classes),
            )
    there = there[there < graph.num_classes]
    lacking = graph.num_classes - len(there)
    if lacking:
        logger.info(
            "%s: %s of %s classes have no vertex: %s",
            where,
            f"{lacking:,}",
            f"{graph.num_classes:,}",
            listed(_first_lacking(there, graph.num_classes), graph.classes),
        )


def _first_lacking(there: NDArray[np.int64], count: int) -> list[int]:
    """The first of the numbers 0 .. count - 1 that are not ``there``, ascending; labels may be as large as ids."""
    known = set(there.tolist())
    found: list[int] = []
    number = 0
    while number < count and len(found) <= SHOWN:
        if number not in known:
            found.append(number)
        number += 1
    return found
