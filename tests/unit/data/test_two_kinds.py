"""Ids that stand in a column of users and in one of films are one vertex each, and that is told."""

from __future__ import annotations

import logging

import pytest

import gsplit


@pytest.mark.parametrize("ids", ["whole", "any"])
@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("user,film\n0,1\n1,2\n3,1\n", {}, "1 ids are in the column user and in film"),
        (
            "day,user,film\n7,0,1\n7,1,0\n7,2,4\n",
            {"source_column": "User", "destination_column": "film"},
            "2 ids are",
        ),
        ("account,account\n0,1\n1,2\n", {"source_column": "1", "destination_column": "2"}, "1 ids are in the column"),
        ("user,film\n0,1\n2,3\n", {}, None),
        ("src,dst\n0,1\n1,2\n", {}, None),
        ("0,1\n1,2\n", {}, None),
    ],
)
def test_ids_of_two_columns_are_counted(tmp_path, caplog, ids, text, flags, said):
    caplog.set_level(logging.INFO)
    if ids == "any" and not flags and text[0].isalpha():
        source, destination = text.partition("\n")[0].split(",")
        flags = {"source_column": source, "destination_column": destination}
    flags = {**flags, **({"header": False} if ids == "any" and not text[0].isalpha() else {})}
    (tmp_path / "edges.csv").write_text(text)
    gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "graph", ids=ids, undirected=True, **flags)
    told = [each.getMessage() for each in caplog.records if "ids are in the column" in each.getMessage()]
    assert len(told) == (said is not None)
    assert said is None or (said in told[0] and "prefix" in told[0] and str(tmp_path / "edges.csv") in told[0])
