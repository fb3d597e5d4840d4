"""Plain NumPy files: a folder of ``.npy`` arrays, or one ``edge_index.npy``; memory-mapped, never unpickled.

The adjacency is ``indptr`` [N + 1] and ``indices`` [E] (in-neighbours), or ``edge_index`` [2, E] or [E, 2] (source,
destination), or ``src`` [E] and ``dst`` [E]. Beside it may lie ``edge_weight`` [E]; ``features`` or ``x`` [N, D];
``labels`` or ``y``; and ``train_idx`` or ``train_mask``, ``valid_...`` (``val_...``) and ``test_...``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gsplit.data.importers.arrays import read_npy
from gsplit.data.importers.checked import as_ids, as_weights, check_indptr
from gsplit.data.importers.keys import vertices_of
from gsplit.data.importers.source import EdgeChunks, GraphSource, array_edges, csc_edges
from gsplit.errors import InputError


def load_numpy(path: Path) -> GraphSource:
    """Read the arrays of a folder, or a single edge index.

    Raises:
        InputError: where an array is missing, damaged or does not fit the others.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_file():
        return GraphSource(name=path.stem, edges=_edge_index(path, None), num_vertices=None, where=str(path))
    there = {file.stem for file in path.glob("*.npy")}
    edges, n = _adjacency(path, there)
    vertices = vertices_of(
        there,
        lambda key: read_npy(path / f"{key}.npy"),
        lambda key: str(path / f"{key}.npy"),
        n,
        name=path.resolve().name,
        where=str(path),
        features=("features", "x"),
        labels=("labels", "y"),
    )
    return replace(vertices, edges=edges)


def _adjacency(folder: Path, there: set[str]) -> tuple[EdgeChunks, int | None]:
    """The edges, and the number of vertices where they tell."""
    if {"indptr", "indices"} <= there:
        indptr, indices = (_ids(folder / f"{name}.npy") for name in ("indptr", "indices"))
        check_indptr(indptr, len(indices), str(folder / "indptr.npy"))
        return csc_edges(indptr, indices, _weight(folder, len(indices))), len(indptr) - 1
    if "edge_index" in there:
        return _edge_index(folder / "edge_index.npy", folder), None
    if {"src", "dst"} <= there:
        source, destination = (_ids(folder / f"{name}.npy") for name in ("src", "dst"))
        if len(source) != len(destination):
            raise InputError(f"{folder}: src.npy has {len(source)} edges, but dst.npy has {len(destination)}")
        return array_edges(source, destination, _weight(folder, len(source))), None
    raise InputError(
        f"{folder} has no edges: neither indptr.npy and indices.npy, nor edge_index.npy, nor src.npy and dst.npy; "
        f"it has {', '.join(f'{name}.npy' for name in sorted(there)) or 'no .npy at all'}"
    )


def _ids(path: Path) -> NDArray[Any]:
    return as_ids(read_npy(path), str(path))


def _edge_index(path: Path, weights: Path | None) -> EdgeChunks:
    array = read_npy(path)
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(f"{path} must be integers of shape (2, E) or (E, 2), not {array.dtype} of {array.shape}")
    pairs = array if len(array) == 2 else array.T
    source, destination = (as_ids(row, str(path)) for row in pairs)
    return array_edges(source, destination, None if weights is None else _weight(weights, len(source)))


def _weight(folder: Path, count: int) -> NDArray[Any] | None:
    path = folder / "edge_weight.npy"
    return as_weights(read_npy(path), count, str(path)) if path.exists() else None
