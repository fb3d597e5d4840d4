"""Names under which graphs of others keep features, labels and vertex sets, and the vertices that have these."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.config.fields import Checked, flag_of
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import UNKNOWN, as_features, as_vertex_set, is_mask, printable_line
from gsplit.data.importers.source import NO_EDGES, GraphSource
from gsplit.errors import InputError

SET_NAMES = {"train": ("train",), "valid": ("val", "valid"), "test": ("test",)}
"""Beginnings of the usual names of each vertex set, as peers call it."""
SET_KEYS = {
    name: tuple(f"{their}_{kind}" for kind in ("idx", "mask") for their in theirs)
    for name, theirs in SET_NAMES.items()
}
"""Usual names of each vertex set: a list of ids goes before a mask, as it keeps an order."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Keys(Checked):
    """Names of tensors in a graph of PyG or DGL, where they are not the usual ones."""

    # The docstrings are the help of the command.

    feature_key: str | None = None
    """The features in a graph of PyG or DGL. By default x (PyG), or feat, x or features (DGL)."""
    label_key: str | None = None
    """The labels in a graph of PyG or DGL. By default y (PyG), or label, y or labels (DGL)."""
    mask_key: str | None = None
    """The masks, or lists of ids, of train, valid and test in a graph of PyG or DGL, in this order, such as
    train_m,stop_m,test_m; nothing between commas leaves a set out. By default train_mask, val_mask and so on."""

    def check_some(self, types: Iterable[Collection[str]], where: str) -> None:
        """Raise InputError for a name of a tensor that none of several types has."""
        there = {key for each in types for key in each}
        for field, names in vars(self).items():
            for name in (names or "").split(","):
                if name.strip():
                    found(sorted(there), (), name.strip(), flag_of(field), where)

    def among(self, there: Collection[str]) -> Keys:
        """The same names, without those of tensors that one type of several does not have."""
        masks = [key if key.strip() in there else "" for key in (self.mask_key or "").split(",")]
        return Keys(
            feature_key=self.feature_key if self.feature_key in there else None,
            label_key=self.label_key if self.label_key in there else None,
            mask_key=",".join(masks) if any(masks) else None,
        )

    @property
    def given(self) -> str | None:
        """The first flag that was given, or None."""
        return next((flag_of(name) for name, value in vars(self).items() if value is not None), None)

    def vertex_sets(self, there: Collection[str], where: str) -> dict[str, str]:
        """The key of each vertex set that there is.

        Args:
            there: the keys that there are.
            where: what messages call the graph.

        Raises:
            InputError: for keys that were asked for and are not there, none at all, or more than there are sets.
        """
        if self.mask_key is None:
            usual = {name: next((key for key in each if key in there), None) for name, each in SET_KEYS.items()}
            return {name: key for name, key in usual.items() if key is not None}
        keys = [key.strip() for key in self.mask_key.split(",")]
        if len(keys) > len(VERTEX_SETS) or not any(keys):
            raise InputError(
                f"{where}: --mask-key takes up to {len(VERTEX_SETS)} keys, of train, valid and test, such as "
                f"train_m,valid_m,test_m, not {self.mask_key!r}"
            )
        for key in filter(None, keys):
            found(there, (), key, "--mask-key", where)
        return {name: key for name, key in zip(VERTEX_SETS, keys, strict=False) if key}


USUAL = Keys()


def found(there: Collection[str], usual: tuple[str, ...], asked: str | None, flag: str, where: str) -> str | None:
    """The key of a tensor: the one that was asked for, or the first of the usual ones that is there, or None.

    Args:
        there: the keys that there are.
        flag: that a key is asked for with.
        where: what messages call the graph.

    Raises:
        InputError: where a key was asked for that is not there; the line lists those that are.
    """
    if asked is None:
        return next((key for key in usual if key in there), None)
    if asked not in there:
        has = printable_line(", ".join(sorted(there))) or "nothing"
        raise InputError(f"{where} has no {asked!r}, which {flag} names; it has {has}")
    return asked


def vertices_of(
    there: Collection[str],
    read: Callable[[str], NDArray[Any]],
    call: Callable[[str], str],
    num_vertices: int | None,
    *,
    name: str,
    where: str,
    keys: Keys = USUAL,
    features: tuple[str, ...] = ("x",),
    labels: tuple[str, ...] = ("y",),
) -> GraphSource:
    """The vertices of a graph, or of one of its types, whose arrays have names: a graph without edges.

    Args:
        there: the names.
        read: reads the array of a name.
        call: what messages call it.
        num_vertices: N; None: as many as the features, labels or masks have rows, also masks beside lists of ids that
            are read in their place, and not known without these.
        name: of the graph.
        where: what messages call it.
        keys: names that were asked for.
        features, labels: usual names.

    Raises:
        InputError: for arrays that are missing, or do not fit each other.
    """
    x = found(there, features, keys.feature_key, "--feature-key", where)
    y = found(there, labels, keys.label_key, "--label-key", where)
    sets = keys.vertex_sets(there, where)
    arrays = {key: read(key) for key in (x, y, *sets.values()) if key is not None}
    if num_vertices is None:
        masks = (key for usual in SET_KEYS.values() for key in usual if key.endswith("mask") and key in there)
        others = ((key, read(key)) for key in masks if key not in arrays)
        with_rows = (array for key, array in chain(arrays.items(), others) if key in (x, y) or is_mask(key, array))
        num_vertices = next((len(np.atleast_1d(array)) for array in with_rows), None)
    n = UNKNOWN if num_vertices is None else num_vertices
    features_ND = None if x is None else as_features(arrays[x], n, call(x))
    labels_N = None if y is None else as_labels(arrays[y], n, call(y))
    vertex_sets = {key: _vertex_set(arrays[of], n, of, call(of)) for key, of in sets.items()}
    for key, ids in vertex_sets.items() if keys.mask_key is None else ():
        of, kind = sets[key], sets[key].rpartition("_")[2]
        for other in (other for other in SET_KEYS[key] if other in there and other.endswith(kind) and other != of):
            if not np.array_equal(np.sort(ids), np.sort(_vertex_set(read(other), n, other, call(other)))):
                raise InputError(f"{call(of)} and {call(other)} are not the same vertices; remove one of them")
    return GraphSource(
        name=name,
        edges=NO_EDGES,
        num_vertices=num_vertices,
        features=features_ND,
        labels=labels_N,
        vertex_sets={key: ids for key, ids in vertex_sets.items() if len(ids)},
        where=where,
        called={} if y is None else {"labels": call(y)},
    )


def _vertex_set(values: NDArray[Any], n: int, key: str, what: str) -> NDArray[np.int64]:
    mask = is_mask(key, values)
    if mask and values.ndim == 2 and values.shape[1] > 1:
        logger.info("%s has %d columns, one a set; the first is used", what, values.shape[1])
        values = values[:, 0]
    return as_vertex_set(values, n, what, mask=mask)
