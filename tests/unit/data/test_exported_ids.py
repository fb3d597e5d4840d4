"""Ids of any kind -> store -> PyG, DGL, npz: the same ids; and where an import reads them, the same store."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.graphs import random_graph
from support.libraries import needs_dgl

import gsplit
from gsplit.data.exporters import export
from gsplit.data.importers import load_source
from gsplit.data.importers.formats.dgl import import_dgl
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition

TEXTS = 'src,dst,weight\nann,bob smith,2\n"ö, ""x""",ann,1\n7,007,3\n'
WHOLE = f"src,dst\n{2**62},-3\n7,{2**62}\n"
SEVERAL = "bank,account,to_bank,to_account\nx,1,y y,2\nx,3,x,1\n"
COLUMNS = {"source_column": "bank,account", "destination_column": "to_bank,to_account"}
SHORT = {"source_column": "a,b", "destination_column": "c,d"}
CASES = {
    "texts": (TEXTS, {}, {"id": ["ann", "bob smith", 'ö, "x"', "7", "007"]}),
    "whole": (WHOLE, {"id_column": "person"}, {"person": [2**62, -3, 7]}),
    "several": (SEVERAL, COLUMNS, {"bank": ["x", "y y", "x"], "account": [1, 2, 3]}),
    "several whole": ("a,b,c,d\n1,2,3,4\n5,6,1,2\n", SHORT, {"a": [1, 3, 5], "b": [2, 4, 6]}),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """A store with ids, and the ids by column."""
    edges, options, ids = CASES[request.param]
    (tmp_path / "e.csv").write_text(edges, encoding="utf-8")
    return gsplit.import_graph(tmp_path / "e.csv", tmp_path / "store", ids="any", **options), ids


def of_store(store):
    return {name: list(of) for name, of in store.ids().columns()}


@pytest.mark.parametrize("to", ["pt", "npz"])
@pytest.mark.parametrize("of", ["store", "layout"])
def test_ids_come_back(case, to, of, tmp_path):
    store, ids = case
    if of == "layout":
        partition(PartitionConfig(store=store.path, out=tmp_path / "layout", parts=2, method="deal"))
    export(tmp_path / of, {"pt": "pyg", "npz": "npz"}[to], tmp_path / f"file.{to}")
    back = gsplit.import_graph(tmp_path / f"file.{to}", tmp_path / "back", duplicates="keep")
    assert of_store(back) == ids
    assert (tmp_path / "back" / "ids.arrow").read_bytes() == (tmp_path / "store" / "ids.arrow").read_bytes()
    for array in ("indptr", "indices"):
        np.testing.assert_array_equal(getattr(back.graph, array), getattr(store.graph, array))


def test_npz_has_them_as_predictions_do(case, tmp_path):
    store, ids = case
    export(store, "npz", tmp_path / "file")
    with np.load(tmp_path / "file", allow_pickle=False) as arrays:
        there = {key: arrays[key] for key in arrays if key.startswith("ids_")}
    assert {key: array.tolist() for key, array in there.items()} == {f"ids_{name}": of for name, of in ids.items()}
    assert all((there[f"ids_{name}"].dtype == np.int64) == isinstance(of[0], int) for name, of in ids.items())


def test_pyg_has_them_by_vertex(case, tmp_path):
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    store, ids = case
    export(store, "pyg", tmp_path / "file")
    with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
        data = torch.load(tmp_path / "file", weights_only=True)
    data.validate(raise_on_error=True)
    assert data.vertex_id_columns == list(ids)
    there = data.vertex_ids if len(ids) > 1 else dict.fromkeys(ids, data.vertex_ids)
    for name, of in ids.items():
        assert isinstance(there[name], torch.Tensor) == isinstance(of[0], int)
        assert list(there[name]) == of
    assert of_store(gsplit.from_pyg(data.to("cpu"))) == ids
    if len(ids) == 1:  # a tensor or a list with an item for each vertex goes with the vertices
        kept = data.subgraph(torch.tensor([2, 0]))
        assert list(kept.vertex_ids) == [next(iter(ids.values()))[at] for at in (2, 0)]


@needs_dgl
def test_dgl_has_whole_numbers_and_says_where_the_texts_are(case, tmp_path, caplog):
    store, ids = case
    dgl = import_dgl()
    export(store, "dgl", tmp_path / "file")
    (graph,), _ = dgl.load_graphs(str(tmp_path / "file"))
    if any(isinstance(of[0], str) for of in ids.values()):
        assert "vertex_ids" not in graph.ndata
        assert f"the ids of the vertices are left out; node v is row v of {store.path / 'ids.arrow'}" in caplog.text
    else:
        rows = list(zip(*ids.values(), strict=True))
        assert graph.ndata["vertex_ids"].tolist() == [row[0] if len(row) == 1 else list(row) for row in rows]
        assert graph.ndata["vertex_ids"].dtype == torch.int64
        assert "left out" not in caplog.text


def test_ids_of_others_are_left_alone():
    from torch_geometric.data import Data

    data = Data(edge_index=torch.tensor([[0], [1]]), vertex_ids=torch.zeros(2, dtype=torch.int64), num_nodes=2)
    assert gsplit.from_pyg(data).ids() is None


def test_messages_call_vertices_by_these_ids(tmp_path):
    graph = random_graph(3, 1, seed=0)
    x = np.where(np.arange(3)[:, None] == 1, np.nan, np.ones((3, 2)))
    np.savez(tmp_path / "g.npz", indptr=graph.indptr, indices=graph.indices, x=x, ids_id=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match="the features of vertex 'b' hold NaN"):
        gsplit.import_graph(tmp_path / "g.npz", tmp_path / "g")


WRONG = [
    ({"ids_id": np.array(["a", "b"])}, "ids_id must be 3 whole numbers or texts, not <U1 of shape (2,)"),
    ({"ids_id": np.ones(3)}, "ids_id must be 3 whole numbers or texts, not float64"),
    ({"ids_id": np.array(["a", "b", "a"])}, "ids_id: the vertices 0 and 2 are both called 'a'"),
    ({"ids_id": np.array([7, 7, 1])}, "ids_id: the vertices 0 and 1 are both called '7'"),
    ({"ids_id": np.array(["a", "b", ""])}, "ids_id: the id of vertex 2 is empty"),
    ({"ids_id": np.array(["a", "b", "x\0y"])}, "ids_id: the id of vertex 2 holds a control character: 'x"),
    ({"ids_a": np.array(["a", "b", "x\x1fy"]), "ids_b": np.arange(3)}, "ids_a: the id of vertex 2 holds a control"),
    (
        {"ids_a": np.array([0, 0, 1]), "ids_b": np.zeros(3, int)},
        "ids_a: the vertices 0 and 1 are both called ('0', '0')",
    ),
    ({"ids_id": np.array(["a", "b", "\ud800"])}, "ids_id: an id holds half a character"),
]


@pytest.mark.parametrize(("arrays", "message"), WRONG)
def test_arrays_of_ids_that_are_none(arrays, message, tmp_path):
    graph = random_graph(3, 1, seed=0)
    np.savez(tmp_path / "g.npz", indptr=graph.indptr, indices=graph.indices, **arrays)
    with pytest.raises(InputError) as caught:
        load_source(str(tmp_path / "g.npz"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "names", "message"),
    [
        (["a"], ["id"], "vertex_ids must be an id for each of the 2 vertices, not 1"),
        ([1, 2], ["id"], "vertex_ids must be a list of texts or an array"),
        (["a", "b"], [], "each column needs a name of its own, and they are none"),
        (["a", "b"], ["x", "y"], "vertex_ids and vertex_id_columns name different columns"),
        ({"x": ["a", "b"]}, ["x", "x"], "each column needs a name of its own, and they are x, x"),
        (["a", "b"], "id", "vertex_id_columns must be a list of texts"),
    ],
)
def test_ids_of_pyg_that_are_none(ids, names, message):
    from torch_geometric.data import Data

    data = Data(edge_index=torch.tensor([[0], [1]]), vertex_ids=ids, vertex_id_columns=names, num_nodes=2)
    with pytest.raises(InputError, match=message):
        gsplit.from_pyg(data)
