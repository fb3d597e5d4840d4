"""Edge lists as people write them, and where a message says that one is wrong."""

from __future__ import annotations

import gzip
import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.messages import says

import gsplit
from gsplit.data.importers import load_source
from gsplit.data.importers.tables import parquet_tables, text_format, text_tables
from gsplit.errors import InputError

PLAIN = [(0, 1), (3, 2), (1, 0)]
WEIGHTED = [(0, 1, 0.5), (3, 2, 2.0), (1, 0, -1.0)]


def edges_of(source):
    edges = []
    for chunk in source.edges.chunks():
        weight = [] if chunk.weight is None else [chunk.weight.tolist()]
        edges += zip(chunk.source.tolist(), chunk.destination.tolist(), *weight, strict=True)
    return edges


@pytest.mark.parametrize(
    ("name", "text", "edges"),
    [
        ("commas.csv", "0,1\n3,2\n1,0\n", PLAIN),
        ("no-newline.csv", "0,1\n3,2\n1,0", PLAIN),
        ("windows.csv", "0,1\r\n3,2\r\n1,0\r\n", PLAIN),
        ("after-commas.csv", "0, 1\n3, 2\n1, 0\n", PLAIN),
        ("tabs.tsv", "0\t1\n3\t2\n1\t0\n", PLAIN),
        ("spaces.txt", "0 1\n3 2\n1 0\n", PLAIN),
        ("aligned.txt", "  0     1\n  3     2 \n  1 \t  0\n", PLAIN),
        ("trailing.txt", "0 1 \n3 2 \n1 0 \n", PLAIN),
        ("semicolons.txt", "0;1\n3;2\n1;0\n", PLAIN),
        ("blank-lines.csv", "\n0,1\n\n3,2\n1,0\n\n", PLAIN),
        ("snap.txt", "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n3\t2\n1\t0\n", PLAIN),
        ("konect.edges", "% asym unweighted\n% 3 4 4\n0 1\n3 2\n1 0\n", PLAIN),
        ("quoted.csv", '"0","1"\n"3","2"\n"1","0"\n', PLAIN),
        ("mark.csv", "\ufeff0,1\n3,2\n1,0\n", PLAIN),
        ("header.csv", "src,dst\n0,1\n3,2\n1,0\n", PLAIN),
        ("upper.csv", "Source,Target\n0,1\n3,2\n1,0\n", PLAIN),
        ("unknown-header.csv", "paper,cites\n0,1\n3,2\n1,0\n", PLAIN),
        ("turned.csv", "dst,kind,src\n1,a,0\n2,b,3\n0,c,1\n", PLAIN),
        ("pandas.csv", ",src,dst\n0,0,1\n1,3,2\n2,1,0\n", PLAIN),
        ("three.csv", "0,1,0.5\n3,2,2\n1,0,-1\n", WEIGHTED),
        ("weights.csv", "src,dst,time,weight\n0,1,9,0.5\n3,2,9,2\n1,0,9,-1\n", WEIGHTED),
        ("not-a-weight.csv", "src,dst,time\n0,1,9\n3,2,9\n1,0,9\n", PLAIN),
        ("header-only.csv", "src,dst\n", []),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_texts(tmp_path, name, text, edges, packed):
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    source = load_source(str(path))
    assert (source.name, source.where, source.num_vertices) == (name.split(".")[0], str(path), None)
    assert edges_of(source) == edges
    assert edges_of(source) == edges  # a second time
    assert source.edges.weighted == (edges is WEIGHTED)


def test_rows_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 64)
    names = [f"feature{at}" for at in range(100)]
    rows = np.random.default_rng(0).integers(0, 10**9, (5, 100))
    text = "\n".join([",".join(["id", *names]), *(",".join(map(str, [at, *row])) for at, row in enumerate(rows))])
    (tmp_path / "x.csv").write_text(text + "\n")
    (tmp_path / "edges.csv").write_text("0,1\n4,0\n")
    graph = gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "graph", features=tmp_path / "x.csv").graph
    assert np.array_equal(graph.features, rows.astype(np.float32))


@pytest.mark.parametrize("sign", [",", "::"])
@pytest.mark.parametrize("quote", ['"', "none"])
def test_rows_longer_than_a_block_that_are_not_the_first(tmp_path, monkeypatch, sign, quote):
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 512)
    whole = 2**53 + np.random.default_rng(0).permutation(1000)
    notes = [("x" * 10 ** (at % 6) + str(at)) if at > 600 and at % 7 == 0 else "n" for at in range(1000)]
    if quote == '"' and sign == ",":
        notes[800] = '"' + "a\n" * 4000 + '"'  # one row, of many lines
    lines = [sign.join(["id", "kind", "big", "note"])]
    lines += [sign.join([str(at), "uvw"[at % 3], str(whole[at]), notes[at]]) for at in range(1000)]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "edges.csv").write_text("0,1\n999,0\n")
    options = {"columns": ["kind:category", "note:skip"], "standardize": True, "quote": quote}
    graph = gsplit.import_graph(
        tmp_path / "edges.csv", tmp_path / "graph", features=tmp_path / "x.csv", **options
    ).graph
    assert np.array_equal(graph.features[:, :3], pd.get_dummies(["uvw"[at % 3] for at in range(1000)]))
    off = (whole - whole.min()).astype(float)
    assert np.array_equal(graph.features[:, 3], ((off - off.mean()) / off.std()).astype(np.float32))
    (tmp_path / "x.csv").write_text("\n".join([*lines[:900], "1" + sign + "u", *lines[901:]]) + "\n")
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "bad", features=tmp_path / "x.csv", **options)
    at = 901 + 4000 * ("\n" in notes[800])
    says(caught.value, f"x.csv, line {at}, 2 columns, 4")
    monkeypatch.setattr(text_tables, "MOST_BYTES", 5000)
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "bad", features=tmp_path / "x.csv", **options)
    says(caught.value, "x.csv, line, 5,000 bytes, shorten")


def test_a_quote_that_never_ends_is_named_however_long_its_row_would_be(tmp_path, monkeypatch):
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 512)
    monkeypatch.setattr(text_tables, "MOST_BYTES", 5000)
    (tmp_path / "e.csv").write_text("src,dst\n" + "a,b\n" * 300 + 'a,"b\n' + "a,b\n" * 3000)
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(tmp_path / "e.csv", tmp_path / "graph", ids="any")
    says(caught.value, "e.csv, line 302: a field in quotes goes on after them, or never ends")


def test_a_first_field_of_any_length(tmp_path):
    (tmp_path / "e.csv").write_text("a" * 200_000 + ",b\nb,c\n")
    store = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "graph", ids="any", header=False)
    assert store.ids().of([0])[0] == ["a" * 200_000]


def test_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 256)
    monkeypatch.setattr(text_format, "SNIFF_BYTES", 64)
    edges = np.random.default_rng(0).integers(0, 10**6, (2000, 2)).tolist()
    for separator in (",", "   "):
        (tmp_path / "edges.txt").write_text("".join(f"{s}{separator}{d}\n" for s, d in edges))
        source = load_source(str(tmp_path / "edges.txt"))
        assert edges_of(source) == [tuple(edge) for edge in edges]
        assert len(list(source.edges.chunks())) > 10


@pytest.mark.parametrize(
    ("table", "edges"),
    [
        ({"src": [0, 3, 1], "dst": [1, 2, 0]}, PLAIN),
        ({"dst": pa.array([1, 2, 0], pa.uint16()), "label": ["a", "b", "c"], "SRC": [0, 3, 1]}, PLAIN),
        ({"a.b": [0, 3, 1], "c": [1, 2, 0]}, PLAIN),
        ({"u": [0, 3, 1], "v": [1, 2, 0], "w": [0.5, 2, -1]}, WEIGHTED),
    ],
)
def test_parquet(tmp_path, monkeypatch, table, edges):
    monkeypatch.setattr(parquet_tables, "BATCH_ROWS", 2)
    pq.write_table(pa.table(table), tmp_path / "edges.parquet")
    source = load_source(str(tmp_path / "edges.parquet"))
    assert edges_of(source) == edges
    assert source.edges.weighted == (edges is WEIGHTED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# nothing\n\n", "is empty: it has only comments"),
        ("0\n1\n", "has one column; an edge needs two"),
        ("0,1,2,3\n", "has 4 columns and no header"),
        ("0,1,x\n", "line 1: 'x' is not a number, and a header has no numbers"),
        ("from,kind\n", "has a source but no column called dst"),
        ("kind,to\n", "has a destination but no column called src"),
        ("# c\n0,1\n\n1,2\n3\n", "line 5: 1 columns, not 2"),
        ("0,1\n1,2,3\n", "line 2: 3 columns, not 2"),
        ("src,dst\n1,2,3\n", "line 2: 3 columns, not 2"),
        ("0 1\n1  2  3\n", "line 2: 3 columns, not 2"),
        ("0,1\n1;2\n", "line 2: 1 columns, not 2"),
        ("0\t1\n1 2\n", "line 2: 1 columns, not 2"),
        ("0,1\n1,two\n", "line 2: 'two' is not a whole number"),
        ("src,dst\n1,1.5\n", "line 2: '1.5' is not a whole number"),
        ("src,dst,weight\n\n1,1,heavy\n", "line 3: 'heavy' is not a number"),
        ("0,1\n1,\n", "line 2: column 2 is empty"),
        ("0,1\n1,99999999999999999999\n", "line 2: '99999999999999999999' is not a whole number"),
        ("0,1\n1,\0\n", r"line 2: '\\x00' is not a whole number"),
        (
            "edge_id,node1,node2\n0,5,6\n",
            "has the columns edge_id, node1, node2; name those of an edge by --source-column",
        ),
        (",node1,node2\n0,5,6\n", r"has the columns \(nameless\), node1, node2; name those of an edge"),
    ],
)
def test_texts_that_are_wrong(tmp_path, text, message):
    path = tmp_path / "edges.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"edges\.csv.*{message}"):
        edges_of(load_source(str(path)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"src": ["a"], "dst": [1]}, "row 0: 'a' is not a whole number, as column src"),
        ({"src": [0.5], "dst": [1]}, "row 0: '0.5' is not a whole number, as column src"),
        ({"src": [[1]], "dst": [1]}, "column src holds list"),
        ({"src": [1, 1], "dst": [1, 2], "weight": ["2", "b"]}, "row 1: 'b' is not a number, as column weight"),
        ({"src": [1, 1], "dst": [1, None]}, "row 1: column dst is empty"),
        ({"src": pa.array([2**63], pa.uint64()), "dst": [1]}, f"row 0: '{2**63}' is not a whole number"),
        ({"src": [1]}, "has one column"),
    ],
)
def test_parquet_that_is_wrong(tmp_path, table, message):
    pq.write_table(pa.table(table), tmp_path / "edges.parquet")
    with pytest.raises(InputError, match=rf"edges\.parquet.*{message}"):
        edges_of(load_source(str(tmp_path / "edges.parquet")))


@pytest.mark.parametrize("name", ["edges.csv.gz", "edges.parquet"])
def test_damage_is_an_input_error(tmp_path, name):
    path = tmp_path / name
    edges = np.random.default_rng(0).integers(0, 100, (2, 5000))
    if name.endswith("gz"):
        path.write_bytes(gzip.compress("".join(f"{s},{d}\n" for s, d in edges.T).encode()))
    else:
        pq.write_table(pa.table({"src": edges[0], "dst": edges[1]}), path)
    content = path.read_bytes()
    for cut in range(0, len(content) - 1, len(content) // 40):
        path.write_bytes(content[:cut])
        with pytest.raises(InputError, match=name):
            edges_of(load_source(str(path)))
    for at in range(0, len(content), len(content) // 100):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            edges_of(load_source(str(path)))
        except InputError as error:
            assert name in str(error)  # noqa: PT017 (Parquet pages have no checksum: damage may go unseen)


def test_pyarrow_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "edges.csv").write_text("0,1\n")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)
    with pytest.raises(InputError, match=r"pip install 'gsplit\[tables\]'"):
        load_source(str(tmp_path / "edges.csv"))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("src,dst,capacity,weight\n0,1,9,2\n", "ignored the columns capacity"),
        ("w,to,from\n0,1,9\n", "edges.csv: edges go from from to to, weights in w"),
        ("0 1 5\n", "edges.csv: edges go from column 1 to column 2, weights in column 3"),
        ("0 1 5\n", "has no header: the third of its columns is taken for the weight"),
    ],
)
def test_what_columns_are_taken_for_is_said(tmp_path, caplog, text, printed):
    (tmp_path / "edges.csv").write_text(text)
    with caplog.at_level(logging.INFO):
        assert load_source(str(tmp_path / "edges.csv")).edges.weighted
    assert printed in caplog.text
