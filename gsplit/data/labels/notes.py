"""Oddities of labels and vertex sets that are no mistakes: a line is printed for each when a store is made."""

from __future__ import annotations

import logging

from gsplit.data.graph import VERTEX_SETS, GraphArrays
from gsplit.data.inspect.concerns import class_concerns
from gsplit.data.inspect.label_counts import label_counts

LEVELS = {"one class": logging.WARNING, "empty classes": logging.INFO}
"""Levels of what is said of classes, by the kind of concern."""

logger = logging.getLogger(__name__)


def remark(graph: GraphArrays, where: str) -> None:
    """Say which classes have no vertex, whether all labels are one class, and whether there is nothing to train on.

    Where there are links, these are trained on.

    Args:
        graph: with checked labels and vertex sets.
        where: what messages call the source.
    """
    if graph.num_classes and not graph.regression:
        for concern in class_concerns(graph, label_counts(graph)):
            if (level := LEVELS.get(concern.kind)) is not None:
                logger.log(level, "%s: %s", where, concern.text)
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
