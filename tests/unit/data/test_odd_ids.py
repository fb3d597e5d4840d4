"""Ids as nobody should write them, too little room for them, and files of ids that are damaged."""

from __future__ import annotations

import logging
import resource
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.libraries import HAS_VIEWS
from support.limits import addresses, largest_file

import gsplit
from gsplit._core import IdMap
from gsplit.data import open_layout, open_store
from gsplit.data.ids import kept_ids
from gsplit.data.ids.named_ids import NamedIds
from gsplit.data.importers import named_edges
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition
from gsplit.predict.vertices import asked_vertices

MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def column(texts) -> pa.Array:
    return pa.array(texts, pa.large_string())


def imported(tmp_path, text, **options):
    (tmp_path / "e.csv").write_text(text)
    return gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any", **options)


def mix64(x):
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def test_ids_with_one_hash_are_different_vertices(tmp_path):
    """Of 16 bytes: after the first 8 the core's hash is a bijection of the rest, so any first 8 go with a target."""
    first = [struct.unpack("<Q", f"{at:08d}".encode())[0] for at in range(300)]
    keys = [mix64((mix64((16 + GOLDEN) & MASK) ^ word) + GOLDEN & MASK) for word in first]
    ids = [struct.pack("<QQ", word, key ^ 42) for word, key in zip(first, keys, strict=True)]
    rest = [struct.unpack("<8xQ", id_)[0] for id_ in ids]
    assert len({mix64((key ^ word) + GOLDEN & MASK) for key, word in zip(keys, rest, strict=True)}) == 1
    map_, offsets, vertices = IdMap(str(tmp_path / "ids")), np.arange(0, 16 * 301, 16), np.empty(300, np.int64)
    data = np.frombuffer(b"".join(ids), np.uint8)
    for _ in range(2):
        map_.add(offsets[:201], data, vertices[:200])
        assert vertices[:200].tolist() == list(range(200))
    map_.find(offsets, data, vertices)
    assert vertices.tolist() == [*range(200), *[-1] * 100]


def test_bytes_stay_where_they_are_asked_for_while_the_file_grows(tmp_path):
    texts = [f"{at}{'é' * (at * 997 % 70_000)}" for at in range(60)]
    ids = NamedIds(tmp_path, ["id"])
    for at in range(60):
        assert ids.add([column(texts[at : at + 1])]).tolist() == [at]
        assert ids.find([column(texts[:61:7])]).tolist() == [v if v <= at else -1 for v in range(0, 60, 7)]
    assert ids.add([column(texts)]).tolist() == list(range(60))
    kept = ids.write(tmp_path / "ids.arrow")
    (back,) = kept_ids.KeptIds(tmp_path, kept, 60).of(np.arange(60))
    assert back == texts


def test_a_limit_on_addresses_is_no_limit_on_ids(tmp_path):
    with addresses(1 << 28):
        ids = NamedIds(tmp_path, ["id"])
        assert ids.add([column([f"id {at}" for at in range(50_000)])]).tolist() == list(range(50_000))


def test_too_little_memory_is_one_line(tmp_path, monkeypatch):
    def add(self, columns):
        with addresses(0):
            return whole(self, columns)

    whole = NamedIds.add
    monkeypatch.setattr(named_edges.NamedIds, "add", add)
    edges = "".join(f"{'x' * 300}{at},b\n" for at in range(40_000))
    with pytest.raises(InputError, match="g cannot be made: there is too little memory"):
        imported(tmp_path, f"src,dst\n{edges}")
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


@pytest.mark.parametrize("num_bytes", [1_000, 300_000, 400_000])
def test_a_full_disk_is_one_line(tmp_path, num_bytes):
    """At 1,000 bytes the map fails, at 300,000 ``indptr``, at 400,000 the file of ids."""
    (tmp_path / "e.csv").write_text("src,dst\n" + "".join(f"{at},{at + 20_000}\n" for at in range(20_000)))
    full = f"cannot write to {tmp_path}: (File too large|No space left on device)"
    with largest_file(num_bytes), pytest.raises(InputError, match=full):
        gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any")
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


def test_what_the_core_is_told_by_the_system_is_an_error_of_the_system(tmp_path):
    (tmp_path / "ids").touch()
    with pytest.raises(FileExistsError):
        NamedIds(tmp_path, ["id"])


def test_ids_are_what_is_written(tmp_path):
    texts = [
        "1",
        "01",
        "1.0",
        "+1",
        " 1",
        "1 ",
        "0x1",
        "1e0",
        "-0",
        "0",
        "#1",
        "a\x1fb",
        "a b",
        "\u00e9",
        "e\u0301",
        "\ufffe",
    ]
    (tmp_path / "e.csv").write_text(
        "\ufeffsrc,dst\r\n" + "".join(f"{text},{text}\r\n" for text in texts), encoding="utf-8", newline=""
    )
    store = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any", duplicates="keep")
    assert store.ids().of(np.arange(len(texts))) == [texts]
    assert store.ids().shown(11) == "'a\\x1fb'"
    assert store.graph.indices.tolist() == list(range(len(texts)))


def test_columns_are_sorted_each_by_its_kind(tmp_path):
    store = imported(
        tmp_path,
        "a,b,c,d\n10,x,9,10\n9,9,10,x\n",
        source_column="a,b",
        destination_column="c,d",
        id_order="sorted",
        duplicates="keep",
    )
    assert store.ids().of(np.arange(3)) == [[9, 9, 10], ["10", "9", "x"]]
    assert [store.ids().find([id_], "x")[0] for id_ in ((9, 10), ("10", "x"))] == [0, 2]
    assert np.diff(store.graph.indptr).tolist() == [1, 0, 1]


BYTES = pa.py_buffer(struct.pack("<ii", 0, 1)), pa.py_buffer(b"\xff")
BAD_UTF8 = pa.Array.from_buffers(pa.string(), 1, [None, *BYTES])
TWO = {"source_column": "a,b", "destination_column": "c,d"}
WRONG = [
    ("src,dst\n", {"id_order": "sorted"}, "e.csv: the graph has no vertices"),
    ("src,dst", {}, "e.csv: the graph has no vertices"),
    ("src,dst\ra,b\r", {}, "e.csv has line ends of CR alone"),
    ('src,dst\n"a,b\nc,d\n', {}, "e.csv, line 2: a field in quotes"),
    ("src,dst\na,b\nc,d\0\n", {}, "e.csv, line 3: an id holds a NUL character; remove it"),
    ("a,b,c,d\n1,2,3,4\n1,2,3\x1f3,4\n", TWO, r"e.csv, line 3: an id holds the control character U\+001F"),
    ("a,b,c,d\n1,2,3,\n", TWO, "e.csv, line 2: an id is empty"),
    ("src,dst,src\na,b,c\n", {}, "e.csv has several columns called src"),
    ("a,a,b\n1,2,3\n", {"source_column": "a", "destination_column": "b"}, "several columns called a, the --source-c"),
    ("a,b\n1,2\n", {"source_column": "a", "destination_column": "a"}, "--destination-column are both a; name two"),
    ("a,b\n1,2\n", {"source_column": "a,a", "destination_column": "a,b"}, "must have different names, not a, a"),
    ({"src": BAD_UTF8, "dst": ["a"]}, {}, "e.parquet cannot be read after row 0: Invalid UTF8"),
    ({"src": BAD_UTF8.dictionary_encode(), "dst": ["a"]}, {}, "e.parquet cannot be read after row 0: .*Invalid UTF8"),
    ({"src": ["a", None], "dst": ["a", "b"]}, {}, "e.parquet, row 1: an id is empty"),
    ({"src": ["a\0"], "dst": ["b"]}, {}, "e.parquet, row 0: an id holds a NUL character"),
    ({"src": [1.0], "dst": [2.5]}, {}, "e.parquet, row 0: '2.5' is not a whole number, as column dst should be"),
]


@pytest.mark.parametrize(("edges", "options", "message"), WRONG)
def test_ids_that_are_refused(tmp_path, edges, options, message):
    path = tmp_path / ("e.csv" if isinstance(edges, str) else "e.parquet")
    if isinstance(edges, str):
        path.write_text(edges, newline="")
    else:
        pq.write_table(pa.table(edges), path)
    with pytest.raises(InputError, match=message) as caught:
        gsplit.import_graph(path, tmp_path / "g", ids="any", **options)
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


TYPES = [pa.int8(), pa.uint64(), pa.large_string(), "dictionary", *([pa.string_view()] if HAS_VIEWS else [])]


@pytest.mark.parametrize("type_", TYPES)
def test_ids_of_any_type_of_parquet(tmp_path, type_):
    texts = ["7", "100", "7"]
    if type_ == "dictionary":
        ids = pa.array(texts).dictionary_encode()
    elif pa.types.is_integer(type_):
        ids = pa.array([int(text) for text in texts], type_)
    else:
        ids = pa.array(texts, type_)
    pq.write_table(pa.table({"src": ids, "dst": texts}), tmp_path / "e.parquet")
    store = gsplit.import_graph(tmp_path / "e.parquet", tmp_path / "g", ids="any", duplicates="keep")
    assert store.ids().of(np.arange(2)) == [[7, 100]]
    assert store.graph.indices.tolist() == [0, 0, 1]


def test_no_damage_of_the_ids_is_more_than_one_line(tmp_path):
    store = imported(tmp_path, "a,b,c,d\nx,1,yy,2\nzzz,3,x,1\nnaïve,5,q,4\n", **TWO)
    path = tmp_path / "g" / "ids.arrow"
    kept, asked = path.read_bytes(), np.arange(store.graph.num_vertices)
    refused = whole = 0
    for at in range(0, len(kept), 3):
        path.write_bytes(kept[:at] + bytes([kept[at] ^ 0xFF]) + kept[at + 1 :])
        try:
            ids = store.ids()
            ids.of(asked), ids.columns(), ids.shown(0), ids.find([("x", "1")], "here")
        except InputError as error:
            refused += "\n" not in str(error)
        else:
            whole += 1
    assert (refused > len(kept) // 9, refused + whole) == (True, -(-len(kept) // 3))


def test_ids_that_are_missing_are_one_line(tmp_path):
    store = imported(tmp_path, "src,dst\na,b\n")
    (tmp_path / "g" / "ids.arrow").unlink()
    with pytest.raises(InputError, match=r"ids.arrow is missing"):
        open_store(tmp_path / "g", verify=True)
    with pytest.raises(InputError, match=r"ids.arrow is missing"):
        partition(PartitionConfig(store=store.path, out=tmp_path / "layout", parts=2, method="random"))
    assert not (tmp_path / "layout").exists()


def test_vertices_are_asked_for_by_ids_from_python(tmp_path):
    store = imported(tmp_path, "a,b,c,d\nx,1,yy,2\nzz,3,x,1\n", **TWO)
    partition(PartitionConfig(store=store.path, out=tmp_path / "layout", parts=2, method="random"))
    layout = open_layout(tmp_path / "layout")
    assert asked_vertices([("zz", "3"), ("x", "1")], layout).tolist() == [2, 0]
    assert asked_vertices(np.array([["zz", 3], ["x", 1]], object), layout).tolist() == [2, 0]
    (tmp_path / "asked").write_text("\ufeffA,b\nzz,3\nyy,2\n", encoding="utf-8")
    assert asked_vertices(str(tmp_path / "asked"), layout).tolist() == [2, 1]
    for wrong in (["x1", "y2"], [["x", "1", "2"]]):
        with pytest.raises(InputError, match="vertices: an id has the columns a, b"):
            asked_vertices(wrong, layout)
    with pytest.raises(InputError, match=r"vertices: \('zz', '4'\) is the id of no vertex"):
        asked_vertices([("x", "1"), ("zz", "4")], layout)
    with pytest.raises(InputError, match=r"outside the vertices 0 .. 2; its vertices have ids such as \('x', 1\)"):
        asked_vertices([0, 3], layout)


def test_an_array_of_ids_is_no_larger_than_the_ids_need():
    assert kept_ids.as_array([3, 2**62], "", "").dtype == np.int64
    assert kept_ids.as_array(["a", "bc"], "", "").tolist() == ["a", "bc"]
    with pytest.raises(InputError, match=r"x.npz: an array of the ids takes 4,000,.* 100,000 characters; use .csv"):
        kept_ids.as_array(["a"] * 10_000 + ["b" * 100_000], "x.npz", "use .csv")


def test_limits_on_addresses_are_set_back():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with addresses(1 << 30):
        assert resource.getrlimit(resource.RLIMIT_AS) != before
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_comments_above_the_edges_are_told(tmp_path, caplog):
    """Without a header an id that begins with # would be one."""
    caplog.set_level(logging.INFO, "gsplit")
    store = imported(tmp_path, "#a,b\n\nx,#y\n", header=False)
    assert store.ids().of(np.arange(2)) == [["x", "#y"]]
    assert "e.csv: skipped 1 lines of comments; rows begin in line 3" in caplog.text


LABELS = {"labels": "id,y\na,1\nc,0\n"}
NAMED = [
    ({**LABELS, "train": "c\na\nc\n"}, "train.txt.*: train_idx lists a vertex twice: 'c'"),
    ({**LABELS, "test": "a\nb\n"}, "test.txt.*: the test set has vertex 'b', which has no label"),
    ({"labels": "id,y\na,-4\nb,1\n", "train": "a\n"}, "labels.csv, line 2: the label of 'a' is -4"),
    ({"labels": "id,y\na,1\nb,1.5\n"}, "labels.csv, line 3: the label of 'b' is 1.5, not a class"),
    ({"labels": "id,y\nb,1e99\n", "task": "regression"}, "labels.csv: the label of 'b' is infinite"),
    ({"labels": "id,y,z\na,1,0\nb,3,0\n", "train": "a\nb\n"}, "labels.csv, line 3: the label of 'b' has 3 in"),
    ({"features": "id,x\na,1\nc,inf\nb,2\n"}, "features.csv, line 3: column x is infinite, or too large"),
]


@pytest.mark.parametrize(("given", "message"), NAMED)
@pytest.mark.parametrize("order", ["appearance", "sorted"])
def test_messages_call_vertices_by_their_ids(tmp_path, given, message, order):
    options = {"id_order": order}
    for key, text in given.items():
        if key == "task":
            options[key] = text
            continue
        options[key] = tmp_path / f"{key}.{'csv' if key in ('labels', 'features') else 'txt'}"
        options[key].write_text(text)
    with pytest.raises(InputError, match=message):
        imported(tmp_path, "src,dst\nc,b\nb,a\n", **options)


def test_a_layout_calls_vertices_by_their_ids(tmp_path):
    store = imported(tmp_path, "src,dst\nx,y\ny,z\n")
    partition(PartitionConfig(store=store.path, out=tmp_path / "layout", parts=2, method="deal"))
    layout = open_layout(tmp_path / "layout")
    assert [layout.shown(vertex) for vertex in range(3)] == ["'x'", "'y'", "'z'"]


TOLD = [
    ("src,dst\nalice,bob\n", "e.csv, line 2: 'alice' is not a whole number.*; ids of any kind need --ids any$"),
    ("alice,bob\nbob,alice\n", "e.csv, line 2: 'bob' is not a whole number.*; ids of any kind need --ids any$"),
    ("alice,1\n1,2\n", "e.csv, line 1: 'alice' is not a number, .*; ids of any kind need --ids any$"),
    ("0,1\n-7,1\n", "e.csv: line 2: -7 -> 1 names a vertex below 0; .*; ids of any kind need --ids any$"),
    (f"0,1\n{2**62},1\n", "do not fit in memory; .*; ids of any kind need --ids any$"),
    (f"0,1\n{2**64},1\n", "e.csv, line 2: '18446744073709551616' is not a whole number.*--ids any$"),
    ({"src": ["a"], "dst": ["b"]}, "row 0: 'a' is not a whole number, .*; ids of any kind need --ids any$"),
]


@pytest.mark.parametrize(("edges", "message"), TOLD)
def test_where_whole_ids_are_read_other_ids_tell_of_the_flag(tmp_path, edges, message):
    path = tmp_path / ("e.csv" if isinstance(edges, str) else "e.parquet")
    if isinstance(edges, str):
        path.write_text(edges)
    else:
        pq.write_table(pa.table(edges), path)
    with pytest.raises(InputError, match=message):
        gsplit.import_graph(path, tmp_path / "g")
    assert gsplit.import_graph(path, tmp_path / "g", ids="any", header="src" in str(edges)).ids() is not None


def test_weights_that_are_no_numbers_tell_of_no_ids(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,weight\n0,1,x\n")
    with pytest.raises(InputError, match=r"'x' is not a number(, as column weight should be)?$"):
        gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g")
