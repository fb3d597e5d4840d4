"""Rules of tables that a store keeps: what is added is read as all at once would be, without the flags."""

from __future__ import annotations

import json
import logging

import pandas as pd
import pytest
from support.stores import assert_equal_graphs

import gsplit
from gsplit.errors import InputError

RULES = {"quote": "none", "strip": True, "unlabelled": ["unknown", "?"]}
EDGES = [('"Ann', " Bob"), ("Bob ", "Cid"), ("Cid", '"Ann'), ("Dan", "Bob"), (" Ann", "Dan "), ("Bob", '"Ann ')]
LABELS = {'"Ann': "a", "Bob": "unknown", "Cid": "b", "Dan": "?", "Ann": "b"}
STEPS = (slice(0, 3), slice(3, 4), slice(4, None))


@pytest.fixture
def written(tmp_path):
    """written(slice): an edge list of some of the edges, and a table of labels of the ids that are new there."""

    def write(part):
        edges, labels = tmp_path / f"edges{part.start}.csv", tmp_path / f"labels{part.start}.csv"
        edges.write_text("src,dst\n" + "".join(f"{a},{b}\n" for a, b in EDGES[part]))
        seen = {name.strip() for pair in EDGES[: part.start] for name in pair}
        new = dict.fromkeys(name.strip() for pair in EDGES[part] for name in pair if name.strip() not in seen)
        labels.write_text("id,y\n" + "".join(f"{name} ,{LABELS[name]}\n" for name in new))
        return edges, labels

    return write


@pytest.fixture
def first(written, tmp_path):
    edges, labels = written(STEPS[0])
    return gsplit.import_graph(edges, tmp_path / "first", ids="any", labels=labels, **RULES)


def test_steps_equal_one_import(first, written, tmp_path, caplog):
    at_once = gsplit.import_graph(
        written(slice(0, None))[0], tmp_path / "once", ids="any", labels=written(slice(0, None))[1], **RULES
    )
    store = first
    caplog.set_level(logging.INFO)
    for number, step in enumerate(STEPS[1:]):
        edges, labels = written(step)
        store = gsplit.import_graph(store.path, tmp_path / f"step{number}", add=edges, labels=labels)
    assert_equal_graphs(store.graph, at_once.graph)
    assert store.ids().of(range(5)) == at_once.ids().of(range(5)) == [['"Ann', "Bob", "Cid", "Dan", "Ann"]]
    assert {name: store.description[name] for name in RULES} == RULES
    said = f"{first.path}: its tables were read with --unlabelled unknown,'?' --quote none --strip, and so are those"
    assert said.replace("unknown,'?'", "'unknown,?'") in caplog.text


def test_a_word_more_is_kept_too(first, written, tmp_path):
    edges, labels = written(STEPS[1])
    labels.write_text("id,y\nDan,nobody knows\n")
    store = gsplit.import_graph(first.path, tmp_path / "more", add=edges, labels=labels, unlabelled=["nobody knows"])
    assert store.graph.labels.tolist() == [0, -1, 1, -1]
    assert store.description["unlabelled"] == ["unknown", "?", "nobody knows"]
    assert gsplit.import_graph(store.path, tmp_path / "copy").description["quote"] == "none"


def test_what_a_store_was_read_without_holds_for_one_step(written, tmp_path):
    edges, _ = written(slice(0, 3))
    store = gsplit.import_graph(edges, tmp_path / "plain", ids="any", quote="'")
    more, _ = written(STEPS[1])
    grown = gsplit.import_graph(store.path, tmp_path / "grown", add=more, strip=True)
    assert {name: grown.description[name] for name in RULES if name in grown.description} == {"quote": "'"}
    assert " Bob" in grown.ids().of([1])[0]


def test_contradictions_are_a_line(first, written, tmp_path):
    edges, labels = written(STEPS[1])
    options = {"add": edges, "labels": labels}
    for flags, line in (
        ({"quote": "'"}, rf"--quote ' with --add: the tables of {first.path} were read with --quote none; drop it"),
        ({"unlabelled": ["b"]}, rf"--unlabelled b with --add: b is a class of {first.path}; drop it, or import"),
    ):
        with pytest.raises(InputError, match=line):
            gsplit.import_graph(first.path, tmp_path / "grown", **options, **flags)


@pytest.mark.parametrize(
    "damaged", [{"quote": 1}, {"quote": "x"}, {"strip": "yes"}, {"unlabelled": [1]}, {"gaps": "a"}]
)
def test_damaged_entries_are_named(first, written, tmp_path, damaged):
    path = first.path / "graph.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damaged))
    with pytest.raises(InputError, match=rf"{path} is damaged .* how its tables were read: {next(iter(damaged))}"):
        gsplit.import_graph(first.path, tmp_path / "grown", add=written(STEPS[1])[0])


def test_frames_keep_theirs(tmp_path):
    edges = pd.DataFrame(EDGES, columns=["src", "dst"])
    store = gsplit.from_arrays(edges, ids="any", strip=True, out=tmp_path / "framed")
    assert store.description["strip"] is True
    assert store.graph.num_vertices == 5


def test_rules_of_a_store_do_not_hold_for_labels_that_take_the_place_of_its_own(tmp_path):
    edges, labels, others, more, new = (tmp_path / f"{name}.csv" for name in ("e", "l", "o", "m", "n"))
    edges.write_text("src,dst\nann,bob\nbob,cid\n")
    labels.write_text("id,y\nann,a\nbob,other\ncid,b\n")
    others.write_text("id,y\nann,a\nbob,other\ncid,a\n")
    more.write_text("src,dst\ndan,ann\n")
    new.write_text("id,y\ndan,other\n")
    first = gsplit.import_graph(edges, tmp_path / "first", ids="any", labels=labels, unlabelled=["other"])
    second = gsplit.import_graph(first.path, tmp_path / "second", labels=others)
    grown = gsplit.import_graph(second.path, tmp_path / "grown", add=more, labels=new)
    assert grown.graph.labels.tolist() == [0, 1, 0, 1]
