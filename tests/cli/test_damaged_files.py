"""Damage that experiments.faults found to end in a traceback: each is one line now, and nothing is written."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pathlib
import re
import zipfile

import numpy as np
import pytest
import torch
from support.messages import line_with, says

from experiments.micro import overlap
from gsplit.errors import InputError
from gsplit.runs.log import RunLog

IMPORT = ("data", "import")
OUT = ("--out", "new/store")
MTX = "%%MatrixMarket matrix coordinate real general\n2 2 1\n"
EDGES = "0,1\n1,2\n"


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


TOO_MUCH = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }", bytes(80))


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def texts(*marks):
    """A ``.npy`` of texts with these code points, four a text."""
    buffer = io.BytesIO()
    np.save(buffer, np.array(marks, np.uint32).view("U4"))
    return buffer.getvalue()


IMPORTS = [
    ("x.npy", TOO_MUCH, ("e.csv", "--features", "x.npy"), "x.npy is not a readable .npy file: Unable to allocate"),
    ("x.npy", npz(x=np.ones(3)), ("e.csv", "--features", "x.npy"), "x.npy is not a readable .npy.*archive of arrays"),
    ("e.npy", npy("9" * 5000), ("e.npy",), r"e.npy is not a readable .npy file: .{,2000}$"),
    ("e.tsv", b"a\t\x1b[31m\x00\tb\n0\t1\t2\n", ("e.tsv",), r"e.tsv has the columns a, \?\[31m\?, b;"),
    ("g.npz", npz(indptr=[-1, -1], indices=[0]), ("g.npz",), "g.npz: indptr does not ascend from 0 to the 1 indices"),
    (
        "g.npz",
        npz(indptr=[0, 2, 1], indices=[0]),
        ("g.npz",),
        "g.npz: indptr does not ascend from 0 to the 1 indices",
    ),
    ("g.npz", npz(indptr=[0, 1], indices=[0]), ("g.npz",), "g.npz is not a readable .npz.*: x is no array"),
    # SciPy reads on behind these numbers, up to where the process ends; here the import goes on to what is missing.
    ("g.mtx", (MTX + "1 2 0.5e-").encode(), ("g.mtx", "--split-file", "none.csv"), "none.csv"),
    ("g.mtx.gz", gzip.compress((MTX + "1 2 0.5E").encode()), ("g.mtx.gz", "--split-file", "none.csv"), "none.csv"),
    ("s.npy", texts(0x110000, 0, 0, 0), ("e.csv", "--split-file", "s.npy"), "s.npy is damaged: it holds characters"),
]


@pytest.mark.parametrize(
    ("name", "content", "words", "message"), IMPORTS, ids=[f"{n}: {m[:30]}" for n, *_, m in IMPORTS]
)
def test_sources(refused_in, tmp_path, monkeypatch, name, content, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text(EDGES)
    (tmp_path / name).write_bytes(content)
    if "no array" in message:
        with zipfile.ZipFile(tmp_path / name, "a") as archive:
            archive.writestr("x.npy", "noise")
    assert re.search(message, refused_in(tmp_path, *IMPORT, *words, *OUT))


def test_a_header_whose_size_overflows(refused, place):
    header = "{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"
    (place / "ids.npy").write_bytes(npy(header, bytes(80)))
    says(refused(*PREDICT, "--vertices", "ids.npy"), "ids.npy")


def test_a_folder_in_place_of_the_metrics(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(InputError, match=line_with("metrics.jsonl")):
        RunLog(tmp_path).mend({"epochs": [], "num_bytes": 0, "sha256": ""})


def test_a_table_of_nothing_but_a_header(refused_in, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = tmp_path / "dataset" / "ogbn_arxiv" / "raw"
    raw.mkdir(parents=True)
    (raw / "num-node-list.csv.gz").write_bytes(gzip.compress(b"nodes\n"))
    line = refused_in(tmp_path, *IMPORT, "ogb:ogbn-arxiv", *OUT)
    assert "num-node-list.csv.gz has no row below its header" in line


class Hostile:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("executed"),)


def changed(path, change):
    whole = json.loads(path.read_text())
    change(whole)
    path.write_text(json.dumps(whole))


def archived(folder, description, name):
    """The array as an archive, of which the description knows."""
    path = folder / f"{name}.npy"
    path.write_bytes(npz(array=np.load(path)))
    sealed = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    changed(folder / description, lambda about: about["arrays"][name].update(sealed))


def saved(run, state):
    """Another model, with a checksum that fits."""
    path = next(run.glob("model-*.pt"))
    torch.save(state, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    changed(run / "model.json", lambda about: about.update(sha256=digest))


def deep(path):
    path.write_text("[" * 100_000)


INFO = ("data", "info")
REPORT = ("partition", "report", "layout", "--out", "new")
PREDICT = ("predict", "run", "layout", "--out", "new.npy")
RESUME = ("train", "layout", "--resume", "run")
FOLDERS = [
    (lambda at: archived(at / "store", "graph.json", "labels"), (*INFO, "store", "--verify"), "labels.npy"),
    (lambda at: deep(at / "store" / "graph.json"), (*INFO, "store"), "graph.json"),
    (
        lambda at: changed(at / "layout" / "layout.json", lambda about: about["quality"].update(balance_vertices={})),
        REPORT,
        "layout.json",
    ),
    (
        lambda at: changed(at / "layout" / "layout.json", lambda about: about["quality"].update(edges_per_part=[1])),
        REPORT,
        "layout.json",
    ),
    (
        lambda at: changed(at / "layout" / "layout.json", lambda about: about.update(presample={"fan_out": 3})),
        ("train", "layout", "--out", "new"),
        "layout.json",
    ),
    (lambda at: deep(at / "run" / "config.json"), RESUME, "config.json"),
    (lambda at: deep(at / "run" / "checkpoint.json"), RESUME, "checkpoint.json"),
    (
        lambda at: changed(at / "run" / "model.json", lambda about: about["graph"].pop("num_features")),
        PREDICT,
        "model.json",
    ),
    (lambda at: saved(at / "run", []), PREDICT, "model-*.pt, list"),
    (lambda at: saved(at / "run", {"a": Hostile()}), PREDICT, "model-*.pt, tensors"),
]


@pytest.mark.parametrize(("damage", "words", "message"), FOLDERS, ids=[message for _, _, message in FOLDERS])
def test_folders(refused, place, damage, words, message):
    damage(place)
    says(refused(*words), message)
    assert not (place / "executed").exists()


@pytest.mark.parametrize(
    "damage",
    [
        deep,
        lambda path: path.write_text('{"traceEvents": [[]]}'),
        lambda path: path.write_text('{"traceEvents": [{"ph": "X", "name": "load", "pid": {}, "ts": 1, "dur": 1}]}'),
        lambda path: path.write_text('{"traceEvents": [{"ph": "X", "name": "load", "pid": 1, "ts": "1", "dur": 1}]}'),
    ],
)
def test_a_trace(tmp_path, damage):
    damage(tmp_path / "trace.json")
    with pytest.raises(InputError, match=line_with("trace.json")):
        overlap.command([str(tmp_path / "trace.json")])
