"""Pairs of the link property datasets of the Open Graph Benchmark: ``split/NAME/{train,valid,test}.pt``.

Each holds a dictionary: ``edge`` [M, 2], and of validation and test ``edge_neg`` [K, 2], which all pairs are compared
with; or ``source_node`` [M], ``target_node`` [M], and of validation and test ``target_node_neg`` [M, K].
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.formats.torch_files import dense_array, load_torch
from gsplit.data.links.edge_sets import EDGE_SETS, Links, links_of_files
from gsplit.errors import InputError


def links_of_split(folder: Path) -> Links:
    """Read the pairs of a split.

    Raises:
        InputError: where a file is missing, damaged, or holds something else.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name in EDGE_SETS:
        path = folder / f"{name}.pt"
        given = load_torch(path)
        if not isinstance(given, dict) or not ("edge" in given or {"source_node", "target_node"} <= {*given}):
            raise InputError(f"{path} must hold a dict with edge, or with source_node and target_node")
        arrays[f"{name}_edges"] = _pairs(given, path)
        for key, what in (("edge_neg", "negatives"), ("target_node_neg", "candidates")):
            if key in given and name != "train":
                arrays[f"{name}_{what}"] = dense_array(given[key], f"{path}: {key}")
    links = links_of_files(arrays, str(folder))
    assert links is not None
    return links


def _pairs(given: dict[str, Any], path: Path) -> NDArray[Any]:
    if "edge" in given:
        return dense_array(given["edge"], f"{path}: edge")
    ends = [dense_array(given[key], f"{path}: {key}") for key in ("source_node", "target_node")]
    if ends[0].shape != ends[1].shape:
        raise InputError(f"{path} has source_node of shape {ends[0].shape}, but target_node of {ends[1].shape}")
    return np.stack(ends, axis=-1)
