"""A graph store as PyTorch's tensors over mapped files, one copy for all processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import open_store
from gsplit.features.loader import normalize
from gsplit.files import replacing


def mapped(path: Path) -> NDArray[Any]:
    """The array of a file; what a process writes to it stays its own, which PyTorch wants to be possible."""
    array: NDArray[Any] = np.load(path, mmap_mode="c")
    return array


class StoredGraph:
    """The arrays of a graph store.

    Args:
        folder: of the store.
        mixed: keep feature rows in bfloat16, a copy of the process.
        normalized: divide each feature row by its sum where it is read; not with ``mixed``.
    """

    def __init__(self, folder: Path, *, mixed: bool = False, normalized: bool = False) -> None:
        graph = open_store(folder).graph
        assert graph.features is not None
        self.indptr, self.indices = graph.indptr, graph.indices
        features = torch.from_numpy(mapped(folder / "features.npy"))
        self._features = features.bfloat16() if mixed else features
        self._normalized = normalized
        self.labels = torch.from_numpy(mapped(folder / "labels.npy"))
        """int64 [N]"""
        self._vertices = {
            name: torch.from_numpy(graph.vertex_set(name).copy()) for name in ("train", "valid", "test")
        }
        self.num_features, self.num_classes = graph.num_features, graph.num_classes
        self.row_bytes = self.num_features * self._features.element_size()

    def vertices(self, name: str) -> Tensor:
        """int64 vertices of a set."""
        return self._vertices[name]

    def evaluated(self) -> dict[str, tuple[Tensor, Tensor]]:
        """(vertices, labels) of the sets that are evaluated."""
        return {name: (self._vertices[name], self.labels[self._vertices[name]]) for name in ("valid", "test")}

    def rows(self, vertices: Tensor) -> Tensor:
        """Features [n, D] in float32, or in bfloat16 where they are kept so."""
        rows = self._features[vertices.long()]
        return rows if rows.dtype == torch.bfloat16 else self._divided(rows.float())

    def all_rows(self) -> Tensor:
        """float32 [N, D] features."""
        return self._divided(self._features.to(torch.float32, copy=self._normalized))

    def _divided(self, rows: Tensor) -> Tensor:
        if self._normalized:
            normalize(rows)
        return rows


def arrays_of_bits(store: Path, bits: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """``indptr`` [N + 1] and ``indices`` [E] with ids of so many bits, mapped; see :func:`write_arrays`."""
    folder = _beside(store)
    return mapped(folder / f"indptr{bits}.npy"), mapped(folder / f"indices{bits}.npy")


def write_arrays(store: Path, bits: int) -> None:
    """Write what :func:`arrays_of_bits` maps, once: stores have ids of 64 bits beside ids of 32."""
    folder, graph = _beside(store), open_store(store).graph
    folder.mkdir(exist_ok=True)
    for name in ("indptr", "indices"):
        path = folder / f"{name}{bits}.npy"
        if not path.exists():
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.save(file, getattr(graph, name).astype(f"int{bits}"), allow_pickle=False)


def _beside(store: Path) -> Path:
    return store.with_name(f"{store.name}-ids")
