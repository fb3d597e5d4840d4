"""Graphs in one ``.npz``: CSC adjacency, features as CSR or dense, labels and vertex sets.

Keys: ``indptr`` [N + 1], ``indices`` [E]; ``x`` [N, D] or ``x_indptr``, ``x_indices``, ``x_data`` with
``num_features``; ``y`` [N] (-1 or NaN where unlabelled) or [N, C]; ``train_idx``, ``valid_idx``, ``test_idx``;
optional ``num_classes``, ``classes`` [C] (their names), ``edge_weight`` [E] and ``ids_COLUMN`` [N], what vertices are
called. All but the adjacency may be left out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS, GraphArrays, cast, check_ids
from gsplit.data.ids.array_ids import ArrayIds
from gsplit.data.importers.arrays import clean_labels, integers, numbers_to_regress
from gsplit.data.importers.checked import as_count, check_indptr
from gsplit.data.importers.source import GraphSource, graph_source
from gsplit.data.labels.class_names import checked_names, texts_of
from gsplit.data.links.edge_sets import links_of_files
from gsplit.data.npy import DAMAGED_ARCHIVE
from gsplit.data.spill import INT32_VERTICES
from gsplit.errors import InputError


def load_npz(path: Path, *, regression: bool = False) -> GraphArrays:
    """Read a graph from ``path``.

    Args:
        path: the file.
        regression: whether its labels are numbers to be predicted.

    Raises:
        InputError: where the file is no archive, lacks a key, or holds arrays that do not fit each other.
    """
    return _graph(_read(path), path, regression=regression)


def load_npz_source(path: Path, *, regression: bool = False) -> GraphSource:
    """Read a graph as :func:`load_npz` does, with what its vertices are called."""
    arrays = _read(path)
    source = graph_source(path.stem, _graph(arrays, path, regression=regression), str(path))
    columns = {key.removeprefix("ids_"): array for key, array in arrays.items() if key.startswith("ids_")}
    if not columns:
        return source
    n = len(arrays["indptr"]) - 1
    return replace(source, ids=ArrayIds([*columns], [*columns.values()], n, f"{path}: ids_{next(iter(columns))}"))


def _graph(arrays: dict[str, NDArray[Any]], path: Path, *, regression: bool) -> GraphArrays:
    for key in ("indptr", "indices"):
        if key not in arrays:
            raise InputError(f"{path} has no array {key!r}; it has {', '.join(sorted(arrays)) or 'none'}")
    indptr = integers(arrays["indptr"], f"{path}: indptr")
    n = len(indptr) - 1
    indices = integers(arrays["indices"], f"{path}: indices")
    check_indptr(indptr, len(indices), f"{path}: indptr")
    check_ids(indices, n, "indices", lambda _: str(path))
    y, what = arrays.get("y"), f"{path}: y"
    names = None if regression else arrays.get("classes")
    classes = None if names is None else tuple(texts_of(names, f"{path}: classes"))
    count = as_count(arrays.get("num_classes"), f"{path}: num_classes")
    if count is None and classes is not None:
        count = len(classes)
    labels, num_classes = numbers_to_regress(y, n, what) if regression else clean_labels(y, n, count, what)
    if classes is not None:
        classes = checked_names(classes, num_classes, f"{path}: classes")
    weight = arrays.get("edge_weight")
    if weight is not None and (weight.shape != indices.shape or weight.dtype.kind not in "fiu"):
        raise InputError(
            f"{path}: edge_weight must be {len(indices)} numbers, not {weight.dtype} of shape {weight.shape}"
        )
    sets: dict[str, Any] = {
        f"{name}_idx": integers(arrays.get(f"{name}_idx", np.empty(0, np.int64)), f"{path}: {name}_idx")
        for name in VERTEX_SETS
    }
    return GraphArrays(
        indptr=indptr,
        indices=indices.astype(np.int32 if n <= INT32_VERTICES else np.int64),
        features=_features(arrays, n, path),
        labels=labels,
        edge_weight=None if weight is None else weight.astype(np.float32),
        num_classes=num_classes,
        regression=regression,
        classes=classes,
        links=links_of_files(arrays, str(path)),
        **sets,
    )


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array, not an archive of them")
        with archive:
            arrays = {key: archive[key] for key in archive.files}
        for key, array in arrays.items():
            if not isinstance(array, np.ndarray):  # NumPy hands out as bytes what begins like no .npy
                raise ValueError(f"{key} is no array")
        return arrays
    except DAMAGED_ARCHIVE as error:
        if "pickle" in str(error):  # what NumPy takes anything for that it does not know
            error = ValueError("it is no .npz at all, or holds Python objects, which are never read")
        raise InputError(f"{path} is not a readable .npz of plain arrays: {error}") from None


def _features(arrays: dict[str, NDArray[Any]], n: int, path: Path) -> NDArray[Any] | None:
    if "x" in arrays:
        x = arrays["x"]
        if x.ndim != 2 or len(x) != n or x.dtype.kind not in "fiu":
            raise InputError(f"{path}: x must be numbers of shape ({n}, D), not {x.dtype} of shape {x.shape}")
        return x if x.dtype == np.float16 else x.astype(_dtype_of(x))
    if "x_indptr" not in arrays:
        return None
    missing = [key for key in ("x_indices", "x_data") if key not in arrays]
    if missing:
        raise InputError(f"{path} has x_indptr but no {' and no '.join(missing)}")
    indptr = integers(arrays["x_indptr"], f"{path}: x_indptr")
    columns = integers(arrays["x_indices"], f"{path}: x_indices")
    data = arrays["x_data"]
    if len(indptr) != n + 1 or (np.diff(indptr) < 0).any() or indptr[0] != 0 or indptr[-1] != len(columns):
        raise InputError(f"{path}: x_indptr does not ascend from 0 to {len(columns)} in {n + 1} entries")
    if data.shape != columns.shape or data.dtype.kind not in "fiu":
        raise InputError(f"{path}: x_data must be {len(columns)} numbers, not {data.dtype} of shape {data.shape}")
    width = as_count(arrays.get("num_features"), f"{path}: num_features")
    if width is None:
        width = int(columns.max(initial=-1)) + 1
    if len(columns) and (columns.min() < 0 or columns.max() >= width):
        raise InputError(f"{path}: x_indices reach {columns.max()}, outside the {width} features")
    x_ND: NDArray[Any] = np.zeros((n, width), _dtype_of(data))
    x_ND[np.repeat(np.arange(n), np.diff(indptr)), columns] = data
    return x_ND


def _dtype_of(numbers: NDArray[Any]) -> type:
    """float32 where it holds all of the numbers, else float64."""
    return np.float32 if np.array_equal(cast(numbers, "float32"), numbers, equal_nan=True) else np.float64
