"""Graphs of several types: from arrays, PyG and DGL to the store and back, and what is refused."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
import torch
from support.libraries import needs_dgl
from support.typed_graphs import academic, assert_equal_typed_graphs, edges_by_relation, random_typed_graph
from torch_geometric.data import HeteroData, InMemoryDataset

import gsplit
from gsplit.data import Relation, open_store, write_store
from gsplit.data.importers.formats import dgl
from gsplit.data.importers.formats.dgl import import_dgl
from gsplit.errors import InputError

EDGES = {
    "author__writes__paper": [(0, 0), (0, 1), (1, 1)],
    "paper__cites__paper": [(1, 0), (2, 1), (3, 1)],
    "author__is at__place": [(0, 0), (2, 0)],
}


def made(**changes):
    types, relations, beside = academic()
    return gsplit.from_arrays(types, relations, **{**beside, **changes})


def as_hetero() -> HeteroData:
    types, relations, _ = academic()
    data = HeteroData()
    for name, each in types.items():
        if isinstance(each, int):
            data[name].num_nodes = each
        else:
            data[name].x = torch.tensor(each)
    for names, each in relations.items():
        data[names].edge_index = torch.tensor(each)
    data["paper"].y = torch.tensor([0, 1, 1, 0])
    data["paper"].train_mask = torch.tensor([True, True, False, False])
    data["paper"].test_mask = torch.tensor([False, False, False, True])
    return data


def as_dgl():
    types, relations, _ = academic()
    counts = {name: each if isinstance(each, int) else len(each) for name, each in types.items()}
    graph = import_dgl().heterograph({names: tuple(each) for names, each in relations.items()}, counts)
    for name, each in types.items():
        if not isinstance(each, int):
            graph.nodes[name].data["feat"] = torch.tensor(each)
    data = as_hetero()["paper"]
    graph.nodes["paper"].data.update(label=data.y, train_mask=data.train_mask, test_mask=data.test_mask)
    return graph


def test_arrays_by_type_become_a_store():
    graph = made().graph
    assert edges_by_relation(graph) == EDGES
    assert [(each.name, each.num_vertices) for each in graph.schema.types] == [
        ("paper", 4),
        ("author", 3),
        ("place", 2),
    ]
    assert [None if rows is None else str(rows.dtype) for rows in graph.features_by_type] == [
        "float32",
        "float16",
        None,
    ]
    assert (graph.target, graph.num_classes, graph.task) == (0, 2, "classes")
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[0, 1], [], [3]]


def test_pyg_gives_the_same_store_in_memory_and_by_file(tmp_path):
    wanted = made().checksum
    assert gsplit.from_pyg(as_hetero()).checksum == wanted
    torch.save(as_hetero(), tmp_path / "data.pt")
    assert gsplit.import_graph(tmp_path / "data.pt", tmp_path / "one").checksum == wanted
    InMemoryDataset.save([as_hetero()], str(tmp_path / "data.pt"))
    assert gsplit.import_graph(tmp_path / "data.pt", tmp_path / "two").checksum == wanted
    assert open_store(tmp_path / "two", typed=True, verify=True).name == "data"


@needs_dgl
def test_dgl_gives_the_same_edges_in_memory_and_by_file(tmp_path, monkeypatch):
    monkeypatch.setattr(dgl, "_probe", lambda path: None)  # which takes seconds
    store = gsplit.from_dgl(as_dgl())
    import_dgl().save_graphs(str(tmp_path / "graph.bin"), [as_dgl()])
    assert gsplit.import_graph(tmp_path / "graph.bin", tmp_path / "store").checksum == store.checksum
    assert edges_by_relation(store.graph) == EDGES  # DGL sorts types and relations by name
    assert store.graph.schema.types[store.graph.target].name == "paper"
    assert store.graph.train_idx.tolist() == [0, 1]


def test_reverses_are_appended_and_relations_inside_a_type_become_symmetric():
    store = made(reverse=True)
    assert edges_by_relation(store.graph) == {
        **EDGES,
        "paper__cites__paper": [(1, 0), (2, 1), (3, 1), (0, 1), (1, 2), (1, 3)],
        "paper__rev_writes__author": [(0, 0), (1, 0), (1, 1)],
        "place__rev_is at__author": [(0, 0), (0, 2)],
    }
    assert store.graph.schema.hops_to(0) == [0, 1, 2]


def test_types_that_no_path_leads_from_are_named(caplog):
    made()
    assert "no path of relations leads from place to paper, which has the labels" in caplog.text
    assert "--reverse" in caplog.text
    caplog.clear()
    made(reverse=True)
    assert "no path" not in caplog.text


def test_one_type_and_one_relation_is_a_store_without_types(tmp_path):
    x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 0])
    edges = np.array([[0, 1, 2, 0], [1, 2, 0, 2]])
    plain = gsplit.from_arrays(edges, x, y, train=[0], undirected=True, out=tmp_path / "plain")
    typed = gsplit.from_arrays(
        {"v": x}, {("v", "to", "v"): edges}, labels={"v": y}, train=[0], reverse=True, out=tmp_path / "typed"
    )
    assert typed.checksum == plain.checksum
    files = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "typed").iterdir()}
    assert open_store(tmp_path / "typed").description["version"] == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_store_gives_back_what_was_written(seed, tmp_path):
    graph = random_typed_graph(1 + seed, 2 + seed, seed=seed, weighted=seed % 2 == 1, empty_type=seed == 3)
    write_store(tmp_path / "store", graph, name="g", source="test")
    assert_equal_typed_graphs(open_store(tmp_path / "store", verify=True, typed=True).graph, graph)


def test_a_number_of_vertices_may_be_numpy_s_and_labels_may_be_none():
    relations, labels = {("b", "to", "a"): [[0, 1], [0, 1]]}, {"b": None, "a": [0, 1]}
    graph = gsplit.from_arrays({"a": np.eye(2), "b": np.int64(2)}, relations, labels=labels, train=[0]).graph
    assert [each.num_vertices for each in graph.schema.types] == [2, 2]
    assert graph.train_idx.tolist() == [0]


def test_the_joint_graph_has_all_edges():
    graph = random_typed_graph(3, 5, seed=7, empty_type=True)
    begins = np.cumsum([0, *(each.num_vertices for each in graph.schema.types)])
    wanted: Counter = Counter()
    for number, edges in enumerate(edges_by_relation(graph).values()):
        source, to = graph.schema.ends(number)
        wanted.update((begins[source] + u, begins[to] + v) for u, v in edges)
    joint = graph.joint()
    rows = np.repeat(np.arange(joint.num_vertices), np.diff(joint.indptr))
    assert Counter(zip(joint.indices.tolist(), rows.tolist(), strict=True)) == wanted


def test_options_of_a_graph_hold_for_each_relation(caplog):
    types, relations, beside = academic()
    relations["author", "writes", "paper"] = np.array([[0, 0, 0], [1, 1, 0]])
    relations["paper", "cites", "paper"] = np.array([[1, 1], [1, 0]])
    graph = gsplit.from_arrays(types, relations, **beside, duplicates="keep", self_loops="drop").graph
    assert edges_by_relation(graph)["author__writes__paper"] == [(0, 0), (0, 1), (0, 1)]
    assert edges_by_relation(graph)["paper__cites__paper"] == [(1, 0)]
    weights = {("author", "writes", "paper"): [1, 2, 4]}
    summed = gsplit.from_arrays(types, relations, **beside, edge_weight=weights, duplicates="sum").graph
    assert [None if each.edge_weight is None else each.edge_weight.tolist() for each in summed.adjacencies] == [
        [4, 3],
        [1, 1],
        [1, 1],
    ]  # those without weights count edges


def test_what_is_not_kept_is_named(caplog):
    data = as_hetero()
    data["paper"].year = torch.zeros(4, 1)
    data["author", "writes", "paper"].time = torch.zeros(3)
    gsplit.from_pyg(data)
    assert "type paper: year of shape (4, 1) is not kept" in caplog.text
    assert "relation author__writes__paper: time of shape (3,) is not kept" in caplog.text


def test_keys_name_tensors_of_the_types_that_have_them():
    data = as_hetero()
    data["paper"].klass, data["author"].vector = data["paper"].y, data["author"].x
    del data["paper"].y, data["author"].x
    graph = gsplit.from_pyg(data, label_key="klass", feature_key="vector").graph
    assert [rows is None for rows in graph.features_by_type] == [False, False, True]  # x, vector, nothing
    assert graph.labels.tolist() == [0, 1, 1, 0]
    with pytest.raises(InputError, match=r"has no 'vectors', which --feature-key names"):
        gsplit.from_pyg(data, label_key="klass", feature_key="vectors")


def hetero(**changes):
    """changes(data) to a graph of PyG."""
    data = as_hetero()
    for key, (names, value) in changes.items():
        data[names][key] = value
    return data


WRONG = {
    "unknown type": (
        lambda: made(labels={"papers": [0]}),
        r"labels are of 'papers', but the types are paper, author, place",
    ),
    "relation to an unknown type": (
        lambda: gsplit.from_arrays({"a": 2}, {("a", "to", "b"): [[0], [0]]}, labels={"a": [0, 1]}),
        r"relation a__to__b: there is no type 'b'; there are a",
    ),
    "an id outside its type": (
        lambda: gsplit.from_pyg(hetero(edge_index=(("author", "writes", "paper"), torch.tensor([[0, 3], [0, 1]])))),
        r"relation author__writes__paper: edge 1: the source 3 is no vertex of the type 'author', outside its "
        r"vertices 0 \.\. 2",
    ),
    "an id below 0": (
        lambda: gsplit.from_pyg(hetero(edge_index=(("author", "writes", "paper"), torch.tensor([[0, 1], [0, -1]])))),
        r"edge 1: the destination -1 is no vertex of the type 'paper'",
    ),
    "features of another length": (
        lambda: gsplit.from_pyg(hetero(x=("paper", torch.zeros(5, 2)))),
        r"type paper: y must be numbers of shape \(5,\)",
    ),
    "labels of another length": (lambda: made(labels={"paper": [0, 1]}), r"type paper: x has 4 rows, but y has 2"),
    "no labels": (lambda: made(labels=None, train=None, test=None), r"no type of vertices has labels"),
    "labels on two types": (
        lambda: made(labels={"paper": [0, 1, 1, 0], "author": [0, 1, 0]}, train=None, test=None),
        r"the types paper and author have labels, and one type can be learned",
    ),
    "a set of another type": (
        lambda: made(train={"author": [0]}),
        r"the type author has a train set, but the labels are those of paper",
    ),
    "no relation into the target": (
        lambda: gsplit.from_arrays({"a": 2, "b": 1}, {("a", "to", "b"): [[0], [0]]}, labels={"a": [0, 1]}),
        r"no relation leads to a, the type with the labels.*--reverse",
    ),
    "reverse twice": (
        lambda: gsplit.from_arrays(
            {"a": 2, "b": 1},
            {("a", "to", "b"): [[0], [0]], ("b", "rev_to", "a"): [[0], [0]]},
            labels={"a": [0, 1]},
            reverse=True,
        ),
        r"has the relation b__rev_to__a already; drop --reverse",
    ),
    "undirected": (lambda: made(undirected=True), r"--undirected is for graphs of one; give --reverse"),
    "reverse of one type": (lambda: gsplit.from_arrays([[0], [1]], reverse=True), r"one type.*give --undirected"),
    "pairs": (lambda: made(train_edges=[[0], [1]]), r"train_edges is for graphs of one type"),
    "labels of one type": (lambda: gsplit.from_arrays([[0], [1]], labels=[0, 1]), r"labels are for several types"),
    "a name that is none": (lambda: gsplit.from_arrays({3: 1}, {}), r"a type is called by a text, .*not 3"),
    "a relation of two names": (
        lambda: gsplit.from_arrays({"a": 1}, {("a", "a"): [[0], [0]]}, labels={"a": [0]}),
        r"a relation is called by three texts.*not \('a', 'a'\)",
    ),
    "edges without names": (lambda: gsplit.from_arrays({"a": 1}, [[0], [0]]), r"edges of several types are by rel"),
    "no count": (lambda: gsplit.from_arrays({"a": None}, {}), r"type a: give its features, or the number of its"),
    "a type of no vertices": (
        lambda: gsplit.from_arrays({"a": 0}, {}),
        r"type a: the number of vertices is 0; .*0 rows",
    ),
    "more vertices than fit": (
        lambda: gsplit.from_arrays({"a": 2, "b": 2**62}, {("b", "to", "a"): [[0], [0]]}, labels={"a": [0, 1]}),
        r"type b: 4,611,686,018,427,387,904 vertices, .* do not fit in memory",
    ),
    "several graphs": (lambda: gsplit.from_pyg([as_hetero()] * 3), r"not a list; of a dataset give its graph"),
    "a weight that is not finite": (
        lambda: made(edge_weight={("author", "writes", "paper"): [1, np.nan, 1]}),
        r"relation author__writes__paper: edge 1 of edge_index: the weight is nan",
    ),
}


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line(make, message):
    with pytest.raises(InputError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_what_takes_one_type_alone_refuses_a_store_of_several(tmp_path):
    store = made(out=tmp_path / "store")
    with pytest.raises(InputError, match=r"has several types of vertices, or relations \(paper, author, place\)"):
        open_store(tmp_path / "store")
    with pytest.raises(InputError, match="a graph of several types has no indices"):
        store.graph.indices.max()
    with pytest.raises(InputError, match="has several types"):
        gsplit.import_graph(tmp_path / "store", tmp_path / "again")
    torch.save(as_hetero(), tmp_path / "data.pt")
    with pytest.raises(InputError, match=r"--features is for graphs of one"):
        gsplit.import_graph(tmp_path / "data.pt", tmp_path / "again", features=[tmp_path / "x.npy"])
    assert not (tmp_path / "again").exists()


def test_damaged_descriptions_and_arrays_are_refused(tmp_path):
    made(out=tmp_path / "store")
    for path in sorted((tmp_path / "store").iterdir()):
        content = path.read_bytes()
        random = np.random.default_rng(len(content))
        for at in random.integers(0, len(content), 12 if path.suffix == ".npy" else 150):
            flipped = bytes([content[at] ^ 1 << int(random.integers(0, 8))])
            path.write_bytes(content[:at] + flipped + content[at + 1 :])
            with suppress(InputError):
                open_store(tmp_path / "store", verify=True, typed=True)
                assert path.suffix == ".json"  # names, and what was never a fact of the graph
        path.write_bytes(content)
    indices = np.load(tmp_path / "store" / "indices.0.npy")
    indices[1] = 3
    np.save(tmp_path / "store" / "indices.0.npy", indices)
    with pytest.raises(InputError, match=r"relation author__writes__paper: indices\[1\] is 3, outside the vertices"):
        open_store(tmp_path / "store", typed=True)


def test_names_that_no_path_holds_are_kept():
    odd = "a/b\x1f: ü" * 40
    types = {odd.replace("\x1f", ""): 2}
    (name,) = types
    store = gsplit.from_arrays(
        types, {(name, "to", name): [[0], [1]], (name, "/", name): [[1], [0]]}, labels={name: [0, 1]}
    )
    assert store.graph.schema.relations[1] == Relation(name, "/", name)
