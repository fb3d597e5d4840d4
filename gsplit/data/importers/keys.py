"""Other names than the usual ones, under which graphs of PyG and DGL keep features, labels and vertex sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gsplit.config.fields import Checked, flag_of
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.checked import printable_line
from gsplit.errors import InputError

SET_NAMES = {"train": ("train",), "valid": ("val", "valid"), "test": ("test",)}
"""Beginnings of the usual names of each vertex set, as peers call it."""


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

    def vertex_sets(self, where: str) -> dict[str, str] | None:
        """The key of each vertex set that has one; None where the usual ones are looked for.

        Raises:
            InputError: naming ``where``, for none at all, or more than there are sets.
        """
        if self.mask_key is None:
            return None
        keys = [key.strip() for key in self.mask_key.split(",")]
        if len(keys) > len(VERTEX_SETS) or not any(keys):
            raise InputError(
                f"{where}: --mask-key takes up to {len(VERTEX_SETS)} keys, of train, valid and test, such as "
                f"train_m,valid_m,test_m, not {self.mask_key!r}"
            )
        return {name: key for name, key in zip(VERTEX_SETS, keys, strict=False) if key}


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
