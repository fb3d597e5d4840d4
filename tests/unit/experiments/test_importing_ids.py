"""What experiments.micro.importing_ids writes is what it says it writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.micro import importing_ids
from gsplit.data.api import import_graph


def test_both_edge_lists_are_one_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(importing_ids, "ROWS_AT_ONCE", 64)
    importing_ids.write_edges(tmp_path, 300, seed=1)
    whole, named = (
        import_graph(importing_ids.edges_of(tmp_path, ids), tmp_path / f"{ids}-store", ids=ids)
        for ids in importing_ids.KINDS
    )
    vertices = named.ids().find([importing_ids.text_of(vertex) for vertex in range(300)], "here")
    assert sorted(vertices.tolist()) == list(range(300))
    ours, theirs = whole.graph, named.graph
    assert np.diff(ours.indptr).tolist() == [1] * 300
    assert [vertices[source] for source in ours.indices] == [theirs.indices[theirs.indptr[v]] for v in vertices]


@pytest.mark.slow
def test_pairs_are_measured_and_nothing_is_left(tmp_path, capsys):
    work = tmp_path / "work"
    importing_ids.command(["--vertices", "200", "--pairs", "1", "--work", str(work), "--json", f"{tmp_path}/i.json"])
    result = json.loads((tmp_path / "i.json").read_text())
    assert result["settings"] == {"vertices": 200, "edges": 200, "pairs": 1, "seed": 0}
    assert result["file_bytes"] == {"whole": result["file_bytes"]["whole"], "any": 8 + 200 * 44}
    (pair,) = result["pairs"]
    for ids in importing_ids.KINDS:
        assert pair[ids]["seconds"] > 0
        assert pair[ids]["processor_seconds"] > 0
        assert 2**20 < pair[ids]["peak_bytes"] < 2**34
    assert pair["ratio"] == pair["any"]["seconds"] / pair["whole"]["seconds"]
    assert "| whole | any | ratio |" in capsys.readouterr().out
    assert list(work.iterdir()) == []
