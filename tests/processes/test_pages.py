"""A page of runs, as a reader sees it: its pictures are there, its numbers are those of the runs, nothing is fetched.

It is looked at in a headless Chromium where ``tools.browser`` finds one, and with a parser; the names of the tests
say which. The numbers are computed from ``metrics.jsonl`` once more.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from support.pages import WAYS, look_at
from support.runs import config_for, records

import gsplit
from gsplit.report import __main__ as report

PICTURES = [
    *("Loss", "Accuracy", "Macro-F1", "A trainer's time", "Ahead of it, at the same time"),
    *("Bytes an epoch, all trainers", "Shares of the trainers: {}", "Feature rows needed in an epoch"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory, layouts, in_pool):
    """Two runs, with 3 and 2 trainers, and their pages: one of the first, and one of both."""
    folder = tmp_path_factory.mktemp("pages")
    flags = {"metrics": "accuracy,macro-f1", "epochs": 3}
    with in_pool():
        gsplit.train(config=config_for(layouts(3).path, folder / "split", cache_size="20%", **flags))
        gsplit.train(config=config_for(layouts(2).path, folder / "data", strategy="data", **flags))
    report.command([str(folder / "split"), "--out", str(folder / "one.html")])
    report.command([str(folder / "split"), str(folder / "data"), "--out", str(folder / "two.html")])
    return folder


@pytest.fixture(scope="module", params=WAYS)
def seen(request, place):
    """Both pages, seen in one way."""
    return look_at([place / "one.html", place / "two.html"], request.param)


@pytest.fixture
def one(seen):
    return seen[0]


@pytest.fixture
def two(seen):
    return seen[1]


def summed(run, key, **those):
    found = [each for each in records(run, "mini-batch") if those.items() <= each.items()]
    return sum(each["traffic"][key] for each in found)


def test_pictures_are_there_and_nothing_is_fetched(one, two):
    for page, names in ((one, ["split"]), (two, ["split", "data"])):
        labels = [label for label in PICTURES if "{}" not in label] + [
            f"{PICTURES[6].format(name)}" for name in names
        ]
        assert sorted(each["label"] for each in page.pictures) == sorted(labels)
        for each in page.pictures:
            assert min(each["width"], 3 * each["height"]) >= 200, each["label"]
            assert each["drawn"] >= 2, each["label"]
            assert len(each["texts"]) >= 5, each["label"]
        assert page.fetched == []
        assert page.title == f"GSplit: {' · '.join(names)}"


def test_it_has_the_results(one, place):
    summary = json.loads((place / "split" / "summary.json").read_text())
    for part in ("test", "valid"):
        assert one.rows(f"{part} accuracy") == [[f"{summary[f'{part}_accuracy']:.4f}"]]
        assert one.rows(f"{part} macro-F1") == [[f"{summary[f'{part}_macro_f1']:.4f}"]]
    assert one.rows("model kept, of epoch") == [[str(summary["model_epoch"])]]
    for epoch in records(place / "split"):
        keys = ("loss", "train_accuracy", "valid_accuracy", "train_macro_f1", "valid_macro_f1")
        assert [*(f"{epoch[key]:.4f}" for key in keys), f"{epoch['seconds']:.3f}"] in one.rows(str(epoch["epoch"]))


@pytest.mark.parametrize("key", ["loss", "valid_accuracy", "train_macro_f1"])
def test_curves_go_through_the_epochs(two, place, key):
    """Heights on the page are the values, seconds and epochs the places, up to a scale."""
    for by in ("epoch", "time"):
        at, values, drawn = [], [], []
        for index, name in enumerate(("split", "data")):
            epochs = records(place / name)
            seconds = np.cumsum([epoch["seconds"] for epoch in epochs])
            at += [epoch["epoch"] for epoch in epochs] if by == "epoch" else seconds.tolist()
            values += [epoch[key] for epoch in epochs]
            points = re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", two.lines[f"{key}-by-{by}-{index}"])
            assert len(points) == len(epochs)
            drawn += points
        x, y = np.array(drawn, float).T
        for seen, given, sign in ((x, at, 1), (y, values, -1)):
            slope, start = np.polyfit(given, seen, 1)
            assert slope * sign > 0
            np.testing.assert_allclose(start + slope * np.array(given), seen, atol=1e-2)


def test_it_counts_as_the_mini_batches_do(one, place):
    run, epochs = place / "split", 3
    for key in ("computed_edges", "host_rows", "cache_hits", "exchange_forward_messages"):
        assert one.rows(key.replace("_", " ")) == [[f"{summed(run, key) / epochs:,.0f}"]]
    num_bytes = summed(run, "exchange_forward_bytes") / epochs
    assert one.rows("exchange forward bytes")[0][0].endswith(f"({num_bytes:,.0f})")
    by_trainer = [summed(run, "computed_edges", trainer=rank) for rank in range(3)]
    assert one.rows("edges computed") == [[f"{edges:,}" for edges in by_trainer]]
    (shares,) = [each["texts"] for each in one.pictures if each["label"].startswith("Shares")]
    assert {f"{3 * edges / sum(by_trainer):.3f}" for edges in by_trainer} <= set(shares)
    hits, host = summed(run, "cache_hits"), summed(run, "host_rows")
    assert one.rows("from: own cache") == [[f"{100 * hits / (hits + host):.1f} %"]]
    assert 0 < hits < hits + host
    skews = []
    for epoch in (1, 2, 3):
        for batch in {each["batch"] for each in records(run, "mini-batch")}:
            edges = [summed(run, "computed_edges", epoch=epoch, batch=batch, trainer=rank) for rank in range(3)]
            skews.append((max(edges) - min(edges)) / np.mean(edges))
    assert one.rows("edge skew of a mini-batch") == [[f"{np.mean(skews):.3f}"]]


def test_stages_are_means_of_the_epochs(one, place):
    epochs = records(place / "split")
    mean = {name: np.mean([epoch["stages"][name] for epoch in epochs]) for name in epochs[0]["stages"]}
    for name, seconds in mean.items():
        assert one.rows(name) == [[f"{seconds:.3f} s"]]
    (texts,) = [each["texts"] for each in one.pictures if each["label"] == "A trainer's time"]
    assert f"{sum(mean[name] for name in ('wait', 'forward', 'backward', 'reduce', 'step')):.3g} s" in texts
    assert {"mean", "trainer 0", "trainer 1", "trainer 2"} <= set(texts)


def test_runs_stand_beside_each_other(two, place):
    summaries = [json.loads((place / name / "summary.json").read_text()) for name in ("split", "data")]
    assert two.rows("test accuracy") == [[f"{summary['test_accuracy']:.4f}" for summary in summaries]]
    assert two.rows("--strategy") == [["split", "data"]]
    different, same = two.tables[-2:]
    assert ["--cache-size", "20%", "–"] in different  # noqa: RUF001
    assert ["--hidden", "8", "8"] in same
    assert not {row[0] for row in different[1:]} & {row[0] for row in same[1:]}
