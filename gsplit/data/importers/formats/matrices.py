"""Sparse matrices: SciPy's ``.npz`` (``scipy.sparse.save_npz``) and Matrix Market. A[i, j] is an edge from i to j.

Values become weights, unless all of them are 1. Zeros that are stored are edges too.
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from gsplit.data.importers.source import GraphSource, array_edges
from gsplit.data.importers.tables.content import BLOCK_BYTES, Blocks, open_unpacked
from gsplit.data.npy import DAMAGED_ARCHIVE
from gsplit.errors import InputError


def load_scipy(path: Path) -> GraphSource:
    """Open the matrix of ``scipy.sparse.save_npz``, in any of its formats; edges stand in the order of the entries.

    Raises:
        InputError: where the file is no such matrix, or it is not square.
    """
    sparse = _scipy(path, "sparse")
    _check_file(path)
    try:
        matrix = sparse.coo_array(sparse.load_npz(path))
    except DAMAGED_ARCHIVE as error:
        raise InputError(f"{path} is not a readable matrix of scipy.sparse.save_npz: {error}") from None
    return _source(path, matrix)


def load_matrix_market(path: Path) -> GraphSource:
    """Open a Matrix Market file in coordinates, packed or not; a symmetric one is given both halves.

    Raises:
        InputError: naming the line of what does not parse, or where the matrix is dense or not square.
    """
    matrix_market = _scipy(path, "io")
    _check_file(path)
    try:
        with open_unpacked(path) as file:
            # SciPy 1.17 dies reading a number that is cut off at the end, as in ``0.5e-``: one more line end.
            blocks = itertools.chain(iter(lambda: file.read(BLOCK_BYTES), b""), (b"\n",))
            matrix = matrix_market.mmread(io.BufferedReader(Blocks(file, lambda: next(blocks, b""))))
    except DAMAGED_ARCHIVE as error:
        raise InputError(f"{path} is not a readable Matrix Market file: {error}") from None
    if isinstance(matrix, np.ndarray):
        raise InputError(f"{path} is a dense matrix ('array'); a graph needs a sparse one ('coordinate')")
    return _source(path, matrix)


def _scipy(path: Path, part: str) -> Any:
    try:
        import scipy.io
        import scipy.sparse
    except ImportError:
        raise InputError(f"reading {path} needs SciPy: pip install 'gsplit[matrices]'") from None
    return getattr(scipy, part)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path} is a folder, not a file" if path.is_dir() else f"{path}: no such file")


def _source(path: Path, matrix: Any) -> GraphSource:
    rows, columns = matrix.shape
    if rows != columns:
        raise InputError(f"{path} is a matrix of {rows} x {columns}; an adjacency is square")
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"{path} holds {matrix.dtype} values, which are no edge weights")
    weighted = bool((matrix.data != 1).any())
    return GraphSource(
        name=path.name.split(".")[0],
        edges=array_edges(
            matrix.row, matrix.col, matrix.data if weighted else None, place="entry {} (from 0)".format
        ),
        num_vertices=rows,
        where=str(path),
    )
