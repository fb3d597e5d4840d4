"""Kinds of columns in a TOML file or a dictionary: names may have commas, colons and spaces; values by pandas."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.messages import says

import gsplit
from gsplit.data import open_store
from gsplit.data.__main__ import command
from gsplit.errors import InputError

TABLE = pd.DataFrame(
    {
        "id": range(4),
        "Age, in years": [30, 41, 52, 63],
        "land: of birth": ["de", "at", "de", "fr"],
        "first seen": ["31.12.2023", "01.01.2024", "29.02.2024", "01.03.2024"],
        "note.text": ["a", "b", "c", "d"],
    }
)
KINDS = {"age, in years": "number", "land: of birth": "category", "FIRST SEEN": "time(%d.%m.%Y)", "*": "skip"}
FILE = "# kinds\n" + "".join(f'"{name}" = "{kind}"\n' for name, kind in KINDS.items())
WANTED = pd.concat(
    [
        TABLE["Age, in years"],
        pd.get_dummies(TABLE["land: of birth"]),
        (pd.to_datetime(TABLE["first seen"], format="%d.%m.%Y") - pd.Timestamp(0)) / pd.Timedelta("1D"),
    ],
    axis=1,
).to_numpy(float)


@pytest.fixture(params=["csv", "parquet"])
def options(request, tmp_path):
    """Options of an import of the table."""
    path = tmp_path / f"x.{request.param}"
    if request.param == "csv":
        TABLE.to_csv(path, index=False)
    else:
        pa.parquet.write_table(pa.Table.from_pandas(TABLE, preserve_index=False), path)
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n2,3\n")
    (tmp_path / "kinds.toml").write_text(FILE)
    return {"source": tmp_path / "edges.csv", "out": tmp_path / "out", "features": path}


@pytest.mark.parametrize("form", ["path", "text", "list", "dictionary"])
def test_kinds_of_a_file(options, tmp_path, form):
    path = tmp_path / "kinds.toml"
    columns = {"path": path, "text": str(path), "list": [str(path)], "dictionary": KINDS}[form]
    store = gsplit.import_graph(**options, columns=columns)
    assert store.graph.features.tolist() == WANTED.tolist()
    (tmp_path / "more.csv").write_text("4,0\n")
    (tmp_path / "new.csv").write_text('id,first seen,"land: of birth","Age, in years"\n4,01.01.1970,at,7\n')
    grown = gsplit.import_graph(
        store.path, tmp_path / "grown", add=tmp_path / "more.csv", features=tmp_path / "new.csv"
    )
    assert grown.graph.features.tolist() == [*WANTED.tolist(), [7, 1, 0, 0, 0]]


def test_a_file_on_the_command_line_beside_words(options, tmp_path):
    path = tmp_path / "kinds.toml"
    path.write_bytes(b"\xef\xbb\xbf" + FILE.replace('"*" = "skip"', "").replace("\n", "\r\n").encode())
    words = ["--features", str(options["features"]), "--columns", f"{path},note.text:code"]
    command(["import", str(options["source"]), "--out", str(options["out"]), *words])
    features = open_store(options["out"]).graph.features
    assert features[:, :-1].tolist() == WANTED.tolist()
    assert features[:, -1].tolist() == [1, 2, 3, 4]


WRONG = {
    "no file": (None, "No such file"),
    "no TOML": ('"a" = \n', "TOML, line 1"),
    "no text": ("\xff", "TOML"),
    "no kind": ('"first seen" = "date"\n', "first seen:date, category, time"),
    "no form": ('"first seen" = "time(d.m.y)"\n', "first seen:time(d.m.y), %d.%m.%Y"),
    "a number": ('"first seen" = 1\n', "'first seen', number, 1"),
    "a dot": ('note.text = "skip"\n', "note, table, quotes"),
    "no name": ('"" = "skip"\n', "NAME:KIND"),
    "two kinds": ('"First Seen" = "skip"\n"first seen" = "number"\n', "both skip and number"),
    "none of the table": (FILE + '"last, seen" = "skip"\n', "last, seen, x.*, first seen"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_have_a_line_with_the_file(options, tmp_path, name):
    text, parts = WRONG[name]
    path = tmp_path / "wrong.toml"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(**options, columns=path)
    says(caught.value, "--columns", parts, *([] if name == "none of the table" else [str(path)]))
    assert not options["out"].exists()


def test_what_is_no_list_of_kinds(options):
    for columns in ("first seen:time", 7, [7], {"first seen": 7}, {7: "skip"}):
        with pytest.raises(InputError, match="--columns"):
            gsplit.import_graph(**options, columns=columns)
