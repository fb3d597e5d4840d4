"""The PyG importer: each place where PyG keeps things, and files that are none of its own."""

from __future__ import annotations

import logging
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.data as pyg_data
from hypothesis import example, given
from hypothesis import strategies as st
from support.stores import build, edges_of

from gsplit.data.importers.formats.pyg import load_pyg
from gsplit.errors import InputError

Data = pyg_data.Data

# 1 --> 0, 0 --> 1, 3 --> 2, 1 --> 2; vertex 4 is alone
EDGES = [(1, 0), (0, 1), (3, 2), (1, 2)]
EDGE_INDEX = torch.tensor(EDGES).T.contiguous()
X = torch.arange(10.0).reshape(5, 2)
Y = torch.tensor([1, 0, 2, 1, 0])
TRAIN = torch.tensor([True, False, True, False, False])


@pytest.fixture
def load(tmp_path):
    """load(key=value, ...) saves a Data with these attributes, x, y and edge_index included unless None."""

    def save_and_load(**changes):
        attributes = {"edge_index": EDGE_INDEX, "x": X, "y": Y, **changes}
        data = Data(**{key: value for key, value in attributes.items() if value is not None})
        torch.save(data, tmp_path / "data.pt")
        return load_pyg(tmp_path / "data.pt")

    return save_and_load


def test_every_attribute_arrives(load, tmp_path):
    source = load(
        edge_weight=torch.tensor([1.0, 2, 3, 4]), train_mask=TRAIN, val_mask=~TRAIN, test_idx=torch.tensor([3])
    )
    assert source.name == "data"
    assert source.where == str(tmp_path / "data.pt")
    graph = build(source, tmp_path / "store")
    assert edges_of(graph) == [(1, 0), (0, 1), (3, 2), (1, 2)]
    assert graph.edge_weight.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(graph.features, X)
    assert graph.labels.tolist() == Y.tolist()
    assert [graph.train_idx.tolist(), graph.valid_idx.tolist(), graph.test_idx.tolist()] == [[0, 2], [1, 3, 4], [3]]


def test_only_edges_are_needed(load, tmp_path):
    source = load(x=None, y=None)
    assert (source.features, source.labels, source.vertex_sets) == (None, None, {})
    assert build(source, tmp_path / "store").num_vertices == 4
    assert load(x=None, y=None, num_nodes=9).num_vertices == 9
    assert load(x=None).num_vertices == 5


@pytest.mark.parametrize(
    ("attributes", "weights"),
    [
        ({"edge_attr": torch.tensor([1, 2, 3, 4])}, [1, 2, 3, 4]),
        ({"edge_attr": torch.tensor([[1.5], [2], [3], [4]])}, [1.5, 2, 3, 4]),
        ({"edge_weight": torch.ones(4), "edge_attr": torch.zeros(4)}, [1, 1, 1, 1]),
        ({"edge_attr": torch.zeros(4, 3)}, None),
    ],
    ids=["edge_attr", "edge_attr column", "edge_weight first", "edge_attr of three"],
)
def test_weights(load, attributes, weights, caplog):
    with caplog.at_level(logging.INFO):
        edges = load(**attributes).edges
    chunk = next(edges.chunks())
    assert edges.weighted == (weights is not None)
    assert (chunk.weight.tolist() if edges.weighted else None) == weights
    assert ("left out" in caplog.text) == (weights is None)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")  # to_sparse, here
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo])
@pytest.mark.parametrize("weighted", [False, True])
def test_transposed_adjacency_in_place_of_edge_index(load, layout, weighted, tmp_path):
    values = torch.tensor([1.0, 2, 3, 4]) if weighted else torch.ones(4)
    adj_t = torch.sparse_coo_tensor(EDGE_INDEX.flip(0), values, (5, 5))
    if layout != torch.sparse_coo:
        adj_t = adj_t.coalesce().to_sparse(layout=layout)
    graph = build(load(edge_index=None, adj_t=adj_t), tmp_path / "store")
    assert sorted(edges_of(graph)) == sorted(EDGES)
    assert (graph.edge_weight is not None) == weighted
    if weighted:
        assert dict(zip(edges_of(graph), graph.edge_weight.tolist(), strict=True)) == dict(
            zip(EDGES, [1, 2, 3, 4], strict=True)
        )


@pytest.mark.parametrize("column", [5, -1, 2**40])
def test_sparse_tensors_with_ids_out_of_range(load, column):
    indices = torch.tensor([[0, 1], [1, column]])
    adj_t = torch.sparse_coo_tensor(indices, torch.ones(2), (5, 5), check_invariants=False)
    with pytest.raises(InputError, match=r"data\.pt is damaged or not a file of torch\.save"):
        load(edge_index=None, adj_t=adj_t)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_sparse_features_become_dense(load, layout):
    np.testing.assert_array_equal(load(x=X.to_sparse(layout=layout)).features, X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float64, torch.int32])
def test_types_of_features(load, dtype, tmp_path):
    features = build(load(x=X.to(dtype)), tmp_path / "store").features
    assert features.dtype == (np.float16 if dtype == torch.float16 else np.float32)
    np.testing.assert_array_equal(features, X.to(dtype).float())


def test_plain_numpy_is_read_as_well(load):
    source = load(x=X.numpy(), num_classes=np.int64(4), year=np.float64(1999), names=["a", "b"])
    np.testing.assert_array_equal(source.features, X)
    assert source.num_classes == 4


def test_labels(load, tmp_path):
    assert load(y=Y[:, None]).labels.tolist() == Y.tolist()
    some = load(y=torch.tensor([0.0, 1, torch.nan, 2, 1]))
    assert build(some, tmp_path / "some").labels.tolist() == [0, 1, -1, 2, 1]
    multi = load(y=torch.tensor([[0, 1], [1, 1], [0, 0], [1, 0], [0, 0]]))
    assert build(multi, tmp_path / "store").multi_label
    assert load(num_classes=7).num_classes == 7


def test_a_mask_beside_a_list_of_its_set_tells_how_many_vertices_there_are(load):
    source = load(x=None, y=None, train_idx=torch.tensor([2, 0]), train_mask=TRAIN)
    assert source.num_vertices == 5  # vertex 4 is in no edge
    assert source.vertex_sets["train"].tolist() == [2, 0]


def test_of_several_masks_the_first_is_taken(load, caplog):
    with caplog.at_level(logging.INFO):
        source = load(train_mask=torch.stack([TRAIN, ~TRAIN], dim=1))
    assert source.vertex_sets["train"].tolist() == [0, 2]
    assert "train_mask has 2 columns" in caplog.text


def test_processed_datasets(tmp_path):
    data = Data(edge_index=EDGE_INDEX, x=X, y=Y)
    processed = tmp_path / "Cora" / "processed"
    processed.mkdir(parents=True)
    pyg_data.InMemoryDataset.save([data], str(processed / "data.pt"))
    torch.save("None", processed / "pre_filter.pt")
    torch.save("None", processed / "pre_transform.pt")
    for path in (tmp_path / "Cora", processed, processed / "data.pt"):
        source = load_pyg(path)
        assert source.name == "Cora"
        assert next(source.edges.chunks()).source.tolist() == [1, 0, 3, 1]
    torch.save((data, None), processed / "data.pt")  # as PyG did before 2.4
    assert load_pyg(processed).num_vertices == 5
    pyg_data.InMemoryDataset.save([data, data, data], str(processed / "data.pt"))
    with pytest.raises(InputError, match=r"data\.pt holds 3 graphs"):
        load_pyg(processed)
    torch.save(data, processed / "other.pt")
    with pytest.raises(InputError, match=r"should hold one \.pt file of a graph, but has data\.pt, other\.pt"):
        load_pyg(processed)


WRONG = [
    ({"edge_index": None}, "has neither edge_index nor adj_t; it has x, y"),
    ({"edge_index": EDGE_INDEX[0]}, r"edge_index must have the shape \(2, E\), not \(4,\)"),
    ({"edge_index": EDGE_INDEX * 0.5}, "edge_index must be integers"),
    ({"edge_index": "all"}, "edge_index is of type str"),
    ({"edge_index": None, "adj_t": torch.ones(5, 5)}, "adj_t is of type Tensor, not a sparse tensor"),
    ({"edge_index": None, "adj_t": torch.ones(5, 4).to_sparse()}, r"adj_t must be square, not of shape \(5, 4\)"),
    ({"edge_weight": torch.ones(3)}, "edge_weight must be 4 numbers, not float32 of shape"),
    ({"edge_weight": torch.ones(4, dtype=torch.complex64)}, "edge_weight is of type Tensor; expected a tensor of"),
    ({"x": torch.ones(5, 2, 2)}, r"x must be numbers of shape \(5, D\)"),
    ({"x": X[:3], "num_nodes": 5}, r"x must be numbers of shape \(5, D\), not float32 of shape \(3, 2\)"),
    ({"y": Y[:2]}, r"y must be numbers of shape \(5,\)"),
    ({"train_mask": TRAIN[:4]}, "train_mask must be a mask of the 5 vertices"),
    ({"val_mask": torch.tensor([0, 1, 2, 0, 0])}, "val_mask must be a mask of 5 booleans"),
    ({"val_mask": TRAIN, "valid_mask": ~TRAIN}, "val_mask and .*valid_mask are not the same vertices; remove one of"),
    ({"test_idx": torch.tensor([1, 5])}, r"test_idx\[1\] is 5, outside the vertices 0 \.\. 4"),
    ({"test_idx": torch.tensor([0.5])}, "test_idx must be integers"),
    ({"num_nodes": 0, "x": None, "y": None}, "the graph has no vertices"),
    ({"num_classes": -1}, "num_classes must be one integer"),
    ({"num_classes": torch.tensor([1, 2])}, "num_classes must be one integer"),
    ({"num_nodes": 5.0}, "num_nodes must be one integer"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_attributes_that_do_not_fit_are_named(load, changes, message):
    with pytest.raises(InputError, match=rf"data\.pt:? .*{message}|data\.pt: {message}") as error:
        load(**changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("edge", "message"), [(5, "3 -> 5"), (-1, "3 -> -1")])
def test_ids_beyond_the_count_are_named_with_their_edge(load, edge, message, tmp_path):
    edge_index = EDGE_INDEX.clone()
    edge_index[1, 2] = edge
    with pytest.raises(InputError, match=rf"data\.pt: edge 2: {message} names a vertex outside"):
        build(load(edge_index=edge_index), tmp_path / "store")


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('it ran')",))


def test_nothing_is_unpickled_blindly(tmp_path):
    file = tmp_path / "data.pt"
    for thing in (Bomb(), Data(edge_index=EDGE_INDEX, x=Bomb())):
        torch.save(thing, file)
        with pytest.raises(InputError, match=r"data\.pt holds Python objects \(.*exec\), which are never unpickled"):
            load_pyg(file)
    file.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match=r"data\.pt (is damaged|holds Python objects)") as error:
        load_pyg(file)
    assert "\n" not in str(error.value)


def test_other_kinds_of_graphs_are_refused_by_name(tmp_path):
    torch.save(pyg_data.TemporalData(), tmp_path / "data.pt")
    with pytest.raises(InputError, match=r"data\.pt is a TemporalData; graphs without times"):
        load_pyg(tmp_path / "data.pt")
    two = [pyg_data.HeteroData(paper={"x": torch.zeros(2, 3)})] * 2
    pyg_data.InMemoryDataset.save(two, str(tmp_path / "data.pt"))
    with pytest.raises(InputError, match="holds 2 graphs"):
        load_pyg(tmp_path / "data.pt")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, r"data\.pt is missing"),
        (lambda path: path.mkdir(), r"should hold one \.pt file of a graph, but has none"),
        (lambda path: path.touch(), r"data\.pt is damaged or not a file of torch\.save"),
        (lambda path: path.write_text("0 1\n"), r"data\.pt is damaged or not a file of torch\.save"),
        (lambda path: torch.save([1, 2], path), r"data\.pt holds a list; expected a torch_geometric\.data\.Data"),
    ],
    ids=["missing", "folder", "empty", "text", "list"],
)
def test_files_that_are_none(tmp_path, write, message):
    write(tmp_path / "data.pt")
    with pytest.raises(InputError, match=message):
        load_pyg(tmp_path / "data.pt")


def test_without_pyg_the_message_says_how_to_get_it(load, monkeypatch):
    load()
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(InputError, match=r"graphs of PyG need PyG .*pip install 'gsplit\[pyg\]'"):
        load_pyg(Path("data.pt"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "data.pt"
    torch.save(Data(edge_index=EDGE_INDEX, x=X, y=Y, train_mask=TRAIN), path)
    return path, path.read_bytes()


@example(at=130, mask=120)  # a line end in the name of a class
@given(at=st.integers(0, 1 << 16), mask=st.integers(0, 255))
def test_damage_of_any_byte_is_an_input_error_or_harmless(saved, at, mask):
    path, content = saved
    at %= len(content)
    # No mask stands for a file that was cut short.
    path.write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :] if mask else content[:at])
    try:
        source = load_pyg(path)
    except InputError as error:
        lines = str(error).splitlines()
        assert len(lines) == 1
        return
    assert next(source.edges.chunks()).source.shape == (4,)
