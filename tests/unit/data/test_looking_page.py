"""The page of gsplit info: its figures are those of the graph, nothing is fetched, and no file is lost to it.

It is looked at in a headless Chromium where ``tools.browser`` finds one, and with a parser.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph, regression_graph
from support.pages import WAYS, look_at

from gsplit.data import write_store
from gsplit.data.__main__ import command
from gsplit.errors import InputError

NAMES = ("red & <b>", "green", "blue")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Pages of a store with odd names and of its layout, of a regression, and of many classes without features."""
    folder = tmp_path_factory.mktemp("looking")
    graph = random_graph(200, 8, classes=3, features=20)
    graph.features[:, 4] = 2
    graph = replace(graph, classes=NAMES)
    layout = lay_out(graph, folder, parts=2)
    write_store(folder / "numbers", regression_graph(60, 3), name="numbers", source="test")
    many = replace(random_graph(200, 3, classes=150), features=None)
    write_store(folder / "many", many, name="many", source="test")
    for path, name in ((folder / "store", "store"), (layout.path, "layout"), (folder / "numbers", "numbers")):
        command(["info", str(path), "--html", str(folder / f"{name}.html")])
    command(["info", str(folder / "many"), "--html", str(folder / "many.html")])
    return folder, graph


@pytest.fixture(scope="module", params=WAYS)
def seen(request, place):
    """name -> what a reader sees, in one way."""
    names = ("store", "layout", "numbers", "many")
    return dict(zip(names, look_at([place[0] / f"{name}.html" for name in names], request.param), strict=True))


def test_nothing_is_fetched_and_pictures_are_there(seen):
    for name, page in seen.items():
        assert page.fetched == []
        assert page.title == f"GSplit: {'test' if name in ('store', 'layout') else name}"
        labels = {"numbers": [], "many": ["The 30 largest classes"]}.get(name, ["Vertices by class"])
        assert [each["label"] for each in page.pictures] == ["Vertices by in-degree", *labels]
        for each in page.pictures:
            assert min(each["width"], 3 * each["height"]) >= 200
            assert each["drawn"] >= 3


def test_it_has_the_figures(seen, place):
    _, graph = place
    degrees = np.diff(graph.indptr)
    for name in ("store", "layout"):
        page = seen[name]
        assert f"{graph.num_edges:,}" in page.text
        assert page.rows("0") == [
            [f"{(degrees == 0).sum()}", f"{(degrees == 0).mean():.1%}".replace("%", " %")],
            *page.rows("0")[1:],
        ]
        for at, class_name in enumerate(NAMES):
            counts = [(graph.labels == at).sum()]
            counts += [(graph.labels[ids] == at).sum() for ids in (graph.train_idx, graph.valid_idx, graph.test_idx)]
            (row,) = (
                row[1:] for table in page.tables for row in table if " ".join(row[0].split()) == f"{at} {class_name}"
            )
            assert [row[0], *row[2:]] == [f"{count:,}" for count in counts]
        least = f"{float(graph.features[:, 19].min()):.4g}"
        assert [row[0] for row in page.rows("19")] == [least]
        assert "feature 4 is the same for all vertices, and tells nothing" in page.text
        assert ("Partition" in page.text) == (name == "layout")
    assert seen["layout"].rows("vertices per part")


def test_a_regression_and_many_classes(seen, place):
    assert len(seen["numbers"].rows("1")) >= 2
    assert "outputs of a regression" in seen["numbers"].text
    assert "150 classes in numbers" in seen["many"].text
    assert "Features" not in seen["many"].text


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("store", "--html", "there.html"),
            "--html there.html exists already; choose another file or add --overwrite",
        ),
        (("store", "--html", "link.html"), "--html link.html exists already"),
        (("store", "--html", "missing/page.html"), "--html missing/page.html: cannot write to missing: No such file"),
        (("store", "--html", "numbers", "--overwrite"), "--html numbers is a folder"),
        (("store", "--overwrite"), "--overwrite is for the page of --html FILE, and there is none"),
        (("nowhere", "--html", "new.html"), "nowhere is not a folder: no such path"),
        (("there.html", "--html", "new.html"), "there.html is not a folder, it is a file"),
        (("damaged", "--html", "new.html"), r"features.npy is truncated or changed"),
    ],
)
def test_mistakes_are_a_line_and_write_nothing(place, monkeypatch, words, message):
    folder, _ = place
    monkeypatch.chdir(folder)
    if not (folder / "damaged").exists():
        write_store("damaged", random_graph(9, 1), name="damaged", source="test")
        (folder / "damaged" / "features.npy").write_bytes(b"")
        (folder / "there.html").write_text("mine")
        (folder / "link.html").symlink_to("nothing")
    before = files(folder)
    with pytest.raises(InputError, match=message):
        command(["info", *words])
    assert files(folder) == before
    assert os.path.lexists("link.html")


def test_overwrite_replaces_the_page(place, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    command(["info", str(place[0] / "store"), "--html", str(page), "--overwrite"])
    assert page.read_text() == (place[0] / "store.html").read_text()
    assert list(tmp_path.iterdir()) == [page]
