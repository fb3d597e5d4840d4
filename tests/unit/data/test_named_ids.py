"""Ids of any kind: the map against a dictionary, stores against those of whole ids, and what comes out again."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.garbage import assert_holds

import gsplit
from gsplit.data import open_store
from gsplit.data.ids.kept_ids import KeptIds
from gsplit.data.ids.named_ids import NamedIds
from gsplit.data.ids.vertex_ids import WholeIds
from gsplit.errors import InputError
from gsplit.predict.vertices import asked_vertices

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=12)
NAMES = st.one_of(TEXT, st.integers(-(2**70), 2**70).map(str), st.uuids().map(str)).filter(bool)
ODD = ["O'Neil, A", 'the "second"', "two\nlines", "naïve 你好", "-7", "10003001302", "007", " padded ", "NA"]


def column(texts) -> pa.Array:
    return pa.array(texts, pa.large_string())


def write(path, *rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def numbered(texts) -> dict[str, int]:
    """The slow reference: texts in the order of first appearance."""
    return {text: at for at, text in enumerate(dict.fromkeys(texts))}


@settings(max_examples=60)
@given(st.lists(st.lists(st.one_of(TEXT, st.integers(0, 3000).map(str)), max_size=90), max_size=6), st.lists(TEXT))
def test_the_map_is_a_dictionary(tmp_path_factory, chunks, others):
    ids = NamedIds(tmp_path_factory.mktemp("ids"), ["id"])
    found = [ids.add([column(chunk)]).tolist() for chunk in chunks]
    known = numbered(text for chunk in chunks for text in chunk)
    assert found == [[known[text] for text in chunk] for chunk in chunks]
    assert ids.num_vertices == len(known)
    asked = [*others, *known]
    assert ids.find([column(asked)]).tolist() == [known.get(text, -1) for text in asked]


def test_the_map_grows_and_a_slice_of_a_column_is_read_where_it_lies(tmp_path):
    texts = [f"{'x' * (n % 20)}{n % 40_000}" for n in range(100_000)]
    known, whole = numbered(texts), column(texts)
    ids = NamedIds(tmp_path, ["id"])
    found = np.concatenate([ids.add([whole.slice(at, 7_001)]) for at in range(0, len(texts), 7_001)])
    assert found.tolist() == [known[text] for text in texts]
    assert ids.find([whole.slice(99_990)]).tolist() == [known[text] for text in texts[99_990:]]


@settings(max_examples=30)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=30), st.sampled_from(["csv", "parquet"]))
@example([("0", "\x1e\x19")], "csv")
def test_any_ids_give_the_graph_of_their_numbers_and_come_back(tmp_path_factory, edges, suffix):
    folder = tmp_path_factory.mktemp("graph")
    known = numbered(end for edge in edges for end in edge)
    table = {"src": [a for a, _ in edges], "dst": [b for _, b in edges]}
    if suffix == "csv":
        write(folder / "e.csv", ("src", "dst"), *edges)
    else:
        pq.write_table(pa.table(table), folder / "e.parquet")
    named = gsplit.import_graph(folder / f"e.{suffix}", folder / "named", ids="any", duplicates="keep")
    write(folder / "w.csv", ("src", "dst"), *([known[a], known[b]] for a, b in edges))
    whole = gsplit.import_graph(folder / "w.csv", folder / "whole", duplicates="keep", num_vertices=len(known))
    assert named.graph.indptr.tolist() == whole.graph.indptr.tolist()
    assert named.graph.indices.tolist() == whole.graph.indices.tolist()
    ids = named.ids()
    (there,) = ids.of(np.arange(len(known)))
    assert [str(text) for text in there] == list(known)
    assert ids.find(list(known)[::-1], "here").tolist() == list(range(len(known)))[::-1]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["10", "9", "-2", str(2**63 - 1)], [-2, 9, 10, 2**63 - 1]),
        (["10", "9", "x", "-2"], ["-2", "10", "9", "x"]),
        (["10", "9", "009"], ["009", "10", "9"]),
        ([str(2**63), "1"], ["1", str(2**63)]),
    ],
)
def test_ids_may_be_sorted(tmp_path, texts, expected):
    write(tmp_path / "e.csv", ("src", "dst"), *((text, texts[0]) for text in texts))
    store = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any", id_order="sorted")
    (there,) = store.ids().of(np.arange(len(texts)))
    assert there == expected
    last = [str(each) for each in expected].index(texts[0])
    assert np.diff(store.graph.indptr).tolist() == [len(texts) if v == last else 0 for v in range(len(texts))]


def test_an_id_may_have_several_columns(tmp_path):
    """("a", "bc") and ("ab", "c") are two vertices."""
    write(
        tmp_path / "e.csv",
        ("bank", "account", "to_bank", "to_account", "weight"),
        ("a", "bc", "ab", "c", 2),
        ("ab", "c", "a", "7", 3),
    )
    write(tmp_path / "f.csv", ("account", "x", "bank"), ("c", 1, "ab"), ("7", 2, "a"), ("bc", 3, "a"))
    options = {"source_column": "bank,account", "destination_column": "to_bank,to_account", "ids": "any"}
    store = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", features=tmp_path / "f.csv", **options)
    ids = store.ids()
    assert ids.names == ("bank", "account")
    assert ids.of(np.arange(3)) == [["a", "ab", "a"], ["bc", "c", "7"]]
    assert store.graph.features.tolist() == [[3], [1], [2]]
    assert store.graph.edge_weight.tolist() == [2, 3]
    assert ids.find([("a", "7"), ("a", "bc")], "here").tolist() == [2, 0]
    assert ids.shown(1) == "('ab', 'c')"


def test_rows_are_matched_by_id_and_classes_have_names(tmp_path):
    edges = list(zip(ODD, [*ODD[1:], ODD[0]], strict=True))
    order = np.random.default_rng(0).permutation(len(ODD))
    write(tmp_path / "e.csv", ("src", "dst"), *edges)
    write(tmp_path / "f.csv", ("x", "id"), *((at / 2, ODD[at]) for at in order))
    words = ["", "spam", "ham", "spam", "", "eggs", "ham", "spam", ""]
    write(tmp_path / "l.csv", ("id", "kind"), *((ODD[at], words[at]) for at in order if at != 8))
    write(tmp_path / "s.csv", ("id", "split"), *((ODD[at], "train" if words[at] == "spam" else "-") for at in order))
    store = gsplit.import_graph(
        tmp_path / "e.csv",
        tmp_path / "g",
        ids="any",
        features=tmp_path / "f.csv",
        labels=tmp_path / "l.csv",
        split_file=tmp_path / "s.csv",
    )
    assert store.ids().of(np.arange(len(ODD)))[0] == ODD
    assert store.graph.features[:, 0].tolist() == [at / 2 for at in range(len(ODD))]
    assert store.classes == ("eggs", "ham", "spam")
    assert store.graph.labels.tolist() == [{"eggs": 0, "ham": 1, "spam": 2}.get(word, -1) for word in words]
    assert store.graph.train_idx.tolist() == [1, 3, 7]
    layout = gsplit.partition(store, tmp_path / "layout", parts=2, method="random")
    assert layout.classes == store.classes
    assert layout.ids().columns() == [("id", ODD)]
    write(tmp_path / "asked", [ODD[2]], [ODD[0]], [ODD[2]])
    assert asked_vertices(str(tmp_path / "asked"), layout).tolist() == [2, 0, 2]
    assert asked_vertices([ODD[3]], layout).tolist() == [3]
    assert asked_vertices(np.array([3]), layout).tolist() == [3]
    gsplit.data.open_layout(tmp_path / "layout", verify=True)
    with pytest.raises(InputError, match=r"asked: 'nobody' is the id of no vertex"):
        asked_vertices(str(write(tmp_path / "asked", ["nobody"])), layout)


def test_a_file_without_names_and_sets_by_id(tmp_path):
    (tmp_path / "e.csv").write_text("ann,bob\nbob,cid\n")
    write(tmp_path / "l.csv", ("id", "y"), ("bob", 1), ("ann", 0))
    for name, text in (("train", "id\nbob\n"), ("valid", "ann\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    store = gsplit.import_graph(
        tmp_path / "e.csv",
        tmp_path / "g",
        ids="any",
        header=False,
        labels=tmp_path / "l.csv",
        train=tmp_path / "train.txt",
        valid=tmp_path / "valid.txt",
    )
    assert store.graph.labels.tolist() == [0, 1, -1]
    assert (store.graph.train_idx.tolist(), store.graph.valid_idx.tolist()) == ([1], [0])


def test_ids_that_are_damaged_are_one_line(tmp_path):
    write(tmp_path / "e.csv", ("src", "dst"), ("a", "b"))
    store = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any")
    kept = (tmp_path / "g" / "ids.arrow").read_bytes()
    for damage, message in (
        (kept[:-1], "is truncated or changed"),
        (bytes(len(kept)), "is damaged"),
        (None, "is missing"),
    ):
        (tmp_path / "g" / "ids.arrow").unlink()
        if damage is not None:
            (tmp_path / "g" / "ids.arrow").write_bytes(damage)
        with pytest.raises(InputError, match=message):
            open_store(tmp_path / "g").ids()
        if damage is None:
            continue
        with pytest.raises(InputError, match="SHA-256"):
            open_store(tmp_path / "g", verify=True)
    with pytest.raises(InputError, match="where it says what vertices are called"):
        KeptIds(tmp_path / "g", {"columns": 3}, store.graph.num_vertices)


def test_whole_ids_know_numbers_alone():
    assert WholeIds(3).find([column(["2", "3", "x", "", "-1", "0"])]).tolist() == [2, -1, -1, -1, -1, 0]


EDGES = {"e.csv": "src,dst\na,b\nb,c\n"}
WRONG = [
    (
        {"e.csv": "payer,payee\na,b\n"},
        {},
        r"e.csv has no columns called src and dst .* payer, payee; .*--source-column",
    ),
    ({"e.csv": "src,dst\na,b\nb,\n"}, {}, "e.csv, line 3: an id is empty"),
    ({"e.csv": 'src,dst\n"a\nb",b\n,x\n'}, {}, "e.csv, line 4: an id is empty"),
    ({"e.csv": "src,dst\na,b\nb\n"}, {}, "e.csv, line 3: 1 columns, not 2"),
    ({"e.csv": b"src,dst\na,b\n\xff,c\n"}, {}, "e.csv, line 3: column 1 is no text in UTF-8"),
    ({"e.csv": "src,dst,weight\na,b,x\n"}, {}, "e.csv, line 2: 'x' is not a number"),
    (EDGES, {"source_column": "from"}, "--source-column and --destination-column go together"),
    (
        EDGES,
        {"source_column": "x", "destination_column": "dst"},
        "no column called x, the --source-column; .* src, dst",
    ),
    (EDGES, {"source_column": "src,dst", "destination_column": "dst"}, "has 2 columns and --destination-column dst"),
    (EDGES, {"source_column": "src,", "destination_column": "dst"}, "leaves a column without a name"),
    (EDGES, {"id_column": "a,b"}, "--id-column a,b has 2 columns, but an id of .*e.csv has 1"),
    (EDGES, {"num_vertices": 9}, "--num-vertices is for ids that are whole numbers"),
    (EDGES, {"ids": "whole", "header": False}, "--no-header is for ids of any kind; add --ids any"),
    (EDGES, {"ids": "whole", "id_order": "sorted"}, "--id-order is for ids of any kind; add --ids any"),
    (EDGES, {"ids": "whole", "source_column": "src,dst", "destination_column": "dst,src"}, "need --ids any"),
    (EDGES, {"features": "f.npy"}, "f.npy has no ids to match its rows by"),
    ({**EDGES, "f.csv": "x,y\n1,2\n"}, {"features": "f.csv"}, "f.csv has no column of ids called id; it has x, y;"),
    ({**EDGES, "f.csv": "id\na\n"}, {"features": "f.csv"}, "f.csv has no column of [a-z]+ beside the ids"),
    (
        {**EDGES, "f.csv": "id,x\na,1\nd,2\ne,2\n"},
        {"features": "f.csv"},
        "f.csv, line 3: the id is in no edge, nor are .* 1",
    ),
    (
        {**EDGES, "f.csv": "id,x\na,1\nb,2\na,2\n"},
        {"features": "f.csv"},
        "f.csv, line 4: id 'a' was in line 2 already",
    ),
    ({**EDGES, "f.csv": "id,x\na,1\nc,2\n"}, {"features": "f.csv"}, "f.csv has no row for 'b', nor for 0 other"),
    ({**EDGES, "f.csv": "id,x\na,1\nb,2\nc,x\n"}, {"features": "f.csv"}, "f.csv, line 4: 'x' is not a number"),
    ({**EDGES, "f.csv": "id,x\nb,2\na,1\nc,\n"}, {"features": "f.csv"}, "f.csv, line 4: column x has no value"),
    (
        {**EDGES, "f.csv": "id,x\nb,2\na,1\nc,inf\n"},
        {"features": "f.csv"},
        "f.csv, line 4: column x is infinite, or too large",
    ),
    ({**EDGES, "l.csv": "id,y\na,1\nb,x\n"}, {"labels": "l.csv"}, "l.csv, line 3: 'x' is not a number"),
    ({**EDGES, "t.txt": "a\nz\n"}, {"train": "t.txt"}, "t.txt, line 2: the id is in no edge"),
    ({**EDGES, "t.txt": "a,b\n"}, {"train": "t.txt"}, "t.txt has 2 columns; .* have 1; .* stands in quotes"),
    ({**EDGES, "s.csv": "id,split\na,tain\n"}, {"split_file": "s.csv"}, "s.csv, line 2: 'tain' is none of train"),
]


@pytest.mark.parametrize("head", ["", "id\n"])
@pytest.mark.parametrize("lines", ['"Smith, John"\nAnn Lee\n', "Smith, John\nAnn Lee\n", "Ann Lee\nSmith, John"])
def test_a_line_of_a_list_is_one_id(tmp_path, head, lines):
    (tmp_path / "e.csv").write_text('src,dst\n"Smith, John",Ann Lee\nAnn Lee,Bag\n')
    (tmp_path / "y.csv").write_text('id,y\nAnn Lee,1\n"Smith, John",0\n')
    (tmp_path / "t.txt").write_text(head + lines)
    files = {"labels": tmp_path / "y.csv", "train": tmp_path / "t.txt", "vertices": tmp_path / "t.txt"}
    store = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", ids="any", **files)
    assert store.graph.num_vertices == 3
    assert sorted(store.ids().of(store.graph.train_idx)[0]) == ["Ann Lee", "Smith, John"]


@pytest.mark.filterwarnings("error")  # files are closed, too
@pytest.mark.parametrize(("files", "options", "message"), WRONG)
def test_a_mistake_is_one_line_and_nothing_is_left(tmp_path, files, options, message):
    np.save(tmp_path / "f.npy", np.zeros((3, 1), np.float32))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(path.name for path in tmp_path.iterdir())
    named = {key: tmp_path / value if key in FILES else value for key, value in options.items()}
    with pytest.raises(InputError, match=message) as caught:
        gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", **{"ids": "any", **named})
    assert "\n" not in str(caught.value)
    del caught
    assert_holds(tmp_path, *before)


FILES = ("features", "labels", "train", "split_file")


def test_only_tables_have_ids_of_any_kind(tmp_path):
    np.save(tmp_path / "e.npy", np.zeros((2, 3), np.int64))
    with pytest.raises(InputError, match="--ids any is for edge lists"):
        gsplit.import_graph(tmp_path / "e.npy", tmp_path / "g", ids="any")
    with pytest.raises(InputError, match="--source-column is for edge lists"):
        gsplit.import_graph(tmp_path / "e.npy", tmp_path / "g", source_column="a", destination_column="b")
