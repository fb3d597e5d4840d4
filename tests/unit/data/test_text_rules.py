"""Quotes, spaces, delimiters of two characters, and names of columns in comments."""

from __future__ import annotations

import csv
import io
import itertools
import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.messages import says

import gsplit
from gsplit.data.importers.tables import text_format
from gsplit.errors import InputError


def imported(tmp_path, text, name="edges.csv", **options):
    (tmp_path / name).write_text(text, newline="")
    options = {"ids": "any", **options}
    return gsplit.import_graph(f"csv:{tmp_path / name}", tmp_path / "graph", overwrite=True, **options)


def names_of(store):
    return store.ids().of(np.arange(store.graph.num_vertices))[0]


@pytest.mark.parametrize(
    ("quote", "text", "names"),
    [
        ("none", 'src,dst\n"Kostas" Theatre,b\nb,"d\n', ['"Kostas" Theatre', "b", '"d']),
        ("none", "src\tdst\n5\" pipe\t'x'\n", ['5" pipe', "'x'"]),
        ("'", "src,dst\n'a, b','it''s'\n\"c\",'two\nlines'\n", ["a, b", "it's", '"c"', "two\nlines"]),
        ('"', "src,dst\n'a',\"b, c\"\n", ["'a'", "b, c"]),
    ],
)
def test_quotes_are_what_the_flag_says(tmp_path, quote, text, names):
    assert names_of(imported(tmp_path, text, quote=quote)) == names


def test_single_quotes_are_held_to_their_ends(tmp_path):
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "src,dst\n'a',b\n'c' d,e\n", quote="'")
    says(caught.value, "line 3, quotes, --quote none")


def test_all_tables_of_a_command_have_the_same_quotes(tmp_path):
    (tmp_path / "x.csv").write_text('id,x,kind\n"b,1,5"\n"a" c,2,\'s\'\n')
    columns = ["kind:category"]
    store = imported(
        tmp_path, 'src,dst\n"b,"a" c\n', quote="none", features=tmp_path / "x.csv", columns=columns, name="e.csv"
    )
    assert store.graph.features.tolist() == [[1, 0, 1], [2, 1, 0]]
    assert store.description["columns"][1]["categories"] == ["'s'", '5"']
    (tmp_path / "more.csv").write_text('src,dst\n"b,"new\n')
    (tmp_path / "more-x.csv").write_text('id,x,kind\n"new,3,5"\n')
    more = {"add": tmp_path / "more.csv", "features": tmp_path / "more-x.csv"}
    for flags in ({"quote": "none"}, {}):  # which the store keeps
        grown = gsplit.import_graph(store.path, tmp_path / "grown", **more, **flags, overwrite=True)
        assert grown.graph.features.tolist() == [[1, 0, 1], [2, 1, 0], [3, 0, 1]]


SPACED = "src,dst\na,b\n a,b \nc ,b\nc  ,b\n"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_that_differ_in_spaces_alone_are_counted_or_stripped(tmp_path, caplog, suffix):
    frame = pd.read_csv(io.StringIO(SPACED), dtype=str)
    path = tmp_path / f"edges.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    caplog.set_level(logging.INFO, "gsplit")
    apart = gsplit.import_graph(path, tmp_path / "apart", ids="any")
    assert names_of(apart) == pd.unique(frame.to_numpy().ravel()).tolist()
    # " a" is "a", "b " is "b", and of "c " and "c  " one is the other
    says(caplog.text, "3 ids, spaces, --strip")
    caplog.clear()
    one = gsplit.import_graph(path, tmp_path / "one", ids="any", strip=True)
    assert names_of(one) == ["a", "b", "c"]
    assert "--strip" not in caplog.text
    grown = gsplit.import_graph(apart.path, tmp_path / "grown", add=path, strip=True)
    assert grown.graph.num_vertices == apart.graph.num_vertices + 1  # "c"


@pytest.mark.parametrize("which", ["features", "train"])
def test_ids_that_are_unknown_for_their_spaces_are_told(tmp_path, which):
    (tmp_path / "t.csv").write_text({"features": "id,x\n a,1\nb ,2\n", "train": '" a"\nb\n'}[which])
    (tmp_path / "y.csv").write_text("id,y\na,1\nb,0\n")
    options = {which: tmp_path / "t.csv", "labels": tmp_path / "y.csv"}
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "src,dst\na,b\n", **options)
    says(caught.value, "t.csv", "2 of them" if which == "features" else "1 of them", "--strip")
    graph = imported(tmp_path, "src,dst\na,b\n", strip=True, **options).graph
    assert (graph.features.tolist() if which == "features" else graph.train_idx.tolist()) in ([[1], [2]], [0, 1])


def test_spaces_in_quotes_are_no_columns(tmp_path, monkeypatch):
    text = 'src     dst\n"a  b"  c \n  c  "d   ""e"\n'
    want = pd.read_csv(io.StringIO(text), sep=r"\s+")
    assert names_of(imported(tmp_path, text, "e.txt")) == ["a  b", "c", 'd   "e']
    assert want.to_numpy().tolist() == [["a  b", "c"], ["c", 'd   "e']]
    with pytest.raises(InputError) as caught:
        imported(tmp_path, 'src   dst\na   5"  x\n', "e.txt")
    says(caught.value, "e.txt, line 2, 3 columns")
    monkeypatch.setattr(text_format, "SNIFF_BYTES", 8)
    assert names_of(imported(tmp_path, text, "e.txt")) == ["a  b", "c", 'd   "e']


RATINGS = "1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n"
USERS = "661::F::1::Boston\n1::M::56::Köln: Süd\n1193::M::25::Boston\n2::F::18::Łódź\n"
ENDS = {"source_column": "1", "destination_column": "2", "weight_column": "3"}


@pytest.mark.parametrize("sniffed", [1 << 16, 8])
def test_two_colons_are_a_delimiter(tmp_path, monkeypatch, sniffed):
    monkeypatch.setattr(text_format, "SNIFF_BYTES", sniffed)
    graph = imported(tmp_path, RATINGS, "ratings.dat", ids="whole", **ENDS).graph
    frame = pd.read_csv(io.StringIO(RATINGS), sep="::", header=None, engine="python")
    edges = [(u, v) for v in range(1194) for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()]
    assert sorted(edges) == sorted(zip(frame[0], frame[1], strict=True))
    assert sorted(graph.edge_weight.tolist()) == sorted(frame[2].tolist())


def test_tables_without_headers_are_told_by_numbers(tmp_path):
    (tmp_path / "users.dat").write_text(USERS)
    store = imported(
        tmp_path,
        RATINGS,
        "ratings.dat",
        header=False,
        features=tmp_path / "users.dat",
        id_column="1",
        columns=["2:category", "4:code"],
        **ENDS,
    )
    frame = pd.read_csv(io.StringIO(USERS), sep="::", header=None, engine="python").set_index(0)
    rows = frame.loc[[1, 1193, 661, 2]]
    codes = rows[3].map({name: at + 1 for at, name in enumerate(sorted(frame[3].unique()))})
    want = np.column_stack([rows[1] == "F", rows[1] == "M", rows[2], codes])
    assert store.graph.features.tolist() == want.tolist()
    assert store.ids().of(np.arange(4)) == [[1, 1193, 661, 2]]
    (tmp_path / "more.dat").write_text("2::7::5::0\n")
    (tmp_path / "more-users.dat").write_text("7::M::30::Boston\n")
    more = {"add": f"csv:{tmp_path / 'more.dat'}", "features": tmp_path / "more-users.dat", "id_column": "1"}
    grown = gsplit.import_graph(store.path, tmp_path / "grown", header=False, **more, **ENDS)
    assert grown.graph.features.tolist() == [*want.tolist(), [0, 1, 30, 1]]


@pytest.mark.parametrize("flag", ["source_column", "id_column"])
def test_a_row_is_no_header_for_being_the_first(tmp_path, flag):
    (tmp_path / "users.dat").write_text(USERS)
    of_users = {"features": tmp_path / "users.dat", "id_column": "1"}
    text, options = (RATINGS, ENDS) if flag == "source_column" else ("src,dst\n1,2\n", of_users)
    with pytest.raises(InputError) as caught:
        imported(tmp_path, text, **options)
    says(caught.value, "--" + flag.replace("_", "-") + " 1", "--no-header")


def test_two_colons_in_names_are_no_delimiter(tmp_path):
    assert names_of(imported(tmp_path, "src,dst\nstd::a,std::b\n")) == ["std::a", "std::b"]
    assert names_of(imported(tmp_path, '"std::a, b","std::c"\n"std::c","std::d"\n', header=False)) == [
        "std::a, b",
        "std::c",
        "std::d",
    ]
    assert names_of(imported(tmp_path, "a::b c::d\n", header=False)) == ["a::b", "c::d"]


BARS = 'src|dst|weight\n"a|b"|c, d|2.5\nx; y|"a|b"|1\nc, d|x; y|0.5\n'


@pytest.mark.parametrize("sniffed", [1 << 16, 8])
def test_bars_are_a_delimiter(tmp_path, monkeypatch, sniffed):
    monkeypatch.setattr(text_format, "SNIFF_BYTES", sniffed)
    (tmp_path / "x.csv").write_text('id|x|kind\n"a|b"|1|New York\nx; y||Los Angeles\nc, d|3|New York\n')
    columns = {"features": tmp_path / "x.csv", "columns": ["kind:category"], "missing": "zero"}
    store = imported(tmp_path, BARS, **columns)
    frame = pd.read_csv(io.StringIO(BARS), sep="|")
    assert names_of(store) == list(dict.fromkeys(frame[["src", "dst"]].to_numpy().ravel()))
    assert sorted(store.graph.edge_weight.tolist()) == sorted(frame.weight)
    assert store.graph.features.tolist() == [[1, 0, 1], [3, 0, 1], [0, 1, 0]]
    (tmp_path / "more.csv").write_text("src|dst|weight\nc, d|new|7\n")
    grown = gsplit.import_graph(
        store.path, tmp_path / "grown", add=tmp_path / "more.csv", missing="zero", **{"features": tmp_path / "x.csv"}
    )
    assert names_of(grown) == ["a|b", "c, d", "x; y", "new"]


def test_bars_in_names_are_no_delimiter(tmp_path):
    assert names_of(imported(tmp_path, "src,dst\na|b,c|d\n")) == ["a|b", "c|d"]
    assert names_of(imported(tmp_path, "a|b c|d\n", header=False)) == ["a|b", "c|d"]
    (tmp_path / "y.csv").write_text("id,y\na,Action|Drama\nb,Drama|War\n")
    store = imported(tmp_path, "src,dst\na,b\n", labels=tmp_path / "y.csv", label_separator="|")
    assert store.graph.classes == ("Action", "Drama", "War")


@pytest.mark.parametrize("mark", ["|", "::"])
@pytest.mark.parametrize("suffix", ["txt", "parquet"])
def test_marks_in_a_file_of_one_column_are_no_delimiter(tmp_path, mark, suffix):
    ids = [f"{name}{mark}{at}" for at, name in enumerate("xyz")]
    edges = "src,dst\n" + "".join(f"{u},{v}\n" for u, v in itertools.pairwise(ids))
    classes = pd.Series([f"a{mark}b", f"c{mark}d", f"a{mark}b"], name=f"kind{mark}of")
    lists = pd.Series([f"1{mark}2", f"0{mark}1", f"2{mark}0"], name="lists")

    def written(name, values, header=False):
        path = tmp_path / f"{name}.{suffix}"
        values = pd.Series(values)
        values.to_frame().to_parquet(path) if suffix == "parquet" else values.to_csv(
            path, index=False, header=header, quoting=csv.QUOTE_NONE
        )
        return path

    pd.DataFrame({"id": ids, "y": classes}).to_csv(tmp_path / "y.csv", index=False)
    sets = {name: written(name, [value]) for name, value in zip(("train", "valid", "test"), ids, strict=True)}
    store = imported(tmp_path, edges, labels=tmp_path / "y.csv", **sets, vertices=written("more", [f"new{mark}7"]))
    assert names_of(store) == [*ids, f"new{mark}7"]
    assert store.graph.classes == tuple(sorted(set(classes)))
    assert [store.graph.vertex_set(name).tolist() for name in sets] == [[0], [1], [2]]

    def labelled(out, name, values, **options):
        (tmp_path / "whole.csv").write_text("0,1\n1,2\n2,0\n")
        labels = written(name, values, header=options.pop("header", False))
        return gsplit.import_graph(tmp_path / "whole.csv", tmp_path / out, labels=labels, **options).graph

    of_names = labelled("classes", "names", classes, header=True)
    assert of_names.classes == tuple(sorted(set(classes)))
    assert of_names.labels.tolist() == pd.Categorical(classes).codes.tolist()
    of_lists = labelled("lists", "lists", lists, label_separator=mark)
    assert of_lists.labels.tolist() == lists.str.get_dummies(mark).to_numpy().tolist()


def test_marks_between_columns_of_labels_are_delimiters(tmp_path):
    (tmp_path / "y.csv").write_text("0|1\n1|1\n0|0\n")
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,0\n")
    graph = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "out", labels=tmp_path / "y.csv").graph
    assert graph.labels.tolist() == [[0, 1], [1, 1], [0, 0]]
    (tmp_path / "z.csv").write_text("id|y\n2|a\n0|b\n1|a\n")
    graph = gsplit.import_graph(tmp_path / "e.csv", tmp_path / "of-ids", labels=tmp_path / "z.csv").graph
    assert (graph.labels.tolist(), graph.classes) == ([1, 0, 0], ("a", "b"))


def test_a_short_row_between_two_colons_has_a_line(tmp_path):
    with pytest.raises(InputError) as caught:
        imported(tmp_path, RATINGS + "3::4\n", "ratings.dat", ids="whole", **ENDS)
    says(caught.value, "ratings.dat, line 4, 2 columns")
    with pytest.raises(InputError) as caught:
        imported(tmp_path, RATINGS + "3::4::\x1f::0\n", "ratings.dat", ids="whole", **ENDS)
    says(caught.value, "U+001F")


STRING = "#protein1 protein2 combined_score\n9606.P1 9606.P2 490\n9606.P2 9606.P3 198\n"
BY_NAME = {"source_column": "protein1", "destination_column": "protein2", "weight_column": "combined_score"}


@pytest.mark.parametrize("above", ["", "# made in 2024\n\n", "% asym\n"])
def test_a_comment_that_fits_is_the_header(tmp_path, above):
    store = imported(tmp_path, above + STRING, "links.txt", **BY_NAME)
    assert names_of(store) == ["9606.P1", "9606.P2", "9606.P3"]
    assert store.graph.edge_weight.tolist() == [490, 198]


def test_a_comment_that_is_the_header_of_features(tmp_path):
    (tmp_path / "x.tsv").write_text("#id\tFirst score\tkind\n1\t5\ta\n0\t6\tb\n")
    options = {"ids": "whole", "features": tmp_path / "x.tsv", "columns": ["kind:category"]}
    store = imported(tmp_path, "0,1\n", **options)
    assert store.graph.features.tolist() == [[6, 0, 1], [5, 1, 0]]
    assert [column["column"] for column in store.description["columns"]] == ["First score", "kind"]


@pytest.mark.parametrize(
    "text",
    [
        "# by me\nsrc dst\na b\n",  # there is a header
        "# one two three\na b\n",  # of another number
        "# 7 8\na b\n",  # numbers
        "#x y\na b\n",  # the first line has no number, so it may be the header
    ],
)
def test_a_comment_that_does_not_fit_is_one(tmp_path, caplog, text):
    caplog.set_level(logging.INFO, "gsplit")
    store = imported(tmp_path, text, "e.txt", header=text.count("src") == 1)
    assert names_of(store) == ["a", "b"]
    says(caplog.text, "skipped 1, comments")


def test_names_are_shown_as_they_are_written(tmp_path, caplog):
    caplog.set_level(logging.INFO, "gsplit")
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"ID": ["a", "b"], "Größe": [1.0, 2.0], "Name": ["x", "y"]}), path)
    options = {"features": path, "columns": ["größe:number", "NAME:code"]}
    store = imported(tmp_path, "Payer,Payee\na,b\n", source_column="payer", destination_column="PAYEE", **options)
    assert [column["column"] for column in store.description["columns"]] == ["Größe", "Name"]
    says(caplog.text, "Payer, Payee")
    says(caplog.text, "ID, Größe, Name")
    (tmp_path / "more.csv").write_text("Payer,Payee\na,c\n")
    (tmp_path / "x.csv").write_text("ID,Name,GRÖSSE,größe\nc,y,0,3\n")
    ends = {"source_column": "Payer", "destination_column": "Payee"}
    grown = gsplit.import_graph(
        store.path, tmp_path / "grown", add=tmp_path / "more.csv", features=tmp_path / "x.csv", **ends
    )
    assert grown.graph.features.tolist() == [[1, 1], [2, 2], [3, 2]]


@pytest.mark.parametrize("names", [["Computer Science", "Maths"], ["a|b, c", "d::e"], ["in quotes", "x"]])
def test_a_first_line_of_one_field_is_a_file_of_one_column(tmp_path, names):
    fields = [f'"{name}"' if "," in name or "quotes" in name else name for name in names]
    classes = [names[at % 2] for at in range(3)]
    (tmp_path / "y.txt").write_text("field\n" + "".join(f"{fields[at % 2]}\n" for at in range(3)))
    graph = imported(tmp_path, "0,1\n1,2\n2,0\n", ids="whole", labels=tmp_path / "y.txt").graph
    assert graph.classes == tuple(sorted(names))
    assert graph.labels.tolist() == pd.Categorical(classes).codes.tolist()


def test_numbers_below_a_first_line_of_one_field_are_columns(tmp_path):
    (tmp_path / "y.txt").write_text("y\n0 1\n1 1\n0 0\n")
    with pytest.raises(InputError) as caught:
        imported(tmp_path, "0,1\n1,2\n2,0\n", ids="whole", labels=tmp_path / "y.txt")
    says(caught.value, "y.txt, line 2, 2 columns, 1, in quotes")


@pytest.mark.parametrize("value", ["\x0b1", "\x1f1", "\xa01", "1\u2009", "1_0", "\u0661"])
@pytest.mark.parametrize("column", ["src", "x"])
def test_marks_around_a_number_have_a_line(tmp_path, value, column):
    """Python takes them for spaces and digits; the parser does not, and has no line in its words."""
    (tmp_path / "x.csv").write_text(f"id,x\n0,1\n1,{value if column == 'x' else 2}\n")
    edges = f"src,dst\n0,1\n{value if column == 'src' else 1},0\n"
    with pytest.raises(InputError) as caught:
        imported(tmp_path, edges, ids="whole", features=tmp_path / "x.csv")
    says(caught.value, f"{'x' if column == 'x' else 'edges'}.csv, line 3, column {column}, number")


def test_hexadecimal_ids_are_no_header(tmp_path):
    graph = imported(tmp_path, "0x0,0x1\n0x1,0x0A\n", ids="whole").graph
    assert (graph.num_vertices, graph.indices.tolist()) == (11, [0, 1])
