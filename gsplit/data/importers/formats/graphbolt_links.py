"""Pairs of a GraphBolt dataset, out of the sets of its task ``link_prediction``.

A set has ``seeds`` (in releases before 2.2 ``node_pairs``) [M, 2]. In validation and test, ``labels`` [M] say which
of them belong together (1) and which do not (0), and ``indexes`` [M] which are compared with each other; or
``negative_dsts`` [M, K] are the candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.links.edge_sets import Links, file_of, links_of_files
from gsplit.errors import InputError

PAIRS = ("seeds", "node_pairs")


def links_of_sets(sets: dict[str, dict[str, NDArray[Any]]], where: str) -> Links | None:
    """The links of the sets of a task, by the names of train, valid and test; None where there are no pairs.

    Args:
        sets: the arrays of each set by name.
        where: what messages call the task.

    Raises:
        InputError: for arrays that are missing or do not fit each other.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, data in sets.items():
        pairs = next((data[key] for key in PAIRS if key in data), None)
        if pairs is None:
            raise InputError(f"{where}: the {name} set has no entry with the name seeds")
        if "labels" in data:
            if data["labels"].shape != pairs.shape[:1]:
                raise InputError(
                    f"{where}: the {name} set has {len(pairs)} pairs, but labels of shape {data['labels'].shape}"
                )
            positive = data["labels"] > 0
            others = {} if name == "train" or positive.all() else _others(pairs, positive, data.get("indexes"))
            arrays |= {f"{name}_{what}": array for what, array in others.items()}
            pairs = pairs[positive]
        elif "negative_dsts" in data and name != "train":
            arrays[f"{name}_candidates"] = data["negative_dsts"]
        arrays[file_of(name)] = pairs
    return links_of_files(arrays, where)


def _others(
    pairs: NDArray[Any], positive: NDArray[np.bool_], indexes: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """Pairs that do not belong together: candidates [m, K] where each of the others has K with its source."""
    own, other = np.flatnonzero(positive), np.flatnonzero(~positive)
    if indexes is not None and indexes.shape == positive.shape and len(other) % max(1, len(own)) == 0:
        order = other[np.argsort(indexes[other], kind="stable")].reshape(len(own), -1)
        query = np.argsort(np.argsort(indexes[own], kind="stable"), kind="stable")
        rows = order[query]
        same_query = (indexes[rows] == indexes[own][:, None]).all()
        if same_query and (pairs[rows, 0] == pairs[own][:, :1]).all():
            return {"candidates": pairs[rows, 1]}
    return {"negatives": pairs[other]}
