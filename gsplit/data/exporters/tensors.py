"""The form of a graph that PyG and DGL share: edges as pairs, vertex sets as masks.

N vertices, E edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data.graph import VERTEX_SETS, GraphArrays

THEIR_NAMES = {"train": "train", "valid": "val", "test": "test"}


def tensor(array: NDArray[Any]) -> Tensor:
    """Copy of an array in memory; the arrays of a store are read-only maps, which PyTorch does not know."""
    return torch.from_numpy(np.array(array))


def coo(graph: GraphArrays) -> tuple[Tensor, Tensor]:
    """Source and destination of each edge, int64 [E], in the order of the store."""
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return torch.from_numpy(graph.indices.astype(np.int64)), torch.from_numpy(destination)


def set_masks(graph: GraphArrays) -> dict[str, Tensor]:
    """Masks of the vertex sets, bool [N]: ``train_mask``, ``val_mask``, ``test_mask``."""
    masks = {}
    for name in VERTEX_SETS:
        mask = torch.zeros(graph.num_vertices, dtype=torch.bool)
        mask[tensor(graph.vertex_set(name))] = True
        masks[f"{THEIR_NAMES[name]}_mask"] = mask
    return masks


def unsorted_sets(graph: GraphArrays) -> dict[str, Tensor]:
    """Ids of the sets whose order a mask would lose: ``train_idx``, ``val_idx``, ``test_idx``."""
    unsorted = [name for name in VERTEX_SETS if (np.diff(graph.vertex_set(name)) < 0).any()]
    return {f"{THEIR_NAMES[name]}_idx": tensor(graph.vertex_set(name)) for name in unsorted}
