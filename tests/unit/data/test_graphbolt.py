"""The GraphBolt importer: a folder with metadata.yaml in each of its forms, and damaged ones."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import yaml
from support.stores import build, edges_of

from gsplit.data.importers.formats.graphbolt import load_graphbolt
from gsplit.errors import InputError

# 1 --> 0, 0 --> 1, 3 --> 2, 1 --> 2; vertex 4 is alone
EDGES = [(1, 0), (0, 1), (3, 2), (1, 2)]
X = np.arange(10, dtype=np.float32).reshape(5, 2)


def entry(name, form="numpy", **more):
    return {"name": name, "format": form, "path": f"{name}.{'pt' if form == 'torch' else 'npy'}", **more}


def a_set(prefix, seeds="seeds"):
    data = [{**entry(seeds), "path": f"{prefix}-seeds.npy"}, {**entry("labels"), "path": f"{prefix}-labels.npy"}]
    return [{"type": None, "data": data}]


DESCRIPTION = {
    "dataset_name": "tiny",
    "graph": {"nodes": [{"num": 5}], "edges": [{"format": "csv", "path": "edges.csv"}]},
    "feature_data": [entry("feat", domain="node"), entry("year", domain="node")],
    "tasks": [
        {
            "name": "node_classification",
            "num_classes": 4,
            "train_set": a_set("train"),
            "validation_set": a_set("valid"),
            "test_set": a_set("test"),
        }
    ],
}
SETS = {"train": ([4, 0], [1, 2]), "valid": ([1], [0]), "test": ([], [])}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "edges.csv").write_text("".join(f"{s},{d}\n" for s, d in EDGES))
    np.save(tmp_path / "edges.npy", np.array(EDGES).T)
    np.save(tmp_path / "feat.npy", X)
    torch.save(torch.from_numpy(X), tmp_path / "feat.pt")
    for name, arrays in SETS.items():
        for kind, array in zip(("seeds", "labels"), arrays, strict=True):
            np.save(tmp_path / f"{name}-{kind}.npy", np.array(array, np.int64))
    return tmp_path


@pytest.fixture
def load(folder):
    """load(change) writes the description, changed in place by ``change``, and imports the folder."""

    def write_and_load(change=lambda description: None):
        description = yaml.safe_load(yaml.safe_dump(DESCRIPTION))
        change(description)
        (folder / "metadata.yaml").write_text(yaml.safe_dump(description))
        return load_graphbolt(folder)

    return write_and_load


def numpy_edges(description):
    description["graph"]["edges"][0].update(format="numpy", path="edges.npy")


def check(graph):
    assert edges_of(graph) == EDGES
    np.testing.assert_array_equal(graph.features, X)
    assert graph.labels.tolist() == [2, 0, -1, -1, 1]
    assert graph.num_classes == 4
    assert [graph.train_idx.tolist(), graph.valid_idx.tolist(), graph.test_idx.tolist()] == [[4, 0], [1], []]


def test_every_part_arrives(load, tmp_path):
    source = load()
    assert source.name == "tiny"
    check(build(source, tmp_path / "store"))


def test_arrays_of_numpy_and_torch(load, tmp_path):
    def change(description):
        numpy_edges(description)
        description["feature_data"][0] = entry("feat", "torch", domain="node")
        description["tasks"][0]["train_set"] = a_set("train", "seed_nodes")

    check(build(load(change), tmp_path / "store"))


@pytest.mark.parametrize("edges", ["csv", "numpy"])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_weights(load, folder, edges, shape):
    np.save(folder / "weight.npy", np.array([1, 2, 3, 4.5]).reshape(shape))

    def change(description):
        description["feature_data"].append(entry("weight", domain="edge"))
        if edges == "numpy":
            numpy_edges(description)

    graph = build(load(change), folder / "store")
    assert dict(zip(edges_of(graph), graph.edge_weight.tolist(), strict=True)) == {
        (1, 0): 1,
        (0, 1): 2,
        (3, 2): 3,
        (1, 2): 4.5,
    }


def test_multi_label_sets_leave_others_unlabelled(load, folder):
    for name, (ids, _) in SETS.items():
        np.save(folder / f"{name}-labels.npy", np.ones((len(ids), 3)))
    graph = build(load(), folder / "store")
    assert graph.multi_label
    assert np.isnan(graph.labels).all(axis=1).tolist() == [False, False, True, True, False]


def test_labels_of_all_vertices_win(load, folder):
    np.save(folder / "label.npy", np.array([[1], [2], [3], [0], [1]]))
    source = load(lambda description: description["feature_data"].append(entry("label", domain="node")))
    assert source.labels.tolist() == [1, 2, 3, 0, 1]


def test_only_a_graph_is_needed(load, folder):
    def change(description):
        for key in ("tasks", "feature_data", "dataset_name"):
            del description[key]

    source = load(change)
    assert (source.features, source.labels, source.vertex_sets, source.name) == (None, None, {}, folder.name)
    assert build(source, folder / "store").num_vertices == 5


def put(*keys, value=None):
    """A change that puts ``value`` at a place of the description, or removes what is there."""

    def change(description):
        for key in keys[:-1]:
            description = description[key]
        if value is None:
            del description[keys[-1]]
        else:
            description[keys[-1]] = value

    return change


TWO = [{"type": "a", "num": 2}, {"type": "b", "num": 3}]
TASK = ("tasks", 0)
WRONG = [
    (put("graph"), "metadata.yaml: graph is missing"),
    (put("graph", value=[1]), "metadata.yaml: graph is of type list, not dict"),
    (put("graph", "nodes"), r"graph\.nodes has 0 entries; a homogeneous graph has one"),
    (put("graph", "nodes", value=TWO), r"graph\.nodes has 2 entries"),
    (put("graph", "nodes", value=[{"type": "paper", "num": 5}]), r"graph\.nodes\[0\]\.type is 'paper'; only homo"),
    (put("graph", "nodes", 0, "num"), r"graph\.nodes\[0\]\.num is missing"),
    (put("graph", "nodes", 0, "num", value="five"), r"graph\.nodes\[0\]\.num is of type str, not int"),
    (put("graph", "nodes", 0, "num", value=0), r"graph\.nodes\[0\]\.num is 0"),
    (put("graph", "nodes", 0, value=7), r"graph\.nodes\[0\]\.num is missing"),
    (put("graph", "edges", 0, "type", value="a:b:c"), r"graph\.edges\[0\]\.type is 'a:b:c'; only homogeneous"),
    (put("graph", "edges", 0, "path"), r"graph\.edges\[0\]\.path is missing"),
    (put("graph", "edges", 0, "format", value="parquet"), r"edges\[0\]\.format is 'parquet'; expected csv or"),
    (put("graph", "edges", 0, "path", value="none.csv"), r"none\.csv"),
    (put("feature_data", 0, "format", value="csv"), r"feature_data\[0\]\.format is 'csv'; expected numpy or torch"),
    (put("feature_data", 0, "path", value="none.npy"), r"none\.npy"),
    (put("feature_data", 0, "domain"), r"feature_data\[0\]\.domain is missing"),
    (put("feature_data", 0, "type", value="paper"), r"feature_data\[0\]\.type is 'paper'"),
    (put(*TASK, "num_classes", value="many"), r"tasks\[0\]\.num_classes is of type str"),
    (put(*TASK, "train_set", 0, "data", 0, "name", value="ids"), r"train_set\[0\]\.data has no entry with the na"),
    (put(*TASK, "train_set", 0, "type", value="paper"), r"tasks\[0\]\.train_set\[0\]\.type is 'paper'"),
    (lambda d: (d.pop("graph"), d.update(graph_topology={})), "describes a preprocessed dataset"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_descriptions_that_do_not_fit(load, change, message):
    with pytest.raises(InputError, match=message) as error:
        load(change)
    assert "\n" not in str(error.value)


FILES = [
    ("edges.npy", np.array(EDGES), r"edges\.npy must have the shape \(2, E\), not \(4, 2\)"),
    ("edges.npy", np.ones((2, 4)), r"edges\.npy must be integers"),
    ("edges.npy", np.array([[0, 1], [1, 5]]), r"edges\.npy, column 1: 1 -> 5 names a vertex outside the"),
    ("feat.npy", X[:4], r"feat\.npy must be numbers of shape \(5, D\), not float32 of shape \(4, 2\)"),
    ("feat.npy", np.array([None] * 5), r"feat\.npy is not a readable \.npy file: .*Python objects"),
    ("train-seeds.npy", np.array([4, 9]), r"train-seeds\.npy\[1\] is 9, outside the vertices 0 \.\. 4"),
    ("train-seeds.npy", np.ones(2), r"train-seeds\.npy must be integers"),
    ("train-seeds.npy", np.array([4]), r"train-labels\.npy must be numbers of shape \(1,\)"),
    ("train-labels.npy", np.array(["a", "b"]), r"train-labels\.npy must be numbers"),
    ("valid-labels.npy", np.ones((1, 3)), r"valid-labels\.npy has labels of shape \(1, 3\), unlike the sets"),
]


@pytest.mark.parametrize(("file", "array", "message"), FILES, ids=[message[:50] for *_, message in FILES])
def test_arrays_that_do_not_fit_are_named(load, folder, file, array, message):
    np.save(folder / file, array)
    with pytest.raises(InputError, match=message) as error:
        build(load(numpy_edges), folder / "store")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("file", ["edges.npy", "feat.npy", "train-seeds.npy", "train-labels.npy"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"0,1\n"])
def test_arrays_that_are_damaged(load, folder, file, content):
    (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=rf"{file} is not a readable \.npy file"):
        load(numpy_edges)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,5\n", r"edges\.csv, line 2: 1 -> 5 names a vertex outside the vertices 0 \.\. 4"),
        ("0,1\n1,x\n", r"edges\.csv, line 2: 'x' is not a whole number"),
        ("0,1\n1\n", r"edges\.csv, line 2: 1 columns, not 2"),
        ("0\n1\n", r"edges\.csv has 1 columns, not 2"),
        ("", r"edges\.csv is empty"),
    ],
)
def test_edges_in_text_that_do_not_parse(load, folder, text, message):
    (folder / "edges.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        build(load(), folder / "store")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"metadata\.yaml is missing"),
        ("", r"metadata\.yaml is no description of a dataset"),
        ("- 1\n- 2\n", r"metadata\.yaml is no description of a dataset"),
        ("graph:\n  nodes: [\n", r"metadata\.yaml, line 3 is not YAML"),
        ("graph: !!python/object/apply:os.getcwd []\n", r"metadata\.yaml, line 1 is not YAML: could not determine"),
        ("graph: \x00\n", r"metadata\.yaml is not YAML"),
        ("[" * 5000, r"metadata\.yaml.* is not YAML"),
    ],
    ids=["missing", "empty", "list", "cut", "object", "control character", "deep"],
)
def test_descriptions_that_are_damaged(folder, text, message):
    if text is not None:
        (folder / "metadata.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_graphbolt(folder)
    assert "\n" not in str(error.value)


def test_each_line_of_the_description_may_be_missing(load, folder):
    load()
    lines = (folder / "metadata.yaml").read_text().splitlines(keepends=True)
    refused = 0
    for at in range(len(lines)):
        (folder / "metadata.yaml").write_text("".join(lines[:at] + lines[at + 1 :]))
        try:
            load_graphbolt(folder)
        except InputError as error:
            refused += 1
            words = str(error).splitlines()
            assert len(words) == 1
    assert refused > len(lines) // 2


def test_without_pyyaml_the_message_says_how_to_get_it(load, monkeypatch):
    load()
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InputError, match=r"need PyYAML .*pip install 'gsplit\[graphbolt\]'"):
        load()


def with_links(folder, sets):
    """Change of a description that gives it a task of links, after that of vertices."""

    def change(description):
        task: dict = {"name": "link_prediction"}
        for key, arrays in sets.items():
            for name, array in arrays.items():
                np.save(folder / f"{key}-{name}-pairs.npy", np.array(array))
            data = [{**entry(name), "path": f"{key}-{name}-pairs.npy"} for name in arrays]
            task[key] = [{"type": None, "data": data}]
        description["tasks"].append(task)

    return change


def test_pairs_of_the_task_of_links(folder, load):
    valid = {  # two queries with two negatives each, by turns
        "seeds": [(2, 0), (4, 1), (2, 3), (4, 2), (2, 4), (4, 3)],
        "labels": [1, 1, 0, 0, 0, 0],
        "indexes": [1, 0, 1, 0, 1, 0],
    }
    test = {"node_pairs": [(0, 4)], "negative_dsts": [[1, 2, 3]]}
    sets = {"train_set": {"seeds": [(1, 0), (3, 2)]}, "validation_set": valid, "test_set": test}
    links = load(with_links(folder, sets)).links
    assert links.train.tolist() == [[1, 0], [3, 2]]
    assert links.valid.tolist() == [[2, 0], [4, 1]]
    assert links.valid_candidates.tolist() == [[3, 4], [2, 3]]
    assert links.test.tolist() == [[0, 4]]
    assert links.test_candidates.tolist() == [[1, 2, 3]]
    assert load(with_links(folder, sets)).vertex_sets["train"].tolist() == [4, 0]
    del valid["indexes"]
    links = load(with_links(folder, sets)).links
    assert links.valid_candidates is None
    assert links.valid_negatives.tolist() == [[2, 3], [4, 2], [2, 4], [4, 3]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": [1]}, "no entry with the name seeds"),
        ({"seeds": [(0, 1)], "labels": [1, 0]}, "1 pairs, but labels"),
        ({"seeds": [0, 1]}, "train_edges must be"),
    ],
)
def test_odd_tasks_of_links_are_refused(folder, load, arrays, message):
    with pytest.raises(InputError, match=message):
        load(with_links(folder, {"train_set": arrays}))
