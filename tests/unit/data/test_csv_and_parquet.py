"""A table in Parquet makes the store that pandas' CSV of it makes, or is refused for the same reason."""

from __future__ import annotations

import datetime
import gzip
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.libraries import HAS_VIEWS
from support.messages import says
from support.stores import assert_equal_graphs

import gsplit
from gsplit.errors import InputError

NAN, NONE = float("nan"), None
DAY = datetime.datetime(2024, 3, 1, 12, tzinfo=datetime.timezone.utc)
FEATURES = {"features": "{}", "missing": "zero"}
LABELS = {"labels": "{}"}

ALIKE = [
    ("nothing", pa.nulls(6), {**FEATURES, "columns": ("x:bool",)}),
    ("nothing", pa.nulls(6), FEATURES),
    ("nothing", pa.nulls(6), LABELS),
    ("numbers as texts", ["1.5", "-2", "", "NA", "3e2", "0.1"], FEATURES),
    ("numbers as texts", pa.array(["1", "0", None, "2", "1", "0"]).dictionary_encode(), LABELS),
    ("floats as categories", [1.0, 2.5, NAN, 1e20, 1e-5, 0.1], {**FEATURES, "columns": ("x:category",)}),
    ("floats as codes", pa.array([10, 2.5, NONE, 0.1, 10, 2], pa.float32()), {**FEATURES, "columns": ("x:code",)}),
    ("half floats", pa.array(np.array([1, 0.1, 2, 3, 4, 5], np.float16)), {**FEATURES, "columns": ("x:category",)}),
    ("decimals", [Decimal("0.10"), NONE, *map(Decimal, ("1.35", "2.30", "-7.77", "9.99"))], FEATURES),
    (
        "decimals",
        [*map(Decimal, ("0.1", "1.3", "0.1", "2.3", "7.7", "9.9"))],
        {**FEATURES, "columns": ("x:category",)},
    ),
    ("truth values", [True, False, NONE, True, True, False], FEATURES),
    ("truth values", [True, False, NONE, True, True, False], {**FEATURES, "standardize": True}),
    ("truth values", [True, False, NONE, True, True, False], {**FEATURES, "columns": ("x:category",)}),
    ("truth values", [True, False, NONE, True, True, False], LABELS),
    ("truth values as texts", ["TRUE", "FALSE", "", "TRUE", "TRUE", "FALSE"], FEATURES),
    ("a dictionary of numbers", pa.array([1.5, 2.5, NONE, 1.5, 1.5, 0.1]).dictionary_encode(), FEATURES),
    ("unsigned", pa.array([2**64 - 1, 0, 2**63, 1, 2, 3], pa.uint64()), FEATURES),
    ("lists", [["a", "b"], [], NONE, ["b"], ["c", NONE], ["a"]], LABELS),
    ("lists of numbers", [[0, 2], [1], NONE, [2], [0], []], LABELS),
    ("lists", [["it's", 'a "b"'], ["ü, ;"], ["b"], NONE, ["b"], ["b"]], {**LABELS, "label_separator": ";"}),
    ("dates", pa.array([DAY.date()] * 5 + [NONE]), {**FEATURES, "columns": ("x:time",)}),
    ("dates", pa.array([DAY.date()] * 5 + [datetime.date(1969, 1, 1)]), LABELS),
    ("times", pa.array([DAY] * 6, pa.timestamp("ns", "Asia/Kolkata")), {**FEATURES, "columns": ("x:time",)}),
    ("times", pa.array([DAY] * 5 + [NONE], pa.timestamp("ms")), {**FEATURES, "columns": ("x:time",)}),
    *([("string_view", pa.array(["b", "a", "", "NA", "b", "c"], pa.string_view()), LABELS)] if HAS_VIEWS else []),
]

REFUSED = [
    (["1.5", "2", "x", "3", "4", "5"], FEATURES, "'x' is not a number, column x, --columns"),
    (["true", "2", "false", "1", "0", "1"], FEATURES, "'2' is not true or false, column x, --columns"),
    ([True, False, True, True, False, True], {**FEATURES, "columns": ("x:number",)}, "number*, column x, --columns"),
    ([DAY.date()] * 6, FEATURES, "number*, column x, --columns"),
    ([["a"], ["b"]] * 3, FEATURES, "number*, column x, --columns"),
    ([[0.5, 2.0], [1.5, 3.0]] * 3, FEATURES, "number*, column x, column of each number, --columns NAME:skip"),
    ([True] * 3 + [False] * 3, {**LABELS, "task": "regression"}, "classes by name, --task regression"),
    ([["a", "b"], ["c"]] * 3, {**LABELS, "task": "regression"}, "classes by name, --task regression"),
    ([[0.5], [1.5]] * 3, LABELS, "*classes*"),
]


def test_text_that_is_damaged_is_told_of_where_its_first_rows_are_looked_at(refused, tmp_path):
    rows = np.random.default_rng(0).random((600, 30)).tolist()
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text.encode())[:-5000])
    says(refused(features="x.csv.gz", num_vertices=600), "x.csv.gz, damaged, after row #")


WHOLE = [pa.float64(), pa.float32(), pa.float16(), pa.decimal128(22, 2), pa.uint8(), pa.string()]
WHOLE += [pa.dictionary(pa.int8(), pa.int64())]
IDS = pa.array([2, 0, 1, 5, 4, 3])


def both(tmp_path, **columns):
    """The same table as text by pandas and as Parquet."""
    table = pa.table(columns)
    frame = table.to_pandas(integer_object_nulls=True)
    for name in (field.name for field in table.schema if pa.types.is_nested(field.type)):
        frame[name] = pd.Series(table[name].to_pylist(), dtype=object)  # to_pandas makes arrays of lists
    frame.to_csv(tmp_path / "t.csv", index=False)
    pq.write_table(table, tmp_path / "t.parquet")
    return "t.csv", "t.parquet"


def given(options, name):
    return {key: value.format(name) if isinstance(value, str) else value for key, value in options.items()}


def described(store):
    columns = json.loads((store.path / "graph.json").read_text()).get("columns", [])
    return [{key: value for key, value in column.items() if key != "table"} for column in columns]


@pytest.mark.parametrize(("_name", "values", "options"), ALIKE, ids=[name for name, *_ in ALIKE])
def test_the_same_table_makes_the_same_store(made, tmp_path, _name, values, options):
    made()
    stores = [
        gsplit.import_graph("ring.csv", table[2:] + "-store", **given(options, table))
        for table in both(tmp_path, id=range(6), x=values)
    ]
    assert_equal_graphs(stores[1].graph, stores[0].graph)
    assert stores[1].graph.classes == stores[0].graph.classes
    assert described(stores[1]) == described(stores[0])
    (tmp_path / "more.csv").write_text("src,dst\n0,3\n")
    kept = {key: value for key, value in options.items() if key not in ("columns", "standardize")}
    for store, table in ((stores[0], "t.parquet"), (stores[1], "t.csv")):  # each grows by the other's rows
        grown = gsplit.import_graph(store.path, f"{table}-grown", add="more.csv", **given(kept, table)).graph
        for name in ("features", "labels"):
            np.testing.assert_array_equal(getattr(grown, name), getattr(store.graph, name))
        assert grown.classes == store.graph.classes


@pytest.mark.parametrize(("values", "options", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_the_same_table_is_refused_for_the_same_reason(refused, tmp_path, values, options, words):
    for table in both(tmp_path, id=range(6), x=values):
        says(refused(**given(options, table)).replace("'", ""), table, words.replace("'", ""))


def in_type(ids, type_):
    if type_ == pa.float16():
        return pa.array(np.array(ids, np.float16))
    return ids.cast(type_) if not pa.types.is_dictionary(type_) else ids.dictionary_encode()


@pytest.mark.parametrize("ids", ["whole", "any"])
@pytest.mark.parametrize("type_", WHOLE, ids=str)
def test_whole_numbers_of_any_type_are_ids(made, tmp_path, type_, ids):
    """As pandas makes floats of whole numbers with gaps."""
    made()
    edges = {"src": IDS, "dst": IDS.take(pa.array([1, 2, 3, 4, 5, 0]))}
    wanted = gsplit.import_graph("ring.csv", "wanted", labels=table_of(tmp_path, "w", id=IDS, y=list("abcdef")))
    path = table_of(tmp_path, "e", **{name: in_type(column, type_) for name, column in edges.items()})
    labels = table_of(tmp_path, "y", id=in_type(IDS, type_), y=list("abcdef"))
    store = gsplit.import_graph(path, "named", ids=ids, labels=labels)
    order = [int(store.ids().shown(at)) for at in range(6)] if ids == "any" else range(6)
    assert store.graph.labels.tolist() == wanted.graph.labels[list(order)].tolist()


@pytest.mark.parametrize(
    ("value", "words"), [(2.5, "2.5"), (float(1 << 54), "#"), (math.inf, "inf"), ("2.0x", "2.0x")]
)
@pytest.mark.parametrize("ids", ["whole", "any"])
def test_other_numbers_are_no_ids(made, refused, tmp_path, value, words, ids):
    if isinstance(value, str) and ids == "any":
        return
    rows = [0, 1, value] if isinstance(value, float) else ["0", "1", value]
    table_of(tmp_path, "e", src=rows, dst=[1, 2, 0])
    with pytest.raises(InputError) as caught:
        gsplit.import_graph("e.parquet", "never", ids=ids)
    says(str(caught.value).replace("'", ""), "e.parquet, row 2, src", words)


@pytest.mark.parametrize(("dtype", "bits"), [(np.float64, 53), (np.float32, 24), (np.float16, 11)])
@pytest.mark.parametrize("ids", ["whole", "any"])
def test_floats_that_may_be_other_ids_are_refused(made, tmp_path, dtype, bits, ids):
    """From there on two ids may have become one float."""
    bound = 1 << bits
    assert dtype(bound) == dtype(bound + 1)
    table_of(tmp_path, "e", src=pa.array(np.array([1, bound, bound + 1], dtype)), dst=[1, 2, 0])
    with pytest.raises(InputError) as caught:
        gsplit.import_graph("e.parquet", "never", ids=ids)
    says(str(caught.value), "e.parquet, row 1, src", f"below {bound:,}")
    below = np.array([bound - 1, bound - 2, bound - 1], dtype)
    table_of(tmp_path, "e", src=pa.array(below), dst=pa.array(below[[1, 2, 0]]))
    store = gsplit.import_graph("e.parquet", "kept", ids="any", duplicates="keep", self_loops="keep")
    assert store.ids().of(np.arange(2)) == [[bound - 1, bound - 2]]


@pytest.mark.parametrize("type_", [pa.decimal128(38, 0), pa.decimal128(38, 4), pa.decimal256(60, 0)], ids=str)
def test_ids_of_more_than_64_bits(made, tmp_path, type_):
    """As DuckDB has whole numbers of 128 bits."""
    ids = [2**70, 0, -(2**80)]
    column = pa.array([Decimal(each) for each in ids], type_)
    table_of(tmp_path, "e", src=column, dst=column.take(pa.array([1, 2, 0])))
    store = gsplit.import_graph("e.parquet", "wide", ids="any")
    assert set(map(str, store.ids().of(np.arange(3))[0])) == set(map(str, ids))


WHOLES = [
    pa.array([1, 2, NONE, 1, 2, 1], pa.float64()),
    pa.array([1, 2, NONE, 1, 2, 1], pa.int64()),
    pa.array([1, 2, NONE, 1, 2, 1], pa.float32()),
    pa.array(["1", "2", "", "1", "2", "1"]),
    pa.array([*map(Decimal, ("1", "2")), NONE, *map(Decimal, ("1", "2", "1"))], pa.decimal128(9, 2)),
]


@pytest.mark.parametrize("kind", ["category", "code"])
def test_whole_numbers_are_the_categories_that_they_were(made, tmp_path, kind):
    made()
    (tmp_path / "more.csv").write_text("src,dst\n0,3\n")
    grow = {"add": "more.csv", "missing": "zero", "overwrite": True}
    made_of = {"columns": (f"x:{kind}",), "missing": "zero", "overwrite": True}
    for at, values in enumerate(WHOLES):
        first = table_of(tmp_path, "first", id=range(6), x=values)
        store = gsplit.import_graph("ring.csv", "first", features=first, **made_of)
        for table in both(tmp_path, id=range(6), x=WHOLES[at - 1]):
            grown = gsplit.import_graph(store.path, "grown", features=table, **grow).graph
            np.testing.assert_array_equal(grown.features, store.graph.features)


def test_whole_numbers_are_the_classes_that_they_were(made, tmp_path):
    made()
    (tmp_path / "more.csv").write_text("src,dst\n0,3\n")
    for names, separator in ((["x", "1", "2", "3.0", "", "01"], None), (["x;1", "2", "3.0", "x;1", "", "01"], ";")):
        options = {"label_separator": separator, "overwrite": True}
        store = gsplit.import_graph(
            "ring.csv", "first", labels=table_of(tmp_path, "y", id=range(6), y=names), **options
        )
        respelt = [name.replace("1", "1.0").replace("01.0", "01").replace("2", "2.00") for name in names]
        respelt = [name if name != "3.0" else "3" for name in respelt]
        more = table_of(tmp_path, "m", id=range(6), y=respelt)
        grown = gsplit.import_graph(store.path, "grown", add="more.csv", labels=more, **options).graph
        assert grown.classes == store.graph.classes == ("01", "1", "2", "3.0", "x")
        np.testing.assert_array_equal(grown.labels, store.graph.labels)


def table_of(tmp_path, name, **columns):
    pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    return f"{name}.parquet"


@pytest.mark.parametrize("groups", [2, 4, 9])
def test_rows_stay_together_whatever_is_stored_as_a_dictionary(tmp_path, monkeypatch, groups):
    """pyarrow ends a batch with each group of rows where a dictionary is among what is read, and else does not."""
    monkeypatch.setattr("gsplit.data.importers.tables.parquet_tables.BATCH_ROWS", 5)
    ends = pd.DataFrame({"src": list("abcdefghi"), "dst": list("bcdefghia"), "weight": np.arange(9) + 0.5})
    for texts in (["src", "dst"], ["src"], ["weight"]):
        types = dict.fromkeys(texts, "category")
        frame = ends.astype({"weight": str} if "weight" in texts else {}).astype(types)
        frame.to_parquet(tmp_path / "e.parquet", row_group_size=groups)
        graph = gsplit.import_graph(tmp_path / "e.parquet", tmp_path / "-".join(texts), ids="any", columns=None).graph
        assert (graph.num_edges, sorted(graph.edge_weight)) == (9, list(np.arange(9) + 0.5))
    whole = 2**53 + 1 + 2 * np.arange(9)
    rows = pd.DataFrame({"id": list("abcdefghi"), "kind": pd.Categorical(list("abcabcabc")), "x": whole})
    rows.to_parquet(tmp_path / "x.parquet", row_group_size=groups)
    graph = gsplit.import_graph(
        tmp_path / "e.parquet",
        tmp_path / "with features",
        ids="any",
        features=tmp_path / "x.parquet",
        columns=["kind:category"],
        standardize=True,
    ).graph
    assert np.array_equal(graph.features[:, :3], pd.get_dummies(list("abcabcabc")))
    off = 2.0 * np.arange(9)
    np.testing.assert_allclose(graph.features[:, 3], (off - off.mean()) / off.std(), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("gaps", [("no", "unknown"), ("N", "unknown")])
def test_a_gap_is_no_truth(tmp_path, gaps):
    no = gaps[0].lower()
    (tmp_path / "x.csv").write_text("\n".join(["b", "true", no, "yes", "unknown", no, "yes", "f"]) + "\n")
    (tmp_path / "e.csv").write_text("0,1\n6,0\n")
    graph = gsplit.import_graph(
        tmp_path / "e.csv",
        tmp_path / "store",
        features=tmp_path / "x.csv",
        columns=["b:bool"],
        gaps=gaps,
        missing="mean",
    ).graph
    assert graph.features[:, 0].tolist() == [1, 0.75, 1, 0.75, 0.75, 1, 0]
