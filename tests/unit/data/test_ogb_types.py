"""Folders of ogbn-mag's shape, a few vertices large."""

from __future__ import annotations

import gzip
import shutil

import pytest
from support.messages import line_with
from support.typed_graphs import academic, edges_by_relation

import gsplit
from gsplit.data import open_store
from gsplit.data.__main__ import command
from gsplit.errors import InputError

FILES = {
    "raw/num-node-dict": "paper,author,place\n4,3,2\n",
    "raw/triplet-type-list": "author,writes,paper\npaper,cites,paper\nauthor,is at,place\n",
    "raw/relations/author___writes___paper/edge": "0,0\n0,1\n1,1\n",
    "raw/relations/author___writes___paper/num-edge-list": "3\n",
    "raw/relations/paper___cites___paper/edge": "1,0\n2,1\n3,1\n",
    "raw/relations/author___is at___place/edge": "0,0\n2,0\n",
    "raw/node-feat/paper/node-feat": "0,1\n2,3\n4,5\n6,7\n",
    "raw/node-feat/author/node-feat": "1,0,0\n0,1,0\n0,0,1\n",
    "raw/node-label/paper/node-label": "0\n1\n1\n0\n",
    "split/time/paper/train": "0\n1\n",
    "split/time/paper/valid": "2\n",
    "split/time/paper/test": "3\n",
}
"""The graph of ``academic()``, with a validation set; edges of the first relation alone are counted."""


def write(folder, **changes):
    for name, text in {**FILES, **changes}.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else gzip.compress(text.encode()))
    return folder


@pytest.mark.parametrize("flags", [[], ["--reverse"]])
def test_a_folder_is_what_its_arrays_are(tmp_path, flags):
    folder = write(tmp_path / "ours")
    command(["import", str(folder), "--out", str(tmp_path / "store"), *flags])
    types, relations, beside = academic()
    types["author"] = types["author"].astype("float32")
    wanted = gsplit.from_arrays(types, relations, **beside, valid=[2], reverse=bool(flags))
    assert open_store(tmp_path / "store", typed=True).checksum == wanted.checksum
    assert open_store(tmp_path / "store", typed=True).graph.num_classes == 2


def test_ogbn_mag_has_its_classes(tmp_path):
    write(tmp_path / "dataset" / "ogbn_mag")
    command(["import", "ogb:ogbn-mag", "--root", str(tmp_path / "dataset"), "--out", str(tmp_path / "store")])
    store = open_store(tmp_path / "store", typed=True)
    assert (store.name, store.graph.num_classes) == ("ogbn-mag", 349)
    assert edges_by_relation(store.graph)["author__is at__place"] == [(0, 0), (2, 0)]


WRITES = "raw/relations/author___writes___paper/"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("raw/num-node-dict", "paper,author,place\n", ("num-node-dict.csv.gz", "two lines")),
        ("raw/num-node-dict", "paper,author,place\n4,3\n", ("num-node-dict.csv.gz", "as many")),
        ("raw/num-node-dict", "paper,author,place\n4,x,2\n", ("num-node-dict.csv.gz", "numbers")),
        ("raw/num-node-dict", "paper,author,paper\n4,3,2\n", ("num-node-dict.csv.gz", "twice")),
        ("raw/num-node-dict", "paper,..,place\n4,3,2\n", ("num-node-dict.csv.gz", "'..'")),
        (
            "raw/num-node-dict",
            gzip.compress(b"paper,author,place\n4,3,2\n", mtime=0)[:-9],  # in the name of the test
            ("num-node-dict.csv.gz", "damaged"),
        ),
        ("raw/triplet-type-list", None, ("triplet-type-list.csv.gz", "missing")),
        ("raw/triplet-type-list", "", ("triplet-type-list.csv.gz", "no line")),
        ("raw/triplet-type-list", "author,writes\n", ("triplet-type-list.csv.gz, line 1", "2 names")),
        ("raw/triplet-type-list", "author,writes,paper\n" * 2, ("triplet-type-list.csv.gz, line 2", "twice")),
        ("raw/triplet-type-list", "author,wrote,paper\n", ("author___wrote___paper", "edge.csv.gz")),
        ("raw/triplet-type-list", "author,is at,place\n", ("no relation leads to paper", "--reverse")),
        (f"{WRITES}edge", "0,0\n0,4\n1,1\n", ("author__writes__paper", "edge.csv.gz, line 2", "destination 4")),
        (f"{WRITES}edge", "0,0\n0,x\n1,1\n", ("edge.csv.gz, line 2", "'x'")),
        (f"{WRITES}num-edge-list", "4\n", ("edge.csv.gz has 3 edges", "says 4")),
        ("raw/node-feat/author/node-feat", "1\n2\n", ("node-feat.csv.gz has 2 rows", "3 vertices")),
        ("raw/node-label/paper/node-label", "0\n1\n", ("node-label.csv.gz", "(4,)")),
        ("raw/node-label/paper/node-label", None, ("no type of vertices has labels",)),
        ("raw/node-label/author/node-label", "0\n1\n0\n", ("paper and author", "labels")),
        ("split/time/paper/valid", "4\n", ("valid.csv.gz[0] is 4",)),
        ("split/random/paper/train", "0\n", ("paper", "several splits")),
    ],
)
def test_what_does_not_fit_is_a_line(tmp_path, name, text, words):
    folder = write(tmp_path / "mag", **{name: text})
    with pytest.raises(InputError, match=line_with(*words)):
        command(["import", str(folder), "--out", str(tmp_path / "store")])
    assert not (tmp_path / "store").exists()


def test_a_folder_without_splits_is_split_by_the_flag(tmp_path):
    folder = write(tmp_path / "mag")
    shutil.rmtree(folder / "split")
    command(["import", str(folder), "--split", "0.5,0.25,0.25", "--out", str(tmp_path / "store")])
    assert len(open_store(tmp_path / "store", typed=True).graph.train_idx) == 2
