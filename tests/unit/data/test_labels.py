"""Names of classes from source to layout and file, sets drawn class by class, and what is printed about labels."""

from __future__ import annotations

import json
import logging
from fractions import Fraction

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from support.graphs import lay_out, random_graph
from support.stores import build_store

from gsplit.data import open_layout, open_store, write_store
from gsplit.data.build_options import BuildOptions
from gsplit.data.exporters import export
from gsplit.data.importers import load_source
from gsplit.data.importers.source import GraphSource, array_edges
from gsplit.data.labels.vertex_sets import counts_by_class, random_sets
from gsplit.errors import InputError

NAMES = ("cat", 'Größe, »quoted"', "3")
SHARES = [(0.6, 0.2, 0.2), (0.5, 0.5, 0), (0.1, 0.2, 0.3), (1, 0, 0), (1 / 3, 1 / 3, 1 / 3)]


def source_of(labels, **more):
    edges = array_edges(np.array([0]), np.array([1]))
    labels = None if labels is None else np.array(labels)
    return GraphSource(name="test", edges=edges, num_vertices=8, where="the source", labels=labels, **more)


def stored(folder, source, **options):
    build_store(source, folder, BuildOptions(**options), name="test", described_as="test")
    return open_store(folder, verify=True)


def named_graph(**changes):
    graph = random_graph(60, 4, **changes)
    return type(graph)(**{**vars(graph), "classes": NAMES})


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("kind", ["npz", "pyg"])
def test_names_go_to_the_layout_and_out_and_in_again(tmp_path, kind, multi_label):
    layout = lay_out(named_graph(multi_label=multi_label), tmp_path, parts=2)
    assert layout.classes == layout.graph.classes == open_store(tmp_path / "store").classes == NAMES
    assert json.loads((layout.path / "layout.json").read_text())["classes"] == list(NAMES)
    for number, folder in enumerate((tmp_path / "store", layout.path)):
        out = tmp_path / f"{number}.{'pt' if kind == 'pyg' else kind}"
        export(folder, kind, out)
        again = tmp_path / f"again-{number}"
        build_store(load_source(str(out)), again, BuildOptions(), name="x", described_as="x")
        assert open_store(again).classes == NAMES


def test_names_say_how_many_classes_there_are(tmp_path):
    store = stored(tmp_path / "one", source_of([0, 1, 1, 0, 0, 0, 0, -1], classes=NAMES))
    assert (store.classes, store.graph.num_classes) == (NAMES, 3)
    store = stored(tmp_path / "none", source_of([0, 1, 1, 0, 0, 0, 0, 2]))
    assert store.classes is None
    assert "classes" not in store.description
    store = stored(tmp_path / "numbers", source_of(np.ones(8), classes=NAMES), task="regression")
    assert store.classes is None


LABELS = [0, 1, 2, 0, 0, 0, 0, 0]
WRONG = [
    (source_of(LABELS, classes=NAMES[:2], num_classes=3), {}, "labels: 2 names of classes, but there are 3 classes"),
    (
        source_of(LABELS, classes=NAMES[:2]),
        {},
        r"labels\[2\] is 2, but there are names of the classes 0 \.\. 1 alone",
    ),
    (source_of(LABELS, classes=("a", "b", "a")), {}, "the classes 0 and 2 are both called 'a'"),
    (source_of(LABELS, classes=("a", " ", "b")), {}, "the name of class 1 is empty"),
    (source_of(LABELS, classes=("a", 2, "b")), {}, "the name of class 1 must be a text, not of type int"),
    (source_of(LABELS, classes=("a", "b\nc", "b")), {}, r"the name of class 1, 'b\\nc', has a character that is no"),
    (source_of(LABELS, classes="abc"), {}, "labels must be a list of texts, a name for each class, not of type str"),
    (source_of(None, classes=NAMES), {}, "3 names of classes, but there are 0 classes"),
    (source_of(np.eye(8)[:, :3]), {"split": (1, 0, 0), "stratify": True}, "the source: --stratify draws class by"),
    (
        source_of(LABELS, vertex_sets={"train": np.array([1])}),
        {"split": (1, 0, 0), "stratify": True},
        "drop --split and --stratify",
    ),
    (source_of(None), {"split": (1, 0, 0), "stratify": True}, "--split needs labels"),
    (
        source_of(
            [0, 1, 0, -1, -1, -1, 0, 0],
            vertex_sets={"train": np.array([0, 4, 1, 3])},
            called={"train": "t.txt"},
            places={"train": lambda index: f"line {index + 2}"},
        ),
        {},
        r"^t.txt, line 3: the train set has vertex 4, which has no label \(nor have 1 others of its 4\); label it",
    ),
    (
        source_of(
            LABELS,
            vertex_sets={"valid": np.array([5, 6, 5])},
            called={"valid": "v.txt"},
            places={"valid": lambda index: f"line {index + 1}"},
        ),
        {},
        "^v.txt, line 3: valid_idx lists a vertex twice: 5",
    ),
    (
        source_of(LABELS, vertex_sets={"test": np.array([5, 8])}, called={"test": "t.npy"}),
        {},
        r"^t.npy: test_idx\[1\] is 8, outside the vertices 0 \.\. 7",
    ),
]


@pytest.mark.parametrize(("source", "options", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_a_mistake_is_one_line_and_leaves_nothing(tmp_path, source, options, message):
    with pytest.raises(InputError, match=message) as error:
        stored(tmp_path / "store", source, **options)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--stratify is for --split; add the shares"),
        ({"split": (1, 0, 0), "task": "regression"}, "--stratify draws class by class, and --task regression has no"),
    ],
)
def test_what_stratify_goes_with(options, message):
    with pytest.raises(InputError, match=message):
        BuildOptions(stratify=True, **options)


@pytest.mark.parametrize("classes", [["a", "b"], ["a", "a", "b"], ["a", 1, "b"], "abc", 7, {"a": 1}])
@pytest.mark.parametrize("kind", ["store", "layout"])
def test_damaged_names_are_one_line(tmp_path, kind, classes):
    layout = lay_out(named_graph(), tmp_path, parts=1)
    file, read = (
        (tmp_path / "store" / "graph.json", open_store)
        if kind == "store"
        else (layout.path / "layout.json", open_layout)
    )
    file.write_text(json.dumps({**json.loads(file.read_text()), "classes": classes}))
    with pytest.raises(InputError, match="the description is damaged where it names the classes"):
        read(file.parent)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (np.array([1, 2, 3]), r"classes must be texts in 1 dimension, not int64 of shape \(3,\)"),
        (np.array(["a", "b"]), "classes: 2 names of classes, but there are 3 classes"),
        (
            np.array([0x110000, 65, 66], np.uint32).view("U1"),
            "classes is damaged: it holds characters that there are",
        ),
    ],
)
def test_names_in_an_npz_that_are_none(tmp_path, names, message):
    write_store(tmp_path / "store", random_graph(20, 2), name="x", source="x")
    export(tmp_path / "store", "npz", tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as arrays:
        np.savez(tmp_path / "g.npz", **{**arrays, "classes": names})
    with pytest.raises(InputError, match=message):
        load_source(str(tmp_path / "g.npz"))


def slow_counts(size, shares):
    """The possible counts of a class: whole parts, and one more for sets that lack no less than any without."""
    exact = [Fraction(str(float(share))) for share in shares]
    exact.append(max(Fraction(0), 1 - sum(exact)))
    quotas = [size * share / sum(exact) for share in exact]
    found = []
    for number in range(16):
        more = [number >> bit & 1 for bit in range(4)]
        counts = [int(quota) + one for quota, one in zip(quotas, more, strict=True)]
        rests = [quota - int(quota) for quota in quotas]
        fair = all(
            a >= b for a, m in zip(rests, more, strict=True) if m for b, k in zip(rests, more, strict=True) if not k
        )
        if sum(counts) == size and fair:
            found.append(counts)
    return found


@pytest.mark.parametrize("shares", SHARES)
def test_counts_are_those_of_the_largest_remainders(shares):
    sizes = list(range(1, 60))
    for seed in range(3):
        counts = counts_by_class(sizes, shares, np.random.default_rng(seed))
        for size, row in zip(sizes, counts.tolist(), strict=True):
            assert row in slow_counts(size, shares), (size, row)


def test_between_equals_chance_decides():
    counts = counts_by_class([1] * 1000, (0.5, 0.5, 0), np.random.default_rng(0))
    assert counts.sum(axis=0)[2:].tolist() == [0, 0]
    assert 500 - 95 < counts[:, 0].sum() < 500 + 95  # six standard deviations


def test_stratified_sets_beside_those_of_scikit_learn():
    random = np.random.default_rng(4)
    labels = np.minimum(random.geometric(0.3, 3000) - 1, 6) * 3 - random.integers(0, 2, 3000) * 10**12
    labels[labels < 0] = -1
    labelled = np.flatnonzero(labels >= 0)
    sets = random_sets(labels, (0.6, 0.2, 0.2), 5, "here", stratify=True)
    train, others = train_test_split(labelled, train_size=0.6, stratify=labels[labelled], random_state=0)
    valid, test = train_test_split(others, train_size=0.5, stratify=labels[others], random_state=0)
    for name, theirs in (("train", train), ("valid", valid), ("test", test)):
        for label in np.unique(labels[labelled]):
            assert abs((labels[sets[name]] == label).sum() - (labels[theirs] == label).sum()) <= 1
    together = np.concatenate(list(sets.values()))
    assert sorted(together.tolist()) == labelled.tolist()
    again, other = (random_sets(labels, (0.6, 0.2, 0.2), seed, "here", stratify=True) for seed in (5, 6))
    assert all((sets[name] == again[name]).all() and (np.diff(sets[name]) > 0).all() for name in sets)
    assert sets["train"].tolist() != other["train"].tolist()


def test_each_vertex_of_a_class_is_as_likely_in_a_set():
    labels = np.array([0] * 10 + [1] * 10)
    times = np.zeros(20)
    for seed in range(2000):
        times[random_sets(labels, (0.3, 0.1, 0.1), seed, "here", stratify=True)["train"]] += 1
    assert times.sum() == 6 * 2000
    assert (np.abs(times - 600) < 6 * np.sqrt(2000 * 0.3 * 0.7)).all()


NO_SETS = "nothing can be trained yet; --split 0.6,0.2,0.2 draws some, --split-file FILE or --train FILE"
SAID = [
    (source_of([0, 2, 0, 2, 5, 0, 0, -1]), "3 classes have no vertex at all: 1, 3, 4"),
    (source_of([0, 2, 0, 2, 0, 0, 0, -1], classes=NAMES), '1 class has no vertex at all: 1 (Größe, »quoted")'),
    (source_of([999, 1] * 4), "998 classes have no vertex at all: 0, 2, 3, "),
    (source_of([[1, 0, 0]] * 4 + [[0, 0, 1]] * 4), "1 class has no vertex at all: 1"),
    (source_of([1] * 7 + [-1]), "all labels are class 1, so there is nothing to learn"),
    (source_of([0, 1] * 4), NO_SETS),
    (source_of(np.arange(8) / 7), "--split-file FILE or --train FILE names them"),
    (source_of(None), "no labels and no training vertices; to train, give --labels FILE, and --split 0.6,0.2,0.2"),
    (source_of([0, 1] * 4, vertex_sets={"test": np.array([0])}), "no vertex is in the training set; --train FILE"),
]


@pytest.mark.parametrize(("source", "printed"), SAID, ids=[printed for _, printed in SAID])
def test_what_is_odd_is_said_in_a_line(tmp_path, caplog, source, printed):
    with caplog.at_level(logging.INFO):
        stored(tmp_path / "store", source, task="regression" if "names them" in printed else "classification")
    lines = [line for line in caplog.messages if printed in line]
    assert len(lines) == 1, caplog.messages
    assert lines[0].startswith("the source: ")
    assert "\n" not in lines[0]


def test_nothing_is_said_where_nothing_is_odd(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        stored(tmp_path / "store", source_of([0, 1] * 4), split=(0.5, 0.25, 0.25), stratify=True)
    assert not caplog.messages
