"""Sparse matrices: A[i, j] is an edge from i to j, whatever the format that holds it."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from support.stores import build_store

from gsplit.data.build_options import BuildOptions
from gsplit.data.importers import load_source
from gsplit.errors import InputError

DENSE = np.array([[0, 2.5, 0], [1, 0, 0], [0, 4, 3]])
EDGES = {(0, 1): 2.5, (1, 0): 1, (2, 1): 4, (2, 2): 3}


@pytest.fixture
def edges(tmp_path):
    """edges(name): (source, destination) -> weight, or None, of the store made from that file."""

    def run(name):
        graph = build_store(
            load_source(str(tmp_path / name)), tmp_path / "store", BuildOptions(), name="x", described_as="x"
        )
        destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
        weights = [None] * graph.num_edges if graph.edge_weight is None else graph.edge_weight.tolist()
        return dict(zip(zip(graph.indices.tolist(), destination.tolist(), strict=True), weights, strict=True))

    return run


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_scipy(tmp_path, edges, kind):
    scipy.sparse.save_npz(tmp_path / "matrix.npz", scipy.sparse.coo_array(DENSE).asformat(kind))
    found = edges("matrix.npz")
    assert {edge: weight for edge, weight in found.items() if weight} == EDGES  # bsr and dia may store zeros


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.bool_])
def test_ones_are_no_weights(tmp_path, edges, dtype):
    scipy.sparse.save_npz(tmp_path / "matrix.npz", scipy.sparse.csr_matrix((DENSE != 0).astype(dtype)))
    assert edges("matrix.npz") == dict.fromkeys(EDGES)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("text", "n", "expected"),
    [
        ("real general\n% a comment\n3 3 4\n1 2 2.5\n2 1 1\n3 2 4\n3 3 3\n", 3, EDGES),
        ("pattern general\n3 3 2\n1 2\n3 3\n", 3, {(0, 1): None, (2, 2): None}),
        ("pattern symmetric\n3 3 2\n2 1\n3 3\n", 3, {(0, 1): None, (1, 0): None, (2, 2): None}),
        ("integer symmetric\n4 4 2\n2 1 7\n3 3 1\n", 4, {(0, 1): 7, (1, 0): 7, (2, 2): 1}),
        ("real skew-symmetric\n2 2 1\n2 1 7\n", 2, {(1, 0): 7, (0, 1): -7}),
    ],
)
def test_matrix_market(tmp_path, edges, text, n, expected, packed):
    content = f"%%MatrixMarket matrix coordinate {text}".encode()
    name = "matrix.mtx.gz" if packed else "matrix.mtx"
    (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    source = load_source(str(tmp_path / name))
    assert (source.name, source.num_vertices) == ("matrix", n)
    assert edges(name) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a readable Matrix Market file"),
        ("0 1\n1 2\n", "not a readable Matrix Market file"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", "is a dense matrix"),
        (
            "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n1 3\n",
            "a matrix of 2 x 3; an adjacency is square",
        ),
        ("%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 1 1\n", "complex128 values"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n", "not a readable Matrix Market file"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 3\n", "Line 3"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n0 1\n", "Line 3"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n1 2 x\n", "Line 4"),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 nan\n",
            "entry 0 \\(from 0\\): the weight is nan",
        ),
    ],
)
def test_matrix_market_that_is_wrong(tmp_path, edges, text, message):
    (tmp_path / "matrix.mtx").write_text(text)
    with pytest.raises(InputError, match=rf"matrix\.mtx.*{message}"):
        edges("matrix.mtx")
    assert [path.name for path in tmp_path.iterdir()] == ["matrix.mtx"]


def test_damage_of_any_byte_is_an_input_error_or_harmless(tmp_path):
    path = tmp_path / "matrix.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(DENSE))
    content = path.read_bytes()
    for at in range(0, len(content), 3):
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]):
            path.write_bytes(damaged)
            try:
                load_source(f"scipy:{path}")
            except InputError as error:
                assert "matrix.npz" in str(error)  # noqa: PT017 (some bytes are padding)


def test_an_archive_of_other_arrays(tmp_path):
    np.savez(tmp_path / "matrix.npz", a=np.ones(3))
    with pytest.raises(InputError, match="not a readable matrix of scipy"):
        load_source(f"scipy:{tmp_path / 'matrix.npz'}")


def test_scipy_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    with pytest.raises(InputError, match=r"pip install 'gsplit\[matrices\]'"):
        load_source("mtx:matrix.mtx")
