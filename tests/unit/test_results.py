"""The tables of docs/results are those of their data, and a change of either is noticed."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from support.messages import line_with

from tools import pictures, results

PAGES = [results.DOCS / "results.md", *sorted((results.DOCS / "results").glob("*.md"))]
RECORDS = {path.stem for path in (results.DOCS / "results" / "data").glob("*.json")} - {"machines"}


@pytest.fixture
def docs(tmp_path):
    """A copy of the pages and their data."""
    shutil.copytree(results.DOCS / "results", tmp_path / "results")
    shutil.copy(results.DOCS / "results.md", tmp_path)
    return tmp_path


def test_the_pages_are_what_their_data_give():
    assert results.main(["--check"]) == 0
    assert results.main(["--chekc"]) == 2


def test_lines_are_short():
    lines = [(path.name, line) for path in PAGES for line in path.read_text().splitlines()]
    assert [(name, line) for name, line in lines if len(line) > results.WIDTH] == []
    assert len(PAGES[0].read_text().splitlines()) < 70  # a front page


def test_every_record_stands_on_a_page_with_its_command():
    text = "".join(path.read_text() for path in PAGES)
    assert set(re.findall(r"<!-- about (\w+)", text)) == RECORDS
    assert set(re.findall(r"<!-- table (\w+)\.", text)) == RECORDS


def test_every_page_is_linked_to():
    linked = set(re.findall(r"\(results/(\w+)\.md\)", PAGES[0].read_text()))
    assert linked == {path.stem for path in PAGES[1:]}


@pytest.mark.sources
def test_files_that_the_pages_name_are_there():
    named = {
        name
        for path in PAGES
        for name in re.findall(r"`((?:gsplit|tests|tools|experiments)/[\w/.]+)`", path.read_text())
    }
    assert len(named) > 15
    assert [name for name in named if not (results.DOCS.parent / name).exists()] == []


def test_a_change_of_the_data_or_of_a_page_is_noticed(docs):
    assert results.stale(docs) == {}
    data = docs / "results" / "data" / "presets.json"
    record = json.loads(data.read_text())
    record["tables"]["presets"][0]["redundancy_percent"] = 99.9
    data.write_text(json.dumps(record))
    found = results.stale(docs)
    assert {path.name for path in found} == {"results.md", "presets.md"}  # the figure has one home
    assert all("99.9 %" in text for text in found.values())
    for path, text in found.items():
        path.write_text(text)
    assert results.stale(docs) == {}
    page = docs / "results" / "loading.md"
    page.write_text(page.read_text().replace("1.49 (", "1.48 ("))
    assert list(results.stale(docs)) == [page]


def test_a_change_of_the_data_of_a_picture_is_noticed(docs):
    assert results.undrawn(docs) == {}
    data = docs / "results" / "data" / "comparison_avx2.json"
    record = json.loads(data.read_text())
    changed = record["tables"]["accuracy"][0]
    assert changed["valid_accuracy"] != 0.9
    changed["valid_accuracy"] = 0.9
    data.write_text(json.dumps(record))
    found = results.undrawn(docs)
    assert [path.name for path in found] == ["accuracy-by-time.svg"]
    for path, (spec, rows) in found.items():
        pictures.draw(path, rows, spec)
        assert path.read_text().count("<path") > 10
    assert results.undrawn(docs) == {}
    (docs / "results" / "pictures" / "accuracy-by-time.svg").unlink()
    assert [path.name for path in results.undrawn(docs)] == ["accuracy-by-time.svg"]


def test_lines_of_a_picture():
    rows = [
        {"system": "a", "seconds": 4.0, "score": 0.5, "graph": "x"},
        {"system": "a", "seconds": 2.0, "score": 0.25, "graph": "x"},
        {"system": "b", "seconds": 3.0, "score": 0.75, "graph": "x"},
        {"system": "b", "seconds": 9.0, "score": None, "graph": "x"},
        {"system": "a", "seconds": 1.0, "score": 0.0, "graph": "y"},
    ]
    spec = dict.fromkeys(pictures.KEYS, "") | {"x": "seconds", "y": "score", "by": "system", "where": {"graph": "x"}}
    assert pictures.lines_of(rows, spec) == {"a": [(2.0, 0.25), (4.0, 0.5)], "b": [(3.0, 0.75)]}
    over = {**spec, "over": {"x": "seconds", "system": "a"}}
    assert pictures.lines_of(rows, over) == {"a": [(1.0, 0.25), (2.0, 0.5)], "b": [(1.5, 0.75)]}
    with pytest.raises(ValueError, match="must have alt"):
        pictures.lines_of(rows, {key: value for key, value in spec.items() if key != "alt"})
    with pytest.raises(ValueError, match="no row has"):
        pictures.lines_of(rows, {**spec, "where": {"graph": "z"}})


def test_a_record_says_where_it_is_from(docs):
    data = docs / "results" / "data" / "mutants.json"
    record = json.loads(data.read_text())
    data.write_text(json.dumps({**record, "source": "from memory"}))
    with pytest.raises(ValueError, match="a source of"):
        results.stale(docs)


def test_cells():
    rows = {"rows": [{"a": 1, "b": None}, {"a": 2, "b": [1.25, 2]}]}
    assert results.Cells().vformat("{rows[a=1][b]} {rows[a=2][b]:.1f}", (), rows) == "- 1.2, 2.0"
    with pytest.raises(ValueError, match=line_with("0 rows, a=3")):
        results.row_of(rows["rows"], "a=3")


def test_a_long_command_is_one_for_the_shell():
    command = "python -m experiments.x " + " ".join(f"--flag-{i} {i}" for i in range(20))
    wrapped = results.wrapped(command)
    assert max(map(len, wrapped.splitlines())) <= results.WIDTH
    assert re.sub(r" \\\n +", " ", wrapped) == command
