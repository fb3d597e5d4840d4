"""Times of tables, as features and to split by: right ones by datetime and pandas, from text and Parquet."""

from __future__ import annotations

import logging
import random
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.messages import says

import gsplit
from gsplit.data.__main__ import command
from gsplit.data.importers.tables.times import days_of
from gsplit.errors import InputError

STAMPS = pd.Series(pd.date_range("2001-09-09 01:46:41", "2023-05-06 07:08:09", 6).round("s"))
SECONDS = ((STAMPS - pd.Timestamp(0)) // pd.Timedelta("1s")).to_numpy()
EACH = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def days(stamps: pd.Series) -> np.ndarray:
    return ((stamps - pd.Timestamp(0)) / pd.Timedelta("1D")).to_numpy()


@pytest.fixture
def table(table_file):
    """table(name=values, ...): a file with these columns beside ids, which count from ``first``."""

    def write(first=0, **columns):
        rows = len(next(iter(columns.values())))
        return table_file(f"{'_'.join(columns)}{first}", {"id": np.arange(first, first + rows), **columns})

    return write


@pytest.fixture
def store(tmp_path):
    """store(**options): what an import of six vertices makes."""
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{v},{(v + 1) % 6}\n" for v in range(6)))
    return lambda name="store", **options: gsplit.import_graph(edges, tmp_path / name, **options)


def refusal(store, **options) -> InputError:
    with pytest.raises(InputError) as caught:
        store(**options)
    return caught.value


@pytest.mark.parametrize("unit", EACH)
@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_numbers_since_1970(store, table, caplog, unit, said, dtype):
    path = table(at=(SECONDS * EACH[unit]).astype(dtype))
    with caplog.at_level(logging.INFO):
        made = store(features=path, columns=(f"at:time({unit})" if said else "at:time",))
    assert np.array_equal(made.graph.features[:, 0], days(STAMPS).astype(np.float32))
    assert made.description["columns"][0]["form"] == unit
    told = f"{path}: column at: numbers taken as {WORDS[unit]} since 1970, from 2001-09-09T01:46:41 to 2023-05-06"
    assert (told in caplog.text) is not said


NOT_TOLD = {
    "dates": [20240731, 20240801, 20240802],
    "minutes": [202407311800, 202408011800, 202512312359],
    "hours": [2034073118, 2034073119, 2034080100],
    "years": [1999, 2024, 2025],
    "a zero": [0, 1_700_000_000, 1_700_000_001],
    "two units": [1_700_000_000, 1_700_000_001, 1_700_000_000_000],
}


@pytest.mark.parametrize("name", NOT_TOLD)
def test_numbers_whose_unit_is_not_told(store, table, name):
    values = NOT_TOLD[name] * 2
    error = refusal(store, features=table(at=values), columns=("at:time",))
    says(error, f"column at, {min(values)}, {max(values)}, at:time(s), time(ns), at:time(%Y%m%d), --gaps")


def test_numbers_that_are_gaps_are_no_times(store, table):
    path = table(at=[0, *SECONDS[1:].tolist()])
    made = store(features=path, columns=("at:time",), gaps=("0",), missing="zero").graph.features[:, 0]
    assert np.array_equal(made, np.array([0, *days(STAMPS)[1:]], np.float32))


@pytest.mark.parametrize("value", [253_402_300_800, -62_135_596_801, 1e30, 2**62])
def test_numbers_beyond_all_years(store, table, value):
    path = table(at=[0, 1, 2, value, 3, 4])
    place = "line 5" if path.suffix == ".csv" else "row 3"
    says(refusal(store, features=path, columns=("at:time(s)",)), f"{path}, {place}, seconds, 1 to 9999, at")
    fine = table(t=[0, 1, 253_402_300_799, -62_135_596_800, 3, 4])
    got = store(features=fine, columns=("t:time(s)",)).graph.features[2:4, 0]
    wanted = [(datetime(*end) - datetime(1970, 1, 1)).total_seconds() / 86_400 for end in ((9999, 12, 31), (1, 1, 1))]
    assert np.abs(got - wanted).max() <= 1


FAR = ["0001-01-01", "1500-02-28", "1677-09-21", "2262-04-12", "9999-12-31", "1969-12-31"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "text"])
def test_years_far_from_now(store, table, unit):
    values = FAR if unit == "text" else pa.array(np.array(FAR, "datetime64[s]")).cast(pa.timestamp(unit))
    got = store(features=table(at=values), columns=("at:time",)).graph.features[:, 0]
    assert np.array_equal(got, [datetime.fromisoformat(day).toordinal() - 719_163 for day in FAR])


def test_nanoseconds_of_parquet_as_far_as_they_go(store, tmp_path):
    ends = [-(2**63) + 1, 2**63 - 1, 0, 10**12, -(10**13), 10**18]
    pa.parquet.write_table(
        pa.table({"id": range(6), "at": pa.array(ends, pa.timestamp("ns"))}), tmp_path / "x.parquet"
    )
    got = store(features=tmp_path / "x.parquet", columns=("at:time",)).graph.features[:, 0]
    assert np.array_equal(got, (np.array(ends) / 86_400e9).astype(np.float32))


@pytest.mark.parametrize("value", ["0000-00-00", "10000-01-01", "2023-02-29", "-0001-01-01"])
def test_days_that_there_are_not(store, table, value):
    path = table(at=["2024-02-29", value] * 3)
    place = "line 3" if path.suffix == ".csv" else "row 1"
    says(refusal(store, features=path, columns=("at:time",)), f"{path}, {place}, {value}, at, when:time(%d.%m.%Y)")


FORMS = (
    "%d.%m.%Y",
    "%m/%d/%Y %H:%M",
    "%d %b %Y, %I:%M:%S %p",
    "%A, %d. %B %Y",
    "%Y%m%d",
    "%y%m%d %H",
    "%j/%Y",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%d.%m.%y %H:%M UTC",
    "100%% %Y",
)


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_those_of_strptime(form):
    """Also of texts in which a letter is wrong, which are times or not as for Python."""
    rng, texts, wanted = random.Random(form), [], []
    for _ in range(150):
        zone = timezone(timedelta(minutes=rng.randint(-800, 800)))
        year = rng.choice([rng.randint(1000, 9999), rng.randint(1969, 2068)])
        moment = datetime(year, rng.randint(1, 12), rng.randint(1, 28), tzinfo=zone)
        text = (moment + timedelta(microseconds=rng.randint(0, 86_400 * 10**6))).strftime(form)
        if rng.random() < 0.3:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice("0123 .-xA") + text[at + rng.randint(0, 1) :]
        texts.append(text.strip())
        try:
            found = datetime.strptime(texts[-1], form)
        except ValueError:
            wanted.append(None)
            continue
        found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        wanted.append((found - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(days=1))
    good = [at for at, day in enumerate(wanted) if day is not None]
    got, bad = days_of(pa.array([texts[at] for at in good], pa.large_string()), form)
    assert bad is None
    np.testing.assert_allclose(got, [wanted[at] for at in good], rtol=3e-16)
    for at, day in enumerate(wanted):
        if day is None:
            assert days_of(pa.array([texts[at]], pa.large_string()), form)[1] == 0, texts[at]


@pytest.mark.parametrize("form", FORMS[:5])
def test_features_of_a_form(store, table, form):
    texts = STAMPS.dt.strftime(form)
    made = store(features=table(at=texts), columns=(f"at:time({form})",))
    wanted = days(pd.to_datetime(texts, format=form)).astype(np.float32)
    assert np.array_equal(made.graph.features[:, 0], wanted)
    assert made.description["columns"][0]["form"] == form


def test_digits_in_parquet_have_a_form(store, table):
    made = store(features=table(at=[20240731, 19991231] * 3), columns=("at:time(%Y%m%d)",)).graph.features[:, 0]
    assert made[:2].tolist() == [19_935, 10_956]


def test_the_place_of_what_is_not_of_the_form(store, table):
    path = table(at=["31.12.2023", "", "NA", "30.02.2023", "31.12.2023", "1.1.2024"])
    place = "line 5" if path.suffix == ".csv" else "row 3"
    options = {"features": path, "columns": ("at:time(%d.%m.%Y)",), "missing": "zero"}
    says(refusal(store, **options), f"{path}, {place}, 30.02.2023, form %d.%m.%Y, column at")


WRONG = {
    "at:time(h)": "time(...), ns (nanoseconds), %d.%m.%Y, 'h'",
    "at:time()": "time(...), ''",
    "at:time(%d.%m)": "%Y, %d.%m",
    "at:time(%H:%M)": "%Y",
    "at:time(%Y %m %Y)": "redefinition, Y",
    "at:time(%Y %Z)": "%Z, %z",
    "at:time(%Y %d)": "day, month",
    "at:time(%Y %p)": "%I, %p",
    "at:time(%Y %I)": "%I, %p",
    "at:time(%Y %U)": "%U, %Y",
    "at:time(%Y%)": "%Y, %d",
    "at:number(ms)": "number, parentheses, time",
    "at:time(ms)(s)": "NAME:KIND",
    "at:time(%Y": "NAME:KIND",
    ":time(%Y)": "NAME:KIND",
}


@pytest.mark.parametrize("word", WRONG)
def test_forms_that_are_none(store, word):
    with pytest.raises(InputError) as caught:
        store(features="x.csv", columns=(word,))
    says(caught.value, "--columns", WRONG[word])
    if word.startswith("at:time") and "NAME" not in WRONG[word]:
        with pytest.raises(InputError) as caught:
            store(labels="x.csv", split_by=word, split=("2024-01-01", "2024-02-01"))
        says(caught.value, "--split-by", WRONG[word])


@pytest.mark.parametrize("kind", ["time", "time(ms)", "time(%d.%m.%Y)"])
def test_what_is_added_is_of_the_kind_that_there_was(store, table, tmp_path, kind):
    def written(stamps, each):
        return stamps.dt.strftime("%d.%m.%Y") if "%" in kind else ((stamps - pd.Timestamp(0)) // pd.Timedelta(each))

    stamps = STAMPS.dt.floor("D")
    old = store(features=table(at=written(stamps, "1ms")), columns=(f"at:{kind}",))
    (tmp_path / "new.csv").write_text("6,0\n7,1\n")
    new = pd.Series(pd.to_datetime(["1970-01-02", "2024-02-29"]))
    options = {"add": tmp_path / "new.csv", "features": table(first=6, at=written(new, "1ms"))}
    grown = gsplit.import_graph(old.path, tmp_path / "grown", **options)
    assert grown.graph.features[:, 0].tolist() == [*days(stamps), *days(new)]
    assert grown.description["columns"] == old.description["columns"]
    wrong = pd.Series(["2024-07-31", "2024-08-01"]) if "%" in kind else written(new, "1ns")
    options["features"] = table(first=6, at=wrong)
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(old.path, tmp_path / "wrong", **options)
    says(caught.value, f"{options['features']}, column at, {'form %d.%m.%Y' if '%' in kind else 'milliseconds'}")


def test_a_form_in_a_damaged_description(store, table, tmp_path):
    old = store(features=table(at=SECONDS), columns=("at:time(s)",))
    description = old.path / "graph.json"
    description.write_text(description.read_text().replace('"form": "s"', '"form": "h"'))
    (tmp_path / "new.csv").write_text("6,0\n")
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(old.path, tmp_path / "grown", add=tmp_path / "new.csv", features=table(first=6, at=[1]))
    says(caught.value, "graph.json, damaged")


SPLITS = {
    "told": (SECONDS, "at:time", ()),
    "said": (SECONDS * 1000, "at:time(ms)", ()),
    "of a form": (STAMPS.dt.strftime("%d/%m/%Y, %H:%M"), "at:time(%d/%m/%Y, %H:%M)", ()),
    "by --columns": (SECONDS * 10**9, "at", ("at:time(ns)",)),
    "--split-by wins": (SECONDS, "AT:time(s)", ("at:number",)),
}


@pytest.mark.parametrize("name", SPLITS)
def test_sets_by_times(store, table, name):
    values, split_by, columns = SPLITS[name]
    path = table(at=values, y=np.arange(6) % 2)
    bounds = ("2010-05-01", "2019-01-01")
    options = {"features": path, "label_column": "y", "columns": columns or ("at:code",)}
    graph = store(**options, split_by=split_by, split=bounds).graph
    stamps, (first, second) = STAMPS, map(pd.Timestamp, bounds)
    for ids, wanted in (
        (graph.train_idx, stamps < first),
        (graph.valid_idx, (stamps >= first) & (stamps < second)),
        (graph.test_idx, stamps >= second),
    ):
        assert ids.tolist() == np.flatnonzero(wanted).tolist()
        assert len(ids)


def test_numbers_to_split_by_are_numbers_unless_they_are_said_to_be_times(store, table):
    options = {"labels": table(y=[0, 1] * 3, at=SECONDS), "label_column": "y"}
    graph = store("numbers", **options, split_by="at", split=(1_200_000_000, 1_500_000_000)).graph
    assert graph.train_idx.tolist() == np.flatnonzero(SECONDS < 1_200_000_000).tolist()
    says(refusal(store, **options, split_by="at:bool", split=(1, 2)), "--split-by at:bool, number, time")
    says(refusal(store, **options, split_by="at:time", split=(1, 2)), "--split 1, dates, 2024-07-31")


def test_a_column_to_split_by_with_a_kind_is_no_feature(store, table):
    path = table(x=np.arange(6) * 0.5, at=SECONDS, y=[0, 1] * 3)
    options = {"features": path, "label_column": "y", "split": ("2010-01-01", "2020-01-01")}
    assert store(**options, split_by="at:time(s)").graph.features.ravel().tolist() == [0, 0.5, 1, 1.5, 2, 2.5]


def test_commas_in_parentheses_are_of_a_form(store, tmp_path):
    (tmp_path / "x.csv").write_text('id,at,n\n0,"Jul 31, 2024",1\n1,"Aug 1, 2024",2\n')
    (tmp_path / "e.csv").write_text("0,1\n")
    words = ["--columns", "at:time(%b %d, %Y),n:number", "--out", str(tmp_path / "out")]
    command(["import", str(tmp_path / "e.csv"), "--features", str(tmp_path / "x.csv"), *words])
    assert gsplit.data.open_store(tmp_path / "out").graph.features.tolist() == [[19_935, 1], [19_936, 2]]
