"""Plain NumPy files: a folder of ``.npy`` arrays, or one ``edge_index.npy``; memory-mapped, never unpickled.

The adjacency is ``indptr`` [N + 1] and ``indices`` [E] (in-neighbours), or ``edge_index`` [2, E] or [E, 2] (source,
destination), or ``src`` [E] and ``dst`` [E]. Beside it may lie ``edge_weight`` [E]; ``features`` or ``x`` [N, D];
``labels`` or ``y``; and ``train_idx`` or ``train_mask``, ``valid_...`` (``val_...``) and ``test_...``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import read_npy
from gsplit.data.importers.checked import as_ids, as_vertex_set, as_weights, check_indptr
from gsplit.data.importers.source import EdgeChunks, GraphSource, array_edges, csc_edges
from gsplit.errors import InputError

SET_NAMES = {"train": ("train",), "valid": ("valid", "val"), "test": ("test",)}
UNKNOWN = np.iinfo(np.int64).max
"""Bound of ids before the number of vertices is known."""


def load_numpy(path: Path) -> GraphSource:
    """Read the arrays of a folder, or a single edge index.

    Raises:
        InputError: where an array is missing, damaged or does not fit the others.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_file():
        return GraphSource(name=path.stem, edges=_edge_index(path, None), num_vertices=None, where=str(path))
    features, labels = _first(path, "features", "x"), _first(path, "labels", "y")
    files = _set_files(path)
    edges, n = _adjacency(path)
    if n is None:
        masks = (read_npy(file) for file in files.values() if _is_mask(file))
        rows = (array for array in (features, labels, *masks) if array is not None and array.ndim)
        n = next(map(len, rows), None)
    return GraphSource(
        name=path.resolve().name,
        edges=edges,
        num_vertices=n,
        features=features[:, None] if features is not None and features.ndim == 1 else features,
        labels=labels,
        vertex_sets={
            name: as_vertex_set(read_npy(file), n or UNKNOWN, str(file), mask=_is_mask(file))
            for name, file in files.items()
        },
        where=str(path),
    )


def _first(folder: Path, *names: str) -> NDArray[Any] | None:
    return next((read_npy(folder / f"{name}.npy") for name in names if (folder / f"{name}.npy").exists()), None)


def _adjacency(folder: Path) -> tuple[EdgeChunks, int | None]:
    """The edges, and the number of vertices where they tell."""
    has = {name: (folder / f"{name}.npy").exists() for name in ("indptr", "indices", "edge_index", "src", "dst")}
    weight = _first(folder, "edge_weight")
    if has["indptr"] and has["indices"]:
        return _csc(folder, weight)
    if has["edge_index"]:
        return _edge_index(folder / "edge_index.npy", weight), None
    if has["src"] and has["dst"]:
        source, destination = (
            as_ids(read_npy(folder / f"{name}.npy"), str(folder / f"{name}.npy")) for name in ("src", "dst")
        )
        if len(source) != len(destination):
            raise InputError(f"{folder}: src.npy has {len(source)} edges, but dst.npy has {len(destination)}")
        return array_edges(source, destination, _weight(folder, weight, len(source))), None
    there = ", ".join(sorted(path.name for path in folder.glob("*.npy"))) or "no .npy at all"
    raise InputError(
        f"{folder} has no edges: neither indptr.npy and indices.npy, nor edge_index.npy, nor src.npy and dst.npy; "
        f"it has {there}"
    )


def _csc(folder: Path, weight: NDArray[Any] | None) -> tuple[EdgeChunks, int]:
    indptr, indices = (
        as_ids(read_npy(folder / f"{name}.npy"), str(folder / f"{name}.npy")) for name in ("indptr", "indices")
    )
    check_indptr(indptr, len(indices), str(folder / "indptr.npy"))
    return csc_edges(indptr, indices, _weight(folder, weight, len(indices))), len(indptr) - 1


def _edge_index(path: Path, weight: NDArray[Any] | None) -> EdgeChunks:
    array = read_npy(path)
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(f"{path} must be integers of shape (2, E) or (E, 2), not {array.dtype} of {array.shape}")
    pairs = array if len(array) == 2 else array.T
    source, destination = (as_ids(row, str(path)) for row in pairs)
    return array_edges(source, destination, _weight(path.parent, weight, len(source)))


def _weight(folder: Path, weight: NDArray[Any] | None, count: int) -> NDArray[Any] | None:
    return None if weight is None else as_weights(weight, count, str(folder / "edge_weight.npy"))


def _set_files(folder: Path) -> dict[str, Path]:
    found = {
        name: [file for key in keys for kind in ("idx", "mask") if (file := folder / f"{key}_{kind}.npy").exists()]
        for name, keys in SET_NAMES.items()
    }
    return {name: files[0] for name, files in found.items() if files}


def _is_mask(file: Path) -> bool:
    return file.stem.endswith("mask")
