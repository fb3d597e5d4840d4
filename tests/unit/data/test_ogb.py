"""The OGB importer, on folders as OGB's downloads unpack, a few vertices large."""

from __future__ import annotations

import gzip
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from support.stores import build, edges_of

from gsplit.data.importers.formats.ogb import load_ogb
from gsplit.data.importers.formats.zipped_arrays import zipped_arrays
from gsplit.errors import InputError

# 0 --> 1, 2 --> 1, 4 --> 0, 4 --> 1; vertex 3 is alone
EDGES = [(0, 1), (2, 1), (4, 0), (4, 1)]
X = np.array([[0.5, -1], [2, 3e-3], [0, 0], [7, 8], [9, 1]], np.float32)
Y = [3, 0, 46, 1, 2]
SPLIT = {"train": [4, 0], "valid": [2], "test": [1]}


def write_gz(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(",".join(map(str, np.atleast_1d(row).tolist())) + "\n" for row in rows)


def write_text(folder, split="sales_ranking", labels=Y, features=X):
    raw = folder / "raw"
    write_gz(raw / "edge.csv.gz", EDGES)
    write_gz(raw / "num-node-list.csv.gz", [5])
    write_gz(raw / "num-edge-list.csv.gz", [4])
    write_gz(raw / "node-label.csv.gz", labels)
    if features is not None:
        write_gz(raw / "node-feat.csv.gz", features)
    for name, ids in SPLIT.items():
        write_gz(folder / "split" / split / f"{name}.csv.gz", ids)
    return raw


def write_binary(folder, save=np.savez_compressed, **changes):
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    arrays = {
        "edge_index": np.array(EDGES).T.copy(),
        "node_feat": X,
        "node_year": np.zeros((5, 1), int),
        "num_nodes_list": np.array([5]),
        "num_edges_list": np.array([4]),
        **changes,
    }
    save(raw / "data.npz", **{key: array for key, array in arrays.items() if array is not None})
    labels = np.array([[3], [0], [171], [np.nan], [2]], np.float32)
    np.savez_compressed(raw / "node-label.npz", node_label=labels)
    for name, ids in SPLIT.items():
        write_gz(folder / "split" / "time" / f"{name}.csv.gz", ids)
    return raw


@pytest.fixture
def products(tmp_path):
    """The raw folder of an ogbn-products; load() reads it as a store would."""
    return write_text(tmp_path / "ogbn_products")


@pytest.fixture
def papers(tmp_path):
    return write_binary(tmp_path / "ogbn_papers100M")


def test_products_are_read_with_their_inverse_edges(products, tmp_path):
    source = load_ogb("ogbn-products", tmp_path)
    chunk = next(source.edges.chunks())
    # Each edge, then its inverse: the order of OGB's loader.
    assert list(zip(chunk.source.tolist(), chunk.destination.tolist(), strict=True)) == [
        (0, 1),
        (1, 0),
        (2, 1),
        (1, 2),
        (4, 0),
        (0, 4),
        (4, 1),
        (1, 4),
    ]
    assert source.edges.count == 8
    graph = build(source, tmp_path / "store")
    assert graph.indptr.tolist() == [0, 2, 5, 6, 6, 8]
    assert graph.indices.tolist() == [1, 4, 0, 2, 4, 1, 0, 1]
    np.testing.assert_array_equal(graph.features, X)
    assert graph.labels.tolist() == Y
    assert graph.num_classes == 47
    assert [graph.train_idx.tolist(), graph.valid_idx.tolist(), graph.test_idx.tolist()] == [[4, 0], [2], [1]]
    assert source.name == "ogbn-products"


def test_citations_keep_their_direction(tmp_path):
    write_text(tmp_path / "ogbn_arxiv", split="time", labels=[1, 0, 39, 1, 2])
    graph = build(load_ogb("ogbn-arxiv", tmp_path), tmp_path / "store")
    assert sorted(edges_of(graph)) == sorted(EDGES)
    assert graph.num_classes == 40


def test_proteins_are_multi_label_without_features(tmp_path):
    labels = np.zeros((5, 112), int)
    labels[1, 3] = labels[4, 111] = 1
    write_text(tmp_path / "ogbn_proteins", split="species", labels=labels, features=None)
    graph = build(load_ogb("ogbn-proteins", tmp_path), tmp_path / "store")
    assert graph.multi_label
    assert graph.features is None
    assert graph.num_edges == 8
    np.testing.assert_array_equal(graph.labels, labels)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_papers_are_read_from_the_binary_form(tmp_path, save, order):
    write_binary(tmp_path / "ogbn_papers100M", save, edge_index=np.array(np.array(EDGES).T, order=order))
    source = load_ogb("ogbn-papers100M", tmp_path)
    graph = build(source, tmp_path / "store")
    assert edges_of(graph) == [(4, 0), (0, 1), (2, 1), (4, 1)]
    np.testing.assert_array_equal(graph.features, X)
    assert graph.labels.tolist() == [3, 0, 171, -1, 2]
    assert graph.num_classes == 172
    assert [graph.train_idx.tolist(), graph.valid_idx.tolist(), graph.test_idx.tolist()] == [[4, 0], [2], [1]]


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_come_in_pieces(tmp_path, order, monkeypatch):
    monkeypatch.setattr("gsplit.data.importers.formats.ogb.EDGES_AT_ONCE", 3)
    monkeypatch.setattr("gsplit.data.importers.formats.ogb.NUMBERS_AT_ONCE", 5)
    write_binary(tmp_path / "ogbn_papers100M", edge_index=np.array(np.array(EDGES).T, order=order))
    source = load_ogb("ogbn-papers100M", tmp_path)
    chunks = list(source.edges.chunks())
    assert [chunk.source.tolist() for chunk in chunks] == [[0, 2, 4], [4]]
    assert [chunk.destination.tolist() for chunk in chunks] == [[1, 1, 0], [1]]
    rows = list(source.features.chunks())
    assert [len(piece) for piece in rows] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(rows), X)


def test_a_piece_is_all_that_is_held(tmp_path):
    """64 MiB of features through less than 4 MiB of memory."""
    np.savez_compressed(tmp_path / "data.npz", x=np.zeros((1 << 20, 16), np.float32))
    array = zipped_arrays(tmp_path / "data.npz")["x"]
    tracemalloc.start()
    total = sum(len(piece) for piece in array.flat(0, 1 << 24, at_once=1 << 16))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 1 << 24
    assert peak_bytes < 4 << 20


@pytest.mark.parametrize("folder", ["ogbn_products", "ogbn_products_pyg", "products", "."])
def test_where_the_folder_may_be(tmp_path, folder):
    write_text(tmp_path / folder)
    assert load_ogb("ogbn-products", tmp_path).num_vertices == 5


@pytest.mark.parametrize("convert", [np.array, torch.tensor])
def test_split_dict(products, tmp_path, convert):
    folder = products.parent / "split" / "sales_ranking"
    torch.save({name: convert(ids[::-1]) for name, ids in SPLIT.items()}, folder / "split_dict.pt")
    assert load_ogb("ogbn-products", tmp_path).vertex_sets["train"].tolist() == [0, 4]
    torch.save({"train": torch.tensor([0])}, folder / "split_dict.pt")
    with pytest.raises(InputError, match=r"split_dict\.pt must hold a dict of train, valid, test"):
        load_ogb("ogbn-products", tmp_path)


def test_names_that_are_not_known(tmp_path):
    with pytest.raises(InputError, match="no dataset is called 'ogbn-cora'; choose one of ogbn-products"):
        load_ogb("ogbn-cora", tmp_path)
    with pytest.raises(InputError, match="ogbl-biokg is of links of several types"):
        load_ogb("ogbl-biokg", tmp_path)
    with pytest.raises(InputError, match=r"ogbn-arxiv is not in .*: there is no .*ogbn_arxiv/raw; download it"):
        load_ogb("ogbn-arxiv", tmp_path)


TEXT_FILES = [
    ("edge", [*EDGES, (1, "x")], r"edge\.csv\.gz, line 5: 'x' is not a whole number"),
    ("edge", [*EDGES, (1, 2, 3)], r"edge\.csv\.gz, line 5: 3 columns, not 2"),
    ("edge", [0, 1], r"edge\.csv\.gz has 1 columns, not 2"),
    ("edge", EDGES[:3], r"edge\.csv\.gz has 3 edges; num-edge-list\.csv\.gz says 4"),
    ("edge", [*EDGES[:3], (2, 5)], r"edge\.csv\.gz, line 4: 2 -> 5 names a vertex outside the vertices 0 \.\. 4"),
    ("edge", [*EDGES[:2], (-1, 2), (0, 0)], r"edge\.csv\.gz, line 3: -1 -> 2 names a vertex"),
    ("num-node-list", [5, 5], r"num-node-list\.csv\.gz must hold one count of 1 or more, not \[5, 5\]"),
    ("num-node-list", [0], r"num-node-list\.csv\.gz must hold one count"),
    ("num-node-list", [6], r"node-label\.csv\.gz: the table must be numbers of shape \(6,\)"),
    ("node-label", Y[:4], r"node-label\.csv\.gz: the table must be numbers of shape \(5,\)"),
    ("node-label", [3, 0, 1.5, 1, 2], r"node-label\.csv\.gz: the table\[2\] is 1\.5, not a class"),
    ("node-label", [[0, 1]] * 5, r"the labels have 2 columns; ogbn-products has 47"),
    ("node-feat", X[:4], r"node-feat\.csv\.gz has 4 rows; the graph has 5 vertices"),
    ("node-feat", [*X, X[0]], r"node-feat\.csv\.gz has more than 5 rows; the graph has 5 vertices"),
    ("node-feat", [*X[:4], ("a", 1)], r"node-feat\.csv\.gz, line 5: 'a' is not a number"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "rows", "message"), TEXT_FILES, ids=[message[:40] for *_, message in TEXT_FILES])
def test_tables_that_do_not_fit_are_named(products, tmp_path, name, rows, message):
    write_gz(products / f"{name}.csv.gz", [np.array(row, object) if isinstance(row, tuple) else row for row in rows])
    with pytest.raises(InputError, match=message) as error:
        build(load_ogb("ogbn-products", tmp_path), tmp_path / "store")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["edge", "num-node-list", "node-label"])
def test_tables_that_are_missing_or_damaged(products, tmp_path, name):
    path = products / f"{name}.csv.gz"
    whole = path.read_bytes()
    for content in (None, b"", b"0,1\n", whole[:-9]):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}\.csv\.gz"):
            build(load_ogb("ogbn-products", tmp_path), tmp_path / "store")


def test_splits_that_do_not_fit(products, tmp_path):
    path = products.parent / "split" / "sales_ranking" / "valid.csv.gz"
    write_gz(path, [1, 5])
    with pytest.raises(InputError, match=r"valid\.csv\.gz\[1\] is 5, outside the vertices 0 \.\. 4"):
        load_ogb("ogbn-products", tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"valid\.csv\.gz"):
        load_ogb("ogbn-products", tmp_path)


BINARY = [
    ({"edge_index": None}, r"data\.npz has no array 'edge_index'; it has node_feat"),
    ({"num_nodes_list": None}, r"data\.npz has no array 'num_nodes_list'"),
    ({"num_nodes_list": np.array([5, 5])}, "num_nodes_list must hold one count"),
    ({"edge_index": np.array(EDGES)}, r"edge_index must be integers of shape \(2, E\), not int64 \(4, 2\)"),
    ({"edge_index": np.ones((2, 4))}, "edge_index must be integers"),
    ({"edge_index": np.array([[0, 1], [2, 9]])}, r"data\.npz, edge_index\[:, 1\]: 1 -> 9 names a vertex outside"),
    ({"node_feat": X[:3]}, r"node_feat must be rows of shape \(5, D\), not of shape \(3, 2\)"),
    ({"node_feat": np.asfortranarray(X)}, "node_feat must be rows .*column by column"),
    ({"node_feat": np.full((5, 2), "a")}, "node_feat holds <U1, not numbers"),
    ({"node_feat": np.array([[None] * 2] * 5)}, "node_feat holds object, not numbers"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("changes", "message"), BINARY, ids=[message[:40] for _, message in BINARY])
def test_arrays_that_do_not_fit_are_named(tmp_path, changes, message):
    write_binary(tmp_path / "ogbn_papers100M", **changes)
    with pytest.raises(InputError, match=message) as error:
        build(load_ogb("ogbn-papers100M", tmp_path), tmp_path / "store")
    assert "\n" not in str(error.value)


def test_a_zero_byte_array_in_the_archive(papers, tmp_path):
    with zipfile.ZipFile(papers / "node-label.npz", "w") as archive:
        archive.writestr("node_label.npy", b"")
    with pytest.raises(InputError, match=r"node-label\.npz: node_label is damaged or not of an \.npz"):
        load_ogb("ogbn-papers100M", tmp_path)
    (papers / "node-label.npz").write_bytes(b"")
    with pytest.raises(InputError, match=r"node-label\.npz: the archive is damaged"):
        load_ogb("ogbn-papers100M", tmp_path)
    (papers / "node-label.npz").unlink()
    with pytest.raises(InputError, match=r"node-label\.npz is missing"):
        load_ogb("ogbn-papers100M", tmp_path)


def test_an_array_that_ends_too_soon(papers, tmp_path):
    with zipfile.ZipFile(papers / "data.npz") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(papers / "data.npz", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content[:-4] if name == "node_feat.npy" else content)
    with pytest.raises(InputError, match=r"data\.npz: node_feat ends too soon"):
        build(load_ogb("ogbn-papers100M", tmp_path), tmp_path / "store")


def test_damage_of_any_byte_is_an_input_error_or_harmless(papers, tmp_path):
    """Every 7th byte of the archive, one after the other: headers, compressed arrays, directory."""
    content = (papers / "data.npz").read_bytes()
    for at in range(0, len(content), 7):
        (papers / "data.npz").write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            source = load_ogb("ogbn-papers100M", tmp_path)
            pairs = [np.stack([chunk.source, chunk.destination], axis=1) for chunk in source.edges.chunks()]
            rows = None if source.features is None else list(source.features.chunks())
        except InputError as error:
            lines = str(error).splitlines()
            assert len(lines) == 1
            continue
        assert np.concatenate(pairs).tolist() == [list(edge) for edge in EDGES]
        assert rows is None or np.array_equal(np.concatenate(rows), X)
