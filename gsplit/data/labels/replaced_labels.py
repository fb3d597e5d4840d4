"""Labels of a store that grows: those there were, and in their place those of the rows of a file.

N vertices in all, of which the first N0 were there before; C classes, or outputs of a regression.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays
from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.label_tables import Labels
from gsplit.errors import InputError


def longer_labels(labels: NDArray[Any], n: int) -> NDArray[Any]:
    """Labels [N0] or [N0, C] as a store has them, and after them what stands for none."""
    longer = np.full((n, *labels.shape[1:]), -1 if labels.ndim == 1 else np.nan, labels.dtype)
    longer[: len(labels)] = labels
    return longer


def replaced_labels(kept: GraphArrays, found: Labels, n: int, path: str, where: str) -> NDArray[Any]:
    """Labels [N] or [N, C]: those of a store, and in their place those of a file.

    Args:
        kept: the store, with labels.
        found: the labels of the file; their classes have the numbers of the store's.
        path: the file, for messages.
        where: the store, likewise.

    Raises:
        InputError: for labels of another kind than those of the store.
    """
    old, new = kept.labels, found.values
    if kept.regression and (found.classes is not None or found.are_lists):
        raise InputError(f"{path} holds classes, and the labels of {where} are numbers (--task regression)")
    if not found.are_lists:
        new = as_labels(new, len(new) if new.ndim else 0, path)
        new = new[:, None] if kept.regression and new.ndim == 1 else new
    if new.ndim != old.ndim or (new.ndim == 2 and not found.are_lists and new.shape[1] != old.shape[1]):
        kinds = [f"{labels.shape[1]} columns" if labels.ndim == 2 else "one class" for labels in (new, old)]
        raise InputError(f"{path} has labels of {kinds[0]} a vertex, and {where} of {kinds[1]}")
    if found.classes is not None and kept.classes is None:
        raise InputError(
            f"{path} has names of classes, such as {found.classes[0]!r}, and the classes of {where} have none"
        )
    if found.are_lists:
        count = max(old.shape[1], new.shape[1])
        old, new = _wider(old, count), _wider(new, count)
    labels = longer_labels(old.astype(np.result_type(old, new)), n)
    there = slice(None) if found.vertices is None else found.vertices >= 0
    labels[slice(None) if found.vertices is None else found.vertices[there]] = new[there]
    return labels


def _wider(labels: NDArray[Any], count: int) -> NDArray[Any]:
    """Labels of 0 and 1 [n, C] of ``count`` classes: 0 for those that follow, where a vertex has labels at all."""
    wider = np.zeros((len(labels), count), labels.dtype)
    wider[:, : labels.shape[1]] = labels
    wider[np.isnan(labels).any(axis=1)] = np.nan
    return wider
