"""Tables joined to vertices by id: what pandas makes of the same tables is the reference."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gsplit
from gsplit.errors import InputError

WORDS = ("", "a", "b b", "ü", 'q"uote', "x,y", "new\nline", "NA", "1")
TIMES = (
    "",
    "2024-01-31",
    "1969-12-31 23:00:01.5",
    "2024-02-29T12:00",
    "2024-01-01 00:00:00Z",
    "2001-09-09 01:46+02:00",
)
FLAGS = ("", "true", "False", "1", "0", "yes", "N")
NUMBERS = st.one_of(st.none(), st.integers(-1000, 1000).map(float), st.floats(-1e6, 1e6, width=32))
KINDS = ("number", "category", "code", "bool", "time", "skip")


@st.composite
def tables(draw):
    """A graph's ids, tables with some of them, the kind of each column, and a rule for what is missing."""
    named = draw(st.booleans())
    n = draw(st.integers(3, 8))
    ids = draw(st.permutations([f"v {i}, {i}" for i in range(n)] if named else [str(i) for i in range(n)]))
    found, kinds = [], {}
    for number in range(draw(st.integers(1, 3))):
        there = draw(st.lists(st.sampled_from(ids), unique=True, min_size=1))
        others = draw(st.integers(0, 2))
        rows = draw(st.permutations([*there, *(f"stranger {i}" if named else str(1000 + i) for i in range(others))]))
        table = {"id": rows}
        for at in range(draw(st.integers(1, 3))):
            name, kind = f"c{number}{at}", draw(st.sampled_from(KINDS))
            kinds[name] = kind
            values = {"number": NUMBERS, "category": st.sampled_from(WORDS), "code": st.sampled_from(WORDS)}
            values |= {"bool": st.sampled_from(FLAGS), "time": st.sampled_from(TIMES), "skip": st.sampled_from(WORDS)}
            table[name] = draw(st.lists(values[kind], min_size=len(rows), max_size=len(rows)))
        found.append(pd.DataFrame(table))
    training = draw(st.lists(st.sampled_from(ids), unique=True))
    return named, ids, found, kinds, draw(st.sampled_from(["zero", "mean"])), draw(st.booleans()), training


def days(text):
    moment = pd.Timestamp(text)
    moment = moment.tz_localize("UTC") if moment.tz is None else moment.tz_convert("UTC")
    return (moment - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


def made_of(column, kind):
    """The features of one column, NaN where there is no value."""
    if kind == "number":
        return column.astype("float64").to_frame()
    column = column.str.strip().replace({"": None, "NA": None})
    if kind == "bool":
        return (
            column.map(lambda text: text.lower() in ("true", "1", "yes"), na_action="ignore").astype(float).to_frame()
        )
    if kind == "time":
        return column.map(days, na_action="ignore").astype("float64").to_frame()
    names = sorted(column.dropna().unique())
    if kind == "code":
        return column.map(lambda text: names.index(text) + 1.0, na_action="ignore").astype(float).to_frame()
    dummies = pd.get_dummies(column).reindex(columns=names).astype(float)
    dummies[column.isna()] = np.nan
    return dummies


def expected(order, found, kinds, missing, standardize, training):
    """The features of the vertices in that order, as a pandas user would make them; None where there are none."""
    columns = []
    for table in found:
        table = table.set_index("id")
        for name in table.columns:
            if kinds[name] == "skip":
                continue
            values = made_of(table[name], kinds[name]).reindex(order).astype(float)
            if kinds[name] in ("category", "code") and not table[name].str.strip().replace("NA", "").any():
                return None
            some = values.loc[training] if training else values
            is_filled = missing == "mean" and kinds[name] != "code"
            takes = is_filled or (standardize and kinds[name] in ("number", "time"))
            if takes and some.isna().all().any():
                return None
            values = values.fillna(some.mean() if is_filled else 0.0)
            if standardize and kinds[name] in ("number", "time"):
                deviation = some.std(ddof=0).where(lambda d, s=some: d > 1e-12 * s.mean().abs(), 1.0)
                values = (values - some.mean()) / deviation
            columns.append(values)
        if all(kinds[name] == "skip" for name in table.columns):
            return None
    return pd.concat(columns, axis=1).to_numpy()


@settings(max_examples=60)
@given(tables())
def test_joins_are_those_of_pandas(drawn):
    named, ids, found, kinds, missing, standardize, training = drawn
    order = ids if named else [str(i) for i in range(len(ids))]  # names in the order of appearance
    with tempfile.TemporaryDirectory() as folder, mock.patch("gsplit.data.columns.assembled.ROWS_AT_ONCE", 2):
        place = Path(folder)
        edges = pd.DataFrame({"src": ids, "dst": [*ids[1:], ids[0]]})
        edges.to_csv(place / "edges.csv", index=False)
        for at, table in enumerate(found):
            table.to_csv(place / f"{at}.csv", index=False)
        pd.DataFrame({"id": ids, "y": 0}).to_csv(place / "y.csv", index=False)
        pd.DataFrame({"id": training or ids[:0]}).to_csv(place / "train.csv", index=False)
        options = {
            "ids": "any" if named else "whole",
            "num_vertices": None if named else len(ids),
            "features": [place / f"{at}.csv" for at in range(len(found))],
            "columns": [f"{name}:{kind}" for name, kind in kinds.items()],
            "labels": place / "y.csv",
            "missing": missing,
            "unknown": "drop",
            "standardize": standardize,
        }
        if training:
            options["train"] = place / "train.csv"
        wanted = expected(order, found, kinds, missing, standardize, training)
        if wanted is None:
            with pytest.raises(InputError, match=r"no value of any|is empty|no column of features beside"):
                gsplit.import_graph(place / "edges.csv", place / "g", **options)
            return
        graph = gsplit.import_graph(place / "edges.csv", place / "g", **options).graph
        np.testing.assert_allclose(graph.features, wanted, rtol=2e-5, atol=2e-5)
