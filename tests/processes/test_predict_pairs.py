"""Scores and neighbours are those of all vectors on one processor, whatever the layout, the trainers, the request."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from support.graphs import lay_out
from support.links import linked_graph
from support.messages import line_with

import gsplit
from gsplit.errors import InputError
from gsplit.models.saved import load

PAIRS = np.array([[5, 7], [119, 0], [5, 7], [3, 3], [60, 61]])
ASKED = np.array([7, 119, 7, 0])
K = 6
RUNS = {}
"""What has been trained, by decoder."""


@pytest.fixture(scope="module")
def graph():
    return linked_graph(given=True, hard=3)


@pytest.fixture(scope="module")
def lay(graph, tmp_path_factory):
    place = tmp_path_factory.mktemp("layouts")
    return lambda parts, method="metis": lay_out(graph, place / method, parts=parts, method=method)


@pytest.fixture
def runs(here, lay, tmp_path_factory):
    """A run by each decoder."""

    def run(score):
        if score not in RUNS:
            out = tmp_path_factory.mktemp("runs") / score
            asked = {"task": "links", "fan_out": (4, 3), "batch_size": 60, "hidden": 8, "epochs": 1, "score": score}
            where = {"layout": lay(1).path, "out": out, "device": "cpu", "threads": 1, "samplers": 0}
            gsplit.train(config=gsplit.TrainConfig(**where, **asked, dtype="float64"))
            RUNS[score] = out
        return RUNS[score]

    return run


@pytest.fixture
def predict(here):
    return lambda run, layout, **options: gsplit.predict(run, layout.path, device="cpu", threads=1, **options)


def reference(run, vectors):
    """Scores of all pairs of vertices."""
    n = len(vectors)
    h = torch.from_numpy(np.array(vectors))
    with torch.no_grad():
        return load(run).pair_decoder(h.repeat_interleave(n, 0), h.repeat(n, 1)).view(n, n).numpy()


def known_of(graph):
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return {*zip(graph.indices.tolist(), destination.tolist(), strict=True), *map(tuple, graph.links.train.tolist())}


def best_of(scores, u, candidates, known):
    among = [c for c in candidates if c != u and (u, c) not in known]
    return sorted(among, key=lambda c: (-scores[u, c].round(9), c))[:K]


@pytest.mark.parametrize("score", ["dot", "cosine", "distmult", "mlp"])
def test_scores_of_pairs(predict, runs, lay, score):
    run = runs(score)
    scores = reference(run, predict(run, lay(1), what="embeddings"))
    for layout in (lay(1), lay(2), lay(4, "random")):
        found = predict(run, layout, what="scores", pairs=PAIRS)
        np.testing.assert_allclose(found, scores[tuple(PAIRS.T)], rtol=0, atol=1e-10)
        assert found[0] == found[2]


@pytest.mark.cases(3)
@pytest.mark.parametrize("known", ["drop", "keep"])
@pytest.mark.parametrize("score", ["dot", "cosine", "mlp"])
def test_neighbours_of_vertices(predict, runs, lay, graph, score, known):
    run = runs(score)
    scores = reference(run, predict(run, lay(1), what="embeddings"))
    of_training = known_of(graph) if known == "drop" else set()
    some = np.arange(0, 120, 3)
    for layout in (lay(1), lay(3), lay(4, "random")):
        for candidates in ("all", some):
            if score == "mlp" and isinstance(candidates, str):
                continue
            found = predict(
                run, layout, what="neighbours", vertices=ASKED, candidates=candidates, top_k=K, known=known
            )
            assert found.shape == (len(ASKED), K)
            for u, of_vertex in zip(ASKED.tolist(), found, strict=True):
                among = range(120) if isinstance(candidates, str) else candidates.tolist()
                wanted = best_of(scores, u, among, of_training)
                assert of_vertex["neighbour"].tolist() == wanted
                np.testing.assert_allclose(of_vertex["score"], scores[u, wanted], rtol=0, atol=1e-10)


def test_neighbours_are_as_many_as_there_are(predict, runs, lay):
    found = predict(runs("dot"), lay(2), what="neighbours", vertices=[3], candidates=[3, 8], top_k=4, known="keep")
    assert found["neighbour"].tolist() == [[8, -1, -1, -1]]
    assert np.isnan(found["score"][0]).tolist() == [False, True, True, True]


def test_vectors_may_be_of_samples(predict, runs, lay):
    asked = {"what": "scores", "pairs": PAIRS}
    exact = predict(runs("dot"), lay(2), **asked)
    alone = predict(runs("dot"), lay(1), fan_out=(2, 2), batch_size=3, **asked)
    both = predict(runs("dot"), lay(2), fan_out=(2, 2), batch_size=3, **asked)
    np.testing.assert_allclose(alone, both, rtol=0, atol=1e-10)
    assert np.abs(alone - exact).max() > 1e-6


def test_files_have_ids_and_scores(predict, runs, lay, tmp_path):
    np.savetxt(tmp_path / "pairs.csv", PAIRS, fmt="%d", delimiter=",")
    found = predict(runs("dot"), lay(2), what="scores", pairs=tmp_path / "pairs.csv", out=tmp_path / "scores.csv")
    rows = list(csv.reader((tmp_path / "scores.csv").open()))
    assert rows[0] == ["source", "destination", "score"]
    assert [[int(u), int(v)] for u, v, _ in rows[1:]] == PAIRS.tolist()
    assert [float(score) for *_, score in rows[1:]] == found.tolist()
    predict(runs("dot"), lay(2), what="scores", pairs=PAIRS, out=tmp_path / "scores.npz")
    with np.load(tmp_path / "scores.npz") as arrays:
        assert arrays["pairs"].tolist() == PAIRS.tolist()
        assert arrays["scores"].tolist() == found.tolist()
    asked = {"what": "neighbours", "vertices": ASKED, "candidates": [0, 7, 9], "known": "keep", "top_k": 3}
    found = predict(runs("dot"), lay(2), **asked, out=tmp_path / "best.csv")
    rows = list(csv.reader((tmp_path / "best.csv").open()))
    assert rows[0] == ["source", "destination", "rank", "score"]
    written = [(int(u), int(v), int(rank), float(score)) for u, v, rank, score in rows[1:]]
    assert written == [
        (int(u), int(v), at + 1, float(score))
        for u, of_vertex in zip(ASKED, found, strict=True)
        for at, (v, score) in enumerate(of_vertex)
        if v >= 0
    ]
    predict(runs("dot"), lay(2), **asked, out=tmp_path / "best.npz")
    with np.load(tmp_path / "best.npz") as arrays:
        assert arrays["vertices"].tolist() == ASKED.tolist()
        assert arrays["neighbours"].tolist() == found["neighbour"].tolist()
        np.testing.assert_array_equal(arrays["scores"], found["score"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ("learned links", "--what scores", "neighbours", "embeddings")),
        ({"what": "classes"}, ("learned links", "--what scores")),
        ({"what": "scores"}, ("--what scores", "--pairs")),
        ({"pairs": PAIRS}, ("--what scores", "--pairs")),
        ({"what": "scores", "pairs": PAIRS, "vertices": [3]}, ("--vertices", "--pairs")),
        ({"what": "scores", "pairs": [[0, 120]]}, ("pair number 1", "120", "0 .. 119")),
        ({"what": "scores", "pairs": np.empty((0, 2), int)}, ("no pair",)),
        ({"what": "scores", "pairs": [[0, 1, 2]]}, ("(M, 2)",)),
        ({"what": "embeddings", "top_k": 3}, ("--top-k", "neighbours")),
        ({"what": "neighbours", "candidates": [120], "vertices": [0]}, ("candidates", "120")),
    ],
    ids=range(10),
)
def test_what_does_not_go_together_is_refused(predict, runs, lay, options, words):
    with pytest.raises(InputError, match=line_with(*words)):
        predict(runs("dot"), lay(1), **options)


def test_an_mlp_is_not_called_on_all(predict, runs, lay):
    with pytest.raises(InputError, match=line_with("mlp, --candidates")):
        predict(runs("mlp"), lay(1), what="neighbours")
