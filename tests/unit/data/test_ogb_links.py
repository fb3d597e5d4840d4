"""OGB's link property datasets: pairs of a split, candidates of each or of all."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import torch

import gsplit
from gsplit.data.inspect.link_counts import link_counts
from gsplit.errors import InputError

EDGES = [(0, 1), (1, 2), (2, 3)]


def write(folder, split, parts, features=None):
    raw = folder / "raw"
    raw.mkdir(parents=True)
    files = {"edge": EDGES, "num-node-list": [(6,)], "num-edge-list": [(3,)], "node-feat": features}
    for name, rows in files.items():
        if rows is not None:
            with gzip.open(raw / f"{name}.csv.gz", "wt") as file:
                file.writelines(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "split" / split).mkdir(parents=True)
    for name, part in parts.items():
        torch.save(part, folder / "split" / split / f"{name}.pt")


def test_one_list_of_negatives_for_all(tmp_path):
    pairs = {"train": EDGES, "valid": [(4, 0), (3, 0)], "test": [(5, 1)]}
    parts = {
        name: {"edge": torch.tensor(of), "edge_neg": torch.tensor([(0, 5), (1, 4)]), "year": np.arange(len(of))}
        for name, of in pairs.items()
    }
    write(tmp_path / "ogbl_collab", "time", parts, features=[(vertex, 1) for vertex in range(6)])
    graph = gsplit.import_graph("ogb:ogbl-collab", tmp_path / "store", root=tmp_path).graph
    assert graph.indices.tolist() == [1, 0, 2, 1, 3, 2]  # both ways
    assert graph.features[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert graph.num_classes == 0
    assert graph.links.train.tolist() == [list(pair) for pair in EDGES]  # one way
    assert graph.links.valid.tolist() == [[3, 0], [4, 0]]
    assert graph.links.test.tolist() == [[5, 1]]
    for name in ("valid", "test"):
        assert getattr(graph.links, f"{name}_negatives").tolist() == [[0, 5], [1, 4]]
    assert graph.links.hard_negatives is None


def test_pairs_that_come_again_in_a_later_year(tmp_path):
    """As in ogbl-collab: who has written together writes together again."""
    pairs = {"train": [*EDGES, (0, 1)], "valid": [(1, 0), (4, 0)], "test": [(1, 2), (4, 0), (5, 1)]}
    negatives = torch.tensor([(0, 5), (1, 4)])
    parts = {name: {"edge": torch.tensor(of), "edge_neg": negatives} for name, of in pairs.items()}
    write(tmp_path / "ogbl_collab", "time", parts)
    with pytest.raises(InputError, match="4 message edges are validation or test pairs or their reverses"):
        gsplit.import_graph("ogb:ogbl-collab", tmp_path / "store", root=tmp_path)
    kept = gsplit.import_graph("ogb:ogbl-collab", tmp_path / "store", root=tmp_path, leaks="keep")
    assert kept.graph.num_edges == 6
    assert {name: kept.graph.links.edge_set(name).tolist() for name in pairs} == {
        "train": [[0, 1], [0, 1], [1, 2], [2, 3]],
        "valid": [[1, 0], [4, 0]],
        "test": [[4, 0], [5, 1], [1, 2]],
    }
    assert link_counts(kept).shared == {("test", "train"): 1, ("valid", "test"): 1}
    dropped = gsplit.import_graph("ogb:ogbl-collab", tmp_path / "dropped", root=tmp_path, leaks="drop").graph
    assert dropped.indices.tolist() == [3, 2]
    assert dropped.links.train.tolist() == [[2, 3]]
    assert dropped.links.valid.tolist() == [[1, 0]]
    assert dropped.links.test.tolist() == kept.graph.links.test.tolist()


def test_candidates_of_each_pair(tmp_path):
    parts = {
        name: {"source_node": np.array(of)[:, 0], "target_node": np.array(of)[:, 1]}
        for name, of in (("train", EDGES), ("valid", [(3, 1), (2, 0)]), ("test", [(4, 5)]))
    }
    parts["valid"]["target_node_neg"] = np.array([[5, 4, 0], [3, 1, 5]])
    parts["test"]["target_node_neg"] = np.array([[0, 1]])
    write(tmp_path / "ogbl_citation2", "time", parts)
    graph = gsplit.import_graph("ogb:ogbl-citation2", tmp_path / "store", root=tmp_path).graph
    assert graph.num_edges == 3
    assert graph.links.valid.tolist() == [[2, 0], [3, 1]]
    assert graph.links.valid_candidates.tolist() == [[3, 1, 5], [5, 4, 0]]
    assert graph.links.test_candidates.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("part", "words"),
    [([1, 2], "dict"), ({"edge": torch.zeros(3, 3, dtype=torch.int64)}, r"\(M, 2\)"), ({"head": 1}, "source_node")],
)
def test_other_contents_are_refused(tmp_path, part, words):
    whole = {"edge": torch.tensor(EDGES)}
    write(tmp_path / "ogbl_ddi", "target", {"train": part, "valid": whole, "test": whole})
    with pytest.raises(InputError, match=rf"train.*{words}"):
        gsplit.import_graph("ogb:ogbl-ddi", tmp_path / "store", root=tmp_path)
