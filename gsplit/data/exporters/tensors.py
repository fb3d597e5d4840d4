"""What PyG and DGL want of a graph alike: edges as pairs, splits as masks.

N vertices, E edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data.graph import SPLITS, GraphArrays

THEIR_NAMES = {"train": "train", "valid": "val", "test": "test"}


def tensor(array: NDArray[Any]) -> Tensor:
    """A copy in memory; the arrays of a store are read-only maps, which PyTorch does not know."""
    return torch.from_numpy(np.array(array))


def coo(graph: GraphArrays) -> tuple[Tensor, Tensor]:
    """Source and destination int64 [E], by destination, each vertex's in the order of the store."""
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return torch.from_numpy(graph.indices.astype(np.int64)), torch.from_numpy(destination)


def split_masks(graph: GraphArrays) -> dict[str, Tensor]:
    """``train_mask``, ``val_mask``, ``test_mask``: bool [N]."""
    masks = {}
    for name in SPLITS:
        mask = torch.zeros(graph.num_vertices, dtype=torch.bool)
        mask[tensor(graph.split(name))] = True
        masks[f"{THEIR_NAMES[name]}_mask"] = mask
    return masks


def unsorted_splits(graph: GraphArrays) -> dict[str, Tensor]:
    """``train_idx``, ``val_idx``, ``test_idx`` of the splits whose order a mask would lose."""
    unsorted = [name for name in SPLITS if (np.diff(graph.split(name)) < 0).any()]
    return {f"{THEIR_NAMES[name]}_idx": tensor(graph.split(name)) for name in unsorted}
