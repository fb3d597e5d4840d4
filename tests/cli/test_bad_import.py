"""Imports of broken files: one line that says which and where, exit code 2, and nothing written."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

# 0 --> 1 --> 2 --> 3
EDGES = "0,1\n1,2\n2,3\n"
MTX = "%%MatrixMarket matrix coordinate pattern general\n"


def npy(array):
    return lambda path: np.save(path, array)


def folder(**arrays):
    def write(path):
        path.mkdir()
        for name, content in arrays.items():
            put(path / f"{name}.npy", content)

    return write


def parquet(cut=None, **columns):
    def write(path):
        pq.write_table(pa.table(columns), path)
        path.write_bytes(path.read_bytes()[:cut])

    return write


def matrix(array, cut=None):
    def write(path):
        scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(array))
        path.write_bytes(path.read_bytes()[:cut])

    return write


def put(path, content):
    if isinstance(content, str | bytes):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    elif isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        content(path)


SOURCES = [
    ("edges.csv", "", "edges.csv is empty"),
    ("edges.csv", "0,1\n1,2\n2\n", "edges.csv, line 3: 1 columns, not 2"),
    ("edges.csv", "0,1\n1,2,3\n", "edges.csv, line 2: 3 columns"),
    ("edges.csv", "0,1\n1;2\n", "edges.csv, line 2: 1 columns"),
    ("edges.csv", "0,1\n1,two\n", "edges.csv, line 2: 'two' is not a whole number"),
    ("edges.csv", "src,dst\n\n0,1\n1,-2\n", r"edges.csv: line 4: 1 -> -2 names a vertex below 0"),
    ("edges.csv", "0,1,1\n1,2,nan\n", "edges.csv: line 2: the weight is nan; clean the weights"),
    ("edges.csv", "0,1\n1,9000000000000000000\n", "edges.csv: .*vertices.*do not fit in memory"),
    ("edges.csv", b"\x89PNG\r\n\x1a\n\0\0\0\0", "edges.csv is a picture"),
    ("edges.csv", lambda path: path.mkdir(), "a folder with neither"),
    ("edges.tsv", "0\t1\n1 2\n", "edges.tsv, line 2: 1 columns"),
    ("edges.txt", "# SNAP\n0 1\n1 x\n", "edges.txt, line 3: 'x' is not"),
    ("edges.csv.gz", gzip.compress(EDGES.encode() * 9999)[:-9], "edges.csv.gz is damaged after row .*ended before"),
    ("edges.csv.gz", b"\x1f\x8b\0\0", "edges.csv.gz is damaged"),
    ("edges.csv.gz", b"", "edges.csv.gz is empty"),
    ("edges.parquet", b"", "edges.parquet is empty"),
    ("edges.parquet", b"PAR1\0\0\0PAR1", "edges.parquet is not a readable Parquet file"),
    ("edges.parquet", parquet(-9, src=[0], dst=[1]), "edges.parquet is not a readable Parquet file"),
    ("edges.parquet", parquet(src=["a"], dst=["b"]), "edges.parquet, row 0: 'a' is not a whole number"),
    ("edges.parquet", parquet(src=[0, 1, 7], dst=[1, 2, -3]), "edges.parquet: row 2: 7 -> -3"),
    ("edges.npy", b"", "edges.npy is not a readable .npy file"),
    ("edges.npy", np.zeros((3, 3), int), "edges.npy must be integers of shape"),
    ("edges.npy", np.array([[0, -1], [1, 2]]), "edges.npy: edge 1: -1 -> 2"),
    ("edges.npy", np.array([None]), "edges.npy is not a readable .npy file.*never read"),
    ("arrays", folder(), "a folder with neither"),
    ("arrays", folder(edge_index=b""), "edge_index.npy is not a readable .npy file"),
    ("arrays", folder(src=np.array([0])), "arrays has no edges: .*it has src.npy"),
    ("arrays", folder(indptr=np.array([0, 1]), indices=np.array([1])), "edge 0: 1 -> 0 names a vertex outside"),
    ("arrays", folder(edge_index=np.array([[0], [3]]), x=np.ones((3, 1))), "edge 0: 0 -> 3 names a vertex outside"),
    ("arrays", folder(edge_index=np.array([[0], [1]]), x=np.ones((3, 1)), y=np.ones(2)), "y.npy must be numbers of"),
    ("arrays", folder(edge_index=np.array([[0], [1]]), x=b""), "x.npy is not a readable .npy file"),
    ("graph.mtx", "", "graph.mtx is not a readable Matrix Market file"),
    ("graph.mtx", MTX + "2 2 1\n1 3\n", "graph.mtx is not a readable Matrix Market file: Line 3"),
    ("graph.mtx", MTX + "2 3 1\n1 3\n", "graph.mtx is a matrix of 2 x 3"),
    ("graph.mtx.gz", gzip.compress(MTX.encode() * 99)[:-9], "graph.mtx.gz is not a readable Matrix Market file"),
    ("graph.npz", matrix(np.ones((2, 3))), "graph.npz is a matrix of 2 x 3"),
    ("graph.npz", matrix(np.ones((2, 2)), -30), "graph.npz is not a readable"),
    ("graph.npz", b"", "graph.npz is not a readable"),
    ("graph.xyz", EDGES, "graph.xyz: unknown kind of source; expected"),
]


@pytest.fixture
def refused_import(refused_in, tmp_path, monkeypatch):
    """refused_import(files, source, *flags): write the files, import the source; the line that is printed."""
    monkeypatch.chdir(tmp_path)

    def run(files, source, *flags):
        for name, content in files.items():
            put(tmp_path / name, content)
        return refused_in(tmp_path, "data", "import", source, "--out", "new/store", *flags)

    return run


@pytest.mark.parametrize(("name", "content", "message"), SOURCES, ids=[f"{n}: {m[:50]}" for n, _, m in SOURCES])
def test_sources(refused_import, name, content, message):
    assert re.search(message, refused_import({name: content}, name))


ONES = np.ones(4, np.int64)
FLAGS = [
    ({}, ("nowhere.csv",), "nowhere.csv: no such file or folder"),
    ({}, ("csv:nowhere.csv",), "nowhere.csv: no such file"),
    ({}, ("parquet:nowhere",), "nowhere: no such file"),
    ({}, ("numpy:nowhere",), "nowhere: no such file"),
    ({}, ("mtx:nowhere",), "nowhere: no such file"),
    ({}, ("scipy:nowhere",), "nowhere: no such file"),
    ({"dir": lambda path: path.mkdir()}, ("csv:dir",), "dir is a folder, not a file"),
    ({"dir": lambda path: path.mkdir()}, ("mtx:dir",), "dir is a folder, not a file"),
    ({}, ("csv:",), "no such file"),
    ({}, ("edges.csv", "--root", "dataset"), "--root is for ogb:NAME, and edges.csv is none"),
    ({}, ("edges.csv", "--num-vertices", "3"), r"edges.csv: line 3: 2 -> 3 names a vertex outside .* 0 \.\. 2"),
    ({}, ("edges.csv", "--num-vertices", "0"), "--num-vertices must be at least 1"),
    ({}, ("edges.csv", "--num-vertices", "many"), "--num-vertices.*many"),
    ({}, ("edges.csv", "--self-loops", "never"), "--self-loops"),
    ({}, ("edges.csv", "--split", "0.5,0.5"), "--split takes the shares of train, valid and test.*not 0.5,0.5"),
    ({}, ("edges.csv", "--split", "0.5,x,0.1"), "--split takes the shares .* not 0.5,x,0.1"),
    ({}, ("edges.csv", "--split", "0.5,0.2,0.1"), "edges.csv: --split needs labels.*--labels FILE"),
    ({}, ("edges.csv", "--seed", "-1"), "^error: --seed must be at least 0, not -1"),
    ({"train.npy": ONES[:1]}, ("edges.csv", "--train", "train.npy"), "the train set needs labels; give --labels"),
    ({"y.npy": ONES, "t.npy": ONES}, ("edges.csv", "--labels", "y.npy", "--train", "t.npy"), "lists a vertex twice"),
    ({"y.npy": ONES, "t.txt": "1\n4\n"}, ("edges.csv", "--labels", "y.npy", "--train", "t.txt"), "is 4, outside"),
    ({"y.npy": ONES, "s.txt": "train\n"}, ("edges.csv", "--labels", "y.npy", "--split-file", "s.txt"), "1 rows"),
    ({"y.npy": ONES[:3]}, ("edges.csv", "--labels", "y.npy"), r"line 3: 2 -> 3 .* 0 \.\. 2 .*y.npy has 3 rows"),
    ({"y.csv": "1\n0\ncat\n1\n"}, ("edges.csv", "--labels", "y.csv"), "y.csv, line 3: 'cat' is not a number"),
    ({"y.csv": "1\n0\n0.5\n1\n"}, ("edges.csv", "--labels", "y.csv"), "y.csv, line 3 is 0.5, not a class"),
    ({"y.csv": "1\n0\n"}, ("edges.csv", "--num-vertices", "4", "--labels", "y.csv"), r"y.csv must be .* \(4,\)"),
    ({"x.npy": b""}, ("edges.csv", "--features", "x.npy"), "x.npy is not a readable .npy file"),
    ({"x.npy": np.ones((3, 2))}, ("edges.csv", "--features", "x.npy", "--num-vertices", "4"), r"x.npy must be .*\(4"),
    ({"x.npy": np.full((4, 2), np.nan)}, ("edges.csv", "--features", "x.npy"), "x.npy: the features of vertex 0"),
    ({"x.csv": "1,2\n1,2\n1,\n1,2\n"}, ("edges.csv", "--features", "x.csv"), "x.csv, line 3: column 2 has no value"),
    ({"x.csv": "1,2\n1,2\n1\n1,2\n"}, ("edges.csv", "--features", "x.csv"), "x.csv, line 3: 1 columns, not 2"),
    (
        {"x.npy": np.ones((4, 2)), "y.npy": ONES[:3]},
        ("edges.csv", "--features", "x.npy", "--labels", "y.npy"),
        r"y.npy must be numbers of shape \(4,\)",
    ),
    ({}, ("edges.csv", "--features", "nowhere.npy"), "nowhere.npy: no such file"),
    (
        {"x.csv": "user,age\n3,1\n0,1\n2,5\n1,7\n"},
        ("edges.csv", "--features", "x.csv"),
        r"x.csv: column user holds each of 0 \.\. 3 once, as ids do, and is no feature; "
        "give --id-column user to match",
    ),
    (
        {"x.csv": "user,age\n3,1\n0,1\n3,5\n1,7\n"},
        ("edges.csv", "--features", "x.csv", "--id-column", "user"),
        "x.csv, line 4: id 3 was in line 2 already",
    ),
    ({}, ("edges.csv", "--id-column", "user"), "--id-column user is for a table of --features, --labels or"),
]


@pytest.mark.parametrize(("files", "words", "message"), FLAGS, ids=[" ".join(words) for _, words, _ in FLAGS])
def test_flags(refused_import, files, words, message):
    assert re.search(message, refused_import({"edges.csv": EDGES, **files}, *words))
