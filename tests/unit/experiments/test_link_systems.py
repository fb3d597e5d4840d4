"""Epochs of links beside DGL's: what is compared, and what is written of it."""

from __future__ import annotations

import json

import numpy as np
from support.documents import undocumented
from support.graphs import random_graph
from support.libraries import needs_dgl

from experiments.links import systems


def test_ratios_are_of_runs_in_turn(tmp_path, monkeypatch):
    ours, theirs = iter([1.0, 2.0, 4.0]), iter([3.0, 5.0, 9.0])
    monkeypatch.setattr(systems, "_ours", lambda *_: next(ours))
    monkeypatch.setattr(systems, "_dgl", lambda *_: next(theirs))
    out = tmp_path / "out.json"
    words = ["--dataset", "synthetic:tiny", "--fan-out", "4,3", "--batch-size", "20"]
    systems.command([*words, "--work", str(tmp_path), "--json", str(out)])
    result = json.loads(out.read_text())
    assert [each["ratio"] for each in result["rounds"]] == [3.0, 2.5, 2.25]
    assert result["ratio"] == 2.5
    assert undocumented("Systems of links", {*result, *result["rounds"][0]}) == []


@needs_dgl
def test_reverse_edges_are_those_of_a_loop():
    from experiments.links.dgl_links import reverse_edges

    graph = random_graph(30, 6, seed=2)
    destinations = np.repeat(np.arange(30), np.diff(graph.indptr))
    pairs = list(zip(graph.indices.tolist(), destinations.tolist(), strict=True))
    for edge, reverse in enumerate(reverse_edges(graph.indptr, graph.indices).tolist()):
        source, destination = pairs[edge]
        if (destination, source) in pairs:
            assert pairs[reverse] == (destination, source)
        else:
            assert reverse == edge
