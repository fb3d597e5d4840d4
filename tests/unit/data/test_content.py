"""What a file is, its first bytes say: packed and re-coded text is read, what is no table is named with a way out."""

from __future__ import annotations

import bz2
import gzip
import io
import logging
import lzma
import pickle
import sqlite3
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from support.messages import says

import gsplit
from gsplit.errors import InputError

EDGES = "src,dst\nMüller,b\nb,c\n"
TABLE = pa.table({"src": ["Müller", "b"], "dst": ["b", "c"]})


def packed(codec):
    return lambda text: pa.Codec(codec).compress(text).to_pybytes()


PACKED = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": packed("zstd"),
    "lz4": packed("lz4"),
}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def written(write, *table):
    """The bytes that a library writes to a file."""
    out = io.BytesIO()
    write(*table, out)
    return out.getvalue()


def zipped(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, EDGES)
    return out.getvalue()


PARQUET = written(pq.write_table, TABLE)
FOREIGN = {
    "workbook": (zipped("[Content_Types].xml", "xl/workbook.xml"), "Excel, python -c, import pandas"),
    "old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "Excel"),
    "zip": (zipped("edges.csv"), "zip, unzip"),
    "sparse": (written(lambda m, out: scipy.sparse.save_npz(out, m), scipy.sparse.eye(3).tocsr()), "sparse, SciPy"),
    "npz": (written(lambda a, out: np.savez(out, a=a), np.arange(3)), "NumPy"),
    "npy": (written(lambda a, out: np.save(out, a), np.arange(3)), "NumPy, mv"),
    "feather": (written(pa.feather.write_feather, TABLE), "Arrow, python -c"),
    "orc": (written(pa.orc.write_table, TABLE), "ORC, python -c"),
    "pickle": (pickle.dumps([1, 2, 3]), "pickle"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5"),
    "duckdb": (bytes(8) + b"DUCK" + bytes(99), "DuckDB"),
    "avro": (b"Obj\x01\x04\x14avro.codec", "Avro"),
    "pdf": (b"%PDF-1.7\n%\xb5\xed\xae\xfb\n\0\0", "PDF"),
    "page": (b"\n<!DOCTYPE html>\n<html><head>", "web page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS, git lfs pull"),
    "lines": (b'{"src": "a", "dst": "b"}\n', "JSON, python -c"),
    "json": (b'[{"src": "a", "dst": "b"}]\n', "JSON, python -c"),
    "matrix": (b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "Matrix Market, mtx:*"),
    "bytes": (np.random.default_rng(0).bytes(999), "no text"),
    "gzip of parquet": (gzip.compress(PARQUET), "gzip, Parquet, unpack"),
}


def imported(tmp_path, name, content, **options):
    (tmp_path / name).write_bytes(content)
    return gsplit.import_graph(f"csv:{tmp_path / name}", tmp_path / "graph", ids="any", overwrite=True, **options)


def names_of(store):
    return store.ids().of(np.arange(store.graph.num_vertices))[0]


@pytest.mark.parametrize("name", ["edges.csv", "edges.gz", "edges"])
@pytest.mark.parametrize("packing", PACKED)
def test_packed_text_is_read_whatever_its_name(tmp_path, packing, name):
    assert names_of(imported(tmp_path, name, PACKED[packing](EDGES.encode()))) == ["Müller", "b", "c"]


@pytest.mark.parametrize("packing", [*PACKED, None])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_of_any_width_is_read(tmp_path, encoding, packing):
    content = PACKED.get(packing, bytes)(EDGES.replace("\n", "\r\n").encode(encoding))
    assert names_of(imported(tmp_path, "edges.csv", content)) == ["Müller", "b", "c"]


def test_parquet_is_read_whatever_its_name(tmp_path):
    assert names_of(imported(tmp_path, "edges.csv", PARQUET)) == ["Müller", "b", "c"]
    assert names_of(imported(tmp_path, "edges.parquet", EDGES.encode())) == ["Müller", "b", "c"]


@pytest.mark.parametrize("text", ["PAR1,ORC\nORC,FEA1\n", "BZh91,PK\nPK,Obj\n", "{a},[b]\n[b],<c>\n"])
def test_text_that_begins_like_something_else_is_text(tmp_path, text):
    store = imported(tmp_path, "edges.csv", text.encode(), header=False)
    assert names_of(store) == list(dict.fromkeys(text.replace("\n", ",").split(",")[:-1]))


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_table_is_named_with_the_way_out(tmp_path, kind):
    content, parts = FOREIGN[kind]
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "edges.csv", content)
    says(caught.value, str(tmp_path / "edges.csv"), parts)
    assert not (tmp_path / "graph").exists()


def test_a_database_is_named(tmp_path):
    with sqlite3.connect(tmp_path / "edges.db") as database:
        database.execute("create table edges (src, dst)")
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "edges.csv", (tmp_path / "edges.db").read_bytes())
    says(caught.value, "SQLite, sqlite3")


def test_a_source_of_an_unknown_suffix_is_named_for_what_it_is(tmp_path):
    for name, content, what in (("a.xlsx", FOREIGN["workbook"][0], "Excel"), ("a.orc", FOREIGN["orc"][0], "ORC")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            gsplit.import_graph(tmp_path / name, tmp_path / "graph")
        says(caught.value, what)


def test_a_matrix_is_a_matrix_whatever_its_name(tmp_path):
    content = FOREIGN["matrix"][0]
    for name, text in (("a.txt", content), ("b.mtx", gzip.compress(content)), ("c.csv.zst", packed("zstd")(content))):
        (tmp_path / name).write_bytes(text)
        graph = gsplit.import_graph(tmp_path / name, tmp_path / "graph", overwrite=True).graph
        assert (graph.num_vertices, graph.indptr.tolist(), graph.indices.tolist()) == (2, [0, 0, 1], [0])


@pytest.mark.parametrize("packing", PACKED)
def test_what_is_cut_off_is_damaged(tmp_path, packing):
    text = "src,dst\n" + "".join(f"{a},{b}\n" for a, b in np.random.default_rng(0).integers(0, 1 << 40, (9000, 2)))
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "edges.csv", PACKED[packing](text.encode())[:-9])
    says(caught.value, str(tmp_path / "edges.csv"), "damaged, row #")


def test_half_a_character_is_damage(tmp_path):
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "edges.csv", EDGES.encode("utf-16")[:-1])
    says(caught.value, "damaged")


def test_latin_1_has_a_line_and_a_command(tmp_path):
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "edges.csv", EDGES.encode("latin1"))
    says(caught.value, "line 2, UTF-8, iconv, latin1")


@pytest.mark.parametrize("which", ["features", "labels", "train", "split_file"])
def test_files_beside_the_edges_are_held_to_the_same(made, refused, tmp_path, which):
    tables = {
        "features": "id,x\n" + "".join(f"v{i},{i}\n" for i in range(6)),
        "labels": "id,y\n" + "".join(f"v{i},{i % 2}\n" for i in range(6)),
        "train": "v1\nv3\n",
        "split_file": "id,split\nv1,train\nv3,train\n",
    }
    (tmp_path / "labels.csv").write_text(tables["labels"])
    options = {"labels": "labels.csv"} | {which: "table.csv"}
    seen = []
    for pack in (bytes, PACKED["gzip"], PACKED["zstd"], lambda text: text.decode().encode("utf-16")):
        (tmp_path / "table.csv").write_bytes(pack(tables[which].encode()))
        graph = made(ids="any", **options)
        features = None if graph.features is None else graph.features.tolist()
        seen.append((features, graph.labels.tolist(), graph.train_idx.tolist()))
    assert seen == [seen[0]] * 4
    (tmp_path / "table.csv").write_bytes(FOREIGN["workbook"][0])
    (tmp_path / "graph").rename(tmp_path / "before")
    says(refused(ids="any", **options), "table.csv, Excel")


def test_edges_that_are_added_are_held_to_the_same(tmp_path):
    store = imported(tmp_path, "edges.csv", EDGES.encode())
    (tmp_path / "more.csv").write_bytes(PACKED["zstd"]("src,dst\nc,é\n".encode("utf-16")))
    grown = gsplit.import_graph(store.path, tmp_path / "grown", add=tmp_path / "more.csv")
    assert names_of(grown) == ["Müller", "b", "c", "é"]
    (tmp_path / "more.csv").write_bytes(FOREIGN["orc"][0])
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(store.path, tmp_path / "other", add=tmp_path / "more.csv")
    says(caught.value, "ORC")


@pytest.mark.parametrize("mark", [";", "|", "\t", ","])
def test_the_first_line_of_excel_says_the_delimiter(tmp_path, mark):
    names = [name.replace(mark, "-") for name in ("a; b", "c,\td")]
    text = f"sep={mark}\r\nsrc{mark}dst\r\n{names[0]}{mark}{names[1]}\r\n"
    assert names_of(imported(tmp_path, "edges.csv", text.encode())) == names


def test_comments_that_are_skipped_are_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO, "gsplit")
    imported(tmp_path, "edges.csv", b"# one\n\n% two\nsrc,dst\na,b\n")
    says(caplog.text, "skipped 2, line 5")
