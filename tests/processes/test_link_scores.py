"""Pairs are scored as by brute force over all vectors, and the same to the last bit by any trainers and threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.models import make_model
from support.runs import config_for

from gsplit.data.links.edge_sets import Links, pair_order
from gsplit.device.precision import Precision
from gsplit.engine.evaluation import evaluation_memory, ranking
from gsplit.engine.evaluation.evaluation_memory import evaluated
from gsplit.engine.evaluation.links import LinkEvaluator
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.tasks.links import for_links
from gsplit.errors import InputError
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.launch.resolve import resolve
from gsplit.models.prepared import prepare
from gsplit.nn.decoders import MLP, Cosine, DistMult, Dot

N, LAYERS, WIDTH, K = 240, 2, 6, 9
METRICS = ("mrr", "hits@1", "hits@10", "auroc", "ap", "ogb-hits@5")
DECODERS = {"dot": Dot(), "cosine": Cosine(), "distmult": DistMult(WIDTH), "mlp": MLP(WIDTH, 5)}


def in_order(pairs):
    return pairs[pair_order(pairs)]


@pytest.fixture(scope="module")
def graph():
    """Each feature row stands several times, and some vertices have no in-edges, so there are ties."""
    random = np.random.default_rng(4)
    graph = random_graph(N, 9, seed=8)
    features = np.asarray(graph.features)[random.integers(0, 5, N)]
    pairs = random.permutation(N * N)[:150]
    pairs = np.stack([pairs // N, pairs % N], axis=1)
    links = Links(
        train=in_order(pairs[:60]),
        valid=in_order(pairs[60:100]),
        test=in_order(pairs[100:]),
        valid_candidates=random.integers(0, N, (40, K)),
        test_negatives=random.integers(0, N, (30, 2)),
    )
    return replace(graph, features=features, links=links)


@pytest.fixture(scope="module")
def lay(graph, tmp_path_factory):
    place = tmp_path_factory.mktemp("layouts")
    return lambda parts, method="metis": lay_out(graph, place / method, parts=parts, method=method)


def scored(member, layout, decoder, candidates, name, threads, piece=None, fan_outs=None, infinite=False, hosts=1):
    """The scores of a set of pairs, what they are said to be, and on trainer 0 all vectors by global ids."""
    member = replace(member, hosts=hosts)
    model, needs = prepare(make_model("sage", layout.graph.num_features, WIDTH, LAYERS))
    model.double()
    if infinite:
        torch.nn.init.constant_(next(model.parameters()), torch.inf)
    dtype = torch.float64
    features = FeatureLoader(
        HostRows(layout.graph.features), device=member.device, dtype=dtype, normalize=False, threads=1
    )
    edges = EdgeLoader(layout.graph, device=member.device, dtype=dtype, **needs)
    evaluator = LinkEvaluator(
        layout,
        member,
        SplitLoader(layout, member.device, features, edges),
        pool_module.shared_of(member).levels,
        width=WIDTH,
        metrics=METRICS,
        candidates=candidates,
        seed=5,
        num_layers=LAYERS,
        precision=Precision(dtype=dtype),
        threads=threads,
        fan_outs=fan_outs,
    )
    before = ranking.PIECE_ENTRIES
    ranking.PIECE_ENTRIES = piece or before
    try:
        scores = evaluator.scores(model, decoder.double(), name)
    finally:
        ranking.PIECE_ENTRIES = before
    vectors = np.zeros((N, WIDTH))
    for chunk, rows in evaluator._last(model, np.arange(N)):
        vectors[layout.permutation[chunk]] = rows.numpy()
    return scores, evaluator.ranking(name), vectors


def by_rank(ranks):
    return {"mrr": (1 / ranks).mean(), "hits@1": (ranks <= 1).mean(), "hits@10": (ranks <= 10).mean()}


def brute(graph, vectors, decoder, name, candidates):
    """Metrics by loops; candidates of pair i are candidates[i], of all vertices that are not known for None."""
    links, pairs = graph.links, graph.links.edge_set(name)
    destination = np.repeat(np.arange(N), np.diff(graph.indptr))
    known = set(zip(graph.indices.tolist(), destination.tolist(), strict=True)) | set(
        map(tuple, links.train.tolist())
    )
    if name == "test":
        known |= set(map(tuple, links.valid.tolist()))
    h = torch.from_numpy(vectors)
    with torch.no_grad():
        scores = decoder(h.repeat_interleave(N, 0), h.repeat(N, 1)).view(N, N).numpy().round(9)
    ranks = []
    for i, (u, v) in enumerate(pairs.tolist()):
        among = [c for c in range(N) if c not in (u, v) and (u, c) not in known]
        found = scores[u, among if candidates is None else candidates[i]]
        ranks.append(1 + (found > scores[u, v]).sum() + (found == scores[u, v]).sum() / 2)
    return by_rank(np.array(ranks)), scores


@pytest.mark.parametrize("decoder", DECODERS)
def test_scores_among_all_are_those_of_brute_force(pool, lay, graph, decoder):
    found = pool.run(3, scored, lay(3), DECODERS[decoder], "all", "test", 1)
    vectors = sum(each for _, _, each in found)
    wanted, _ = brute(graph, vectors, DECODERS[decoder].double(), "test", None)
    assert {each: found[0][0][each] for each in wanted} == pytest.approx(wanted, rel=0, abs=1e-12)


def test_scores_among_given_candidates_are_those_of_brute_force(pool, lay, graph):
    found = pool.run(2, scored, lay(2), DECODERS["dot"], "given", "valid", 1)
    vectors = sum(each for _, _, each in found)
    wanted, _ = brute(graph, vectors, Dot(), "valid", graph.links.valid_candidates)
    assert {each: found[0][0][each] for each in wanted} == pytest.approx(wanted, rel=0, abs=1e-12)


def test_scores_beside_a_list_of_negatives_are_those_of_scikit_learn(pool, lay, graph):
    found = pool.run(3, scored, lay(3), DECODERS["dot"], "auto", "test", 1)
    vectors, links = sum(each for _, _, each in found), graph.links
    _, scores = brute(graph, vectors, Dot(), "test", [[0]] * len(links.test))
    positive, negative = scores[tuple(links.test.T)], scores[tuple(links.test_negatives.T)]
    true, both = np.repeat([1, 0], [len(positive), len(negative)]), np.concatenate([positive, negative])
    ranks = np.array([1 + (negative > p).sum() + (negative == p).sum() / 2 for p in positive])
    wanted = {
        **by_rank(ranks),
        "auroc": sklearn.roc_auc_score(true, both),
        "ap": sklearn.average_precision_score(true, both),
        "ogb-hits@5": (positive > np.sort(negative)[-5]).mean(),
    }
    assert found[0][0] == pytest.approx(wanted, rel=0, abs=1e-12)


CASES = [("dot", "all", "test"), ("distmult", "uniform:20", "valid"), ("cosine", "uniform:2", "test")]
CASES += [("mlp", "all", "valid"), ("dot", "given", "valid"), ("mlp", "given", "valid"), ("dot", "given", "test")]


@pytest.mark.parametrize(("decoder", "candidates", "name"), CASES)
def test_scores_are_the_same_to_the_last_bit(pool, lay, decoder, candidates, name):
    (alone, said, _), *_ = pool.run(1, scored, lay(1), DECODERS[decoder], candidates, name, 1)
    assert all(value is not None for value in alone.values())
    assert said["candidates"] == candidates
    for world, method, threads, piece in ((2, "metis", 2, 50), (3, "random", 1, None), (4, "metis", 1, 1)):
        found = pool.run(world, scored, lay(world, method), DECODERS[decoder], candidates, name, threads, piece)
        assert [each for each, _, _ in found] == [alone] * world
    assert found[0][1] == said
    found = pool.run(4, scored, lay(4), DECODERS[decoder], candidates, name, 1, hosts=2)
    assert [each for each, _, _ in found] == [alone] * 4


def test_scores_on_samples_are_the_same_too(pool, lay):
    alone, exact = (
        pool.run(1, scored, lay(1), DECODERS["dot"], "all", "valid", 1, None, fan_outs)[0][0]
        for fan_outs in ((3, 2), None)
    )
    assert alone != exact
    found = pool.run(3, scored, lay(3), DECODERS["dot"], "all", "valid", 1, None, (3, 2))
    assert [each for each, _, _ in found] == [alone] * 3


def test_no_metric_is_defined_where_a_vector_is_not_finite(pool, lay):
    for scores, _, _ in pool.run(2, scored, lay(2), DECODERS["dot"], "all", "valid", 1, None, None, True):
        assert scores == dict.fromkeys(METRICS)


def test_what_pairs_are_compared_with_is_recorded(pool, lay):
    asked = ("auto", "test"), ("all", "valid")
    found = [pool.run(1, scored, lay(1), DECODERS["dot"], *each, 1)[0][1] for each in asked]
    assert found == [
        {"pairs": 50, "candidates": "given", "filter": "none", "ties": "mean", "negatives": "given"},
        {"pairs": 40, "candidates": "all", "filter": "train", "ties": "mean", "negatives": "uniform:1"},
    ]


def test_what_ranking_takes_is_known_before(lay, tmp_path, monkeypatch, caplog):
    config = config_for(lay(2).path, tmp_path / "run", task="links", hidden=WIDTH, loss=None, fan_out=(3, 3))
    found = evaluated(resolve(config), for_links(lay(2), WIDTH))
    given = lay(2).graph.links.valid_candidates, lay(2).graph.links.valid
    wanted = [len(np.unique(np.concatenate([each.reshape(-1) for each in given]))), 0]
    wanted[1] = len(np.unique(np.concatenate([lay(2).graph.links.test, lay(2).graph.links.test_negatives])))
    assert [(len(each.ids), each.copies) for each in found.asked] == [(wanted[0], 1), (wanted[1], 1)]
    assert found.levels.widths[-1] == WIDTH
    for asked, number in (("all", N), ("uniform:2", 40 * 4)):
        run = resolve(replace(config, evaluate_negatives=asked))
        assert len(evaluated(run, for_links(lay(2), WIDTH)).asked[0].ids) == number
    with pytest.raises(InputError, match=line_with("--evaluate-negatives, uniform:240, 240")):
        resolve(replace(config, evaluate_negatives="uniform:240"))
    monkeypatch.setattr(evaluation_memory, "TOLD_MULTIPLICATIONS", 50 * N * WIDTH)
    caplog.set_level("INFO")
    resolve(replace(config, evaluate_negatives="all"))
    says(caplog.text, "50 test pairs", "240", "--evaluate-negatives uniform:1000")
    assert "valid pairs" not in caplog.text
    host = replace(evaluation_memory.host_memory(), available_bytes=1000)
    monkeypatch.setattr(evaluation_memory, "host_memory", lambda: host)
    with pytest.raises(InputError, match=line_with("test pairs and their candidates, --evaluate")):
        resolve(replace(config, validate_every=0))
