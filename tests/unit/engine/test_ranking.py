"""Ranks are those of brute force over all scores, to the last bit, whatever the tile, the threads, the split."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn
from support.kernels import instructions
from torch import nn

from gsplit import _core
from gsplit.engine.evaluation import pair_metrics, ranking
from gsplit.engine.evaluation.ranking import DecoderScores, DotScores, Known, doubled_ranks
from gsplit.nn.decoders import MLP, Cosine, Decoder, DistMult, Dot

SETS = _core.instruction_sets()


class Own(Decoder):
    def forward(self, source, destination):
        return (source * destination).sum(1)


def small_numbers(random, shape, dtype):
    """Whole numbers, so that sums are exact in any order, and many scores are equal."""
    return random.integers(-2, 3, shape).astype(dtype)


def scorers(table, threads=1):
    yield DotScores(table, threads=threads)
    for decoder in (Own(), Dot()):
        yield DecoderScores(table, decoder, torch.device("cpu"))


def brute(table, sources, destinations, candidates, known_pairs):
    """Doubled ranks by loops over pairs and candidates."""
    known, doubled = set(known_pairs), []
    for i, (u, v) in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        own, above, equal = float(table[u] @ table[v]), 0, 0
        if candidates is None:
            among = range(len(table))
        else:
            among = candidates.tolist() if candidates.ndim == 1 else candidates[i].tolist()
        for c in among:
            if c in (-1, u, v) or (u, c) in known:
                continue
            score = float(table[u] @ table[c])
            above, equal = above + (score > own), equal + (score == own)
        doubled.append(2 + 2 * above + equal)
    return np.array(doubled)


def ranks(scores, sources, destinations, candidates, known):
    out = np.full(len(sources), -1)
    of_pairs, each = candidates, 0
    if candidates is not None and candidates.ndim == 2:
        each = candidates.shape[1]

        def of_pairs(piece, left_out):
            lists = np.split(left_out.rows, left_out.indptr[1:-1])
            return np.stack(
                [np.where(np.isin(c, out), -1, c) for c, out in zip(candidates[piece], lists, strict=True)]
            )

    for piece, doubled in doubled_ranks(scores, sources, destinations, of_pairs, known, each=each):
        out[piece] = doubled
    return out


def cases(random, n, pairs):
    shared = np.sort(random.permutation(n)[: n // 2])
    of_each = random.integers(-1, n, (pairs, 7))
    return {"all": None, "shared": shared, "of each": of_each, "none of each": of_each[:, :0]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", ["small numbers", "all equal", "zero"])
def test_ranks_are_those_of_brute_force(rows, dtype):
    random = np.random.default_rng(3)
    n, pairs = 150, 70
    table = small_numbers(random, (n, 5), dtype)
    if rows != "small numbers":
        table[:] = 0 if rows == "zero" else table[0]
    sources, destinations = random.integers(0, n, (2, pairs))
    u, v = random.integers(0, n, (2, 900))
    for known_pairs in ([], list(zip(u.tolist(), v.tolist(), strict=True))):
        known = Known.of(u, v, n) if known_pairs else Known.nothing(n)
        for candidates in cases(random, n, pairs).values():
            wanted = brute(table, sources, destinations, candidates, known_pairs)
            for scores in scorers(table):
                assert ranks(scores, sources, destinations, candidates, known).tolist() == wanted.tolist()


@pytest.mark.parametrize("width", [1, 3, 16, 67])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("isa", SETS)
def test_equal_rows_have_equal_scores_in_any_tile(isa, dtype, width):
    """Copies of each row stand at all places of panels and blocks; a sum in another order would tell them apart."""
    random = np.random.default_rng(width)
    different, copies = 23, 29
    table = np.tile(random.standard_normal((different, width)).astype(dtype), (copies, 1))[
        random.permutation(different * copies)
    ]
    n = len(table)
    _, kind = np.unique(table, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    sources, destinations = random.integers(0, n, (2, 211))
    shared = random.permutation(n)
    of_each = np.stack([random.permutation(n) for _ in sources])
    with instructions(isa):
        scores = DotScores(table)
        of_kinds = scores.pairs(*np.indices((n, n)).reshape(2, -1)).reshape(n, n)
        equal_kinds = [np.unique(of_kinds[i], return_counts=True) for i in range(n)]
        whole = ranks(scores, sources, destinations, None, Known.nothing(n))
        for i, (u, v) in enumerate(zip(sources, destinations, strict=True)):
            values, counts = equal_kinds[u]
            assert len(values) <= different
            above, equal = counts[values > of_kinds[u, v]].sum(), counts[values == of_kinds[u, v]].sum() - 1
            if u != v:
                above, equal = above - (of_kinds[u, u] > of_kinds[u, v]), equal - (of_kinds[u, u] == of_kinds[u, v])
            assert whole[i] == 2 + 2 * above + equal
            assert equal >= copies - 2
        for candidates in (shared, of_each):
            for threads in (1, 2):
                again = ranks(DotScores(table, threads=threads), sources, destinations, candidates, Known.nothing(n))
                assert again.tolist() == whole.tolist()
        order = random.permutation(len(sources))
        cut = [ranks(scores, sources[o], destinations[o], None, Known.nothing(n)) for o in np.array_split(order, 4)]
        assert np.concatenate(cut).tolist() == whole[order].tolist()


def test_pieces_change_nothing(monkeypatch):
    random = np.random.default_rng(5)
    n, pairs = 300, 200
    table = random.standard_normal((n, 9)).astype(np.float32)
    sources, destinations, (u, v) = *random.integers(0, n, (2, pairs)), random.integers(0, n, (2, 3000))
    known = Known.of(u, v, n)
    for candidates in cases(random, n, pairs).values():
        whole = ranks(DotScores(table), sources, destinations, candidates, known)
        with monkeypatch.context() as patch:
            patch.setattr(ranking, "PIECE_PAIRS", 13)
            patch.setattr(ranking, "PIECE_ENTRIES", 40)
            assert ranks(DotScores(table), sources, destinations, candidates, known).tolist() == whole.tolist()


def test_two_threads_count_what_one_does():
    random = np.random.default_rng(6)
    table = random.standard_normal((2000, 33)).astype(np.float32)
    sources, destinations = random.integers(0, len(table), (2, 500))
    one, two = (
        ranks(DotScores(table, threads=threads), sources, destinations, None, Known.of(destinations, sources, 2000))
        for threads in (1, 2)
    )
    assert one.tolist() == two.tolist()
    assert 2 < one.mean() < 4 * len(table)


def test_a_score_that_is_no_number_is_above():
    table = np.ones((4, 2), np.float32)
    table[2] = np.nan
    pair = np.array([0]), np.array([1])
    for scores in scorers(table):
        assert ranks(scores, *pair, None, Known.nothing(4)).tolist() == [2 + 2 * 1 + 1]
        assert ranks(scores, pair[0], np.array([2]), None, Known.nothing(4)).tolist() == [2 + 2 * 2]


def test_a_factor_multiplies_sources():
    random = np.random.default_rng(7)
    table, factor = random.standard_normal((40, 6)), random.standard_normal(6)
    pairs = random.integers(0, 40, (2, 30))
    wanted = np.einsum("nd,d,nd->n", table[pairs[0]], factor, table[pairs[1]])
    np.testing.assert_allclose(DotScores(table, factor=factor).pairs(*pairs), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_best_rows_are_sorted_by_score_and_order(dtype):
    random = np.random.default_rng(8)
    n, pairs, k = 200, 70, 6
    table, order = small_numbers(random, (n, 4), dtype), random.permutation(n)
    sources = random.integers(0, n, pairs)
    u, v = random.integers(0, n, (2, 2000))
    known = Known.of(u, v, n)
    few = np.array([3, 5])
    known_pairs = set(zip(u.tolist(), v.tolist(), strict=True))
    for candidates in (None, np.sort(random.permutation(n)[:90]), few):
        for scores in (*scorers(table), DotScores(table, threads=2)):
            rows, found = scores.best(sources, k, candidates, known.lists(sources), order)
            for i, u in enumerate(sources.tolist()):
                among = [
                    c for c in (range(n) if candidates is None else candidates) if (u, int(c)) not in known_pairs
                ]
                wanted = sorted((-float(table[u] @ table[c]), int(order[c]), c) for c in among)[:k]
                assert rows[i].tolist() == [c for _, _, c in wanted] + [-1] * (k - len(wanted))
                assert found[i, : len(wanted)].tolist() == [-score for score, _, _ in wanted]
                assert np.isnan(found[i, len(wanted) :]).all()


def test_known_lists_are_sorted_and_distinct():
    known = Known.of(np.array([4, 1, 4, 4]), np.array([3, 0, 2, 3]), 5)
    lists = known.lists(np.array([4, 0, 1, 4]), np.array([2, 2, 2, 4]))
    assert np.split(lists.rows, lists.indptr[1:-1])[0].tolist() == [2, 3]
    assert [part.tolist() for part in np.split(lists.rows, lists.indptr[1:-1])] == [[2, 3], [2], [0, 2], [2, 3, 4]]
    assert known.lengths(np.array([4, 0, 1])).tolist() == [2, 0, 1]


def ogb_ranks(positive, negative):
    """ogb.linkproppred.Evaluator from 1.3.4 on, of mrr."""
    optimistic = (negative > positive[:, None]).sum(axis=1)
    pessimistic = (negative >= positive[:, None]).sum(axis=1)
    return 0.5 * (optimistic + pessimistic) + 1


def test_given_candidates_are_ranked_as_ogb_does():
    random = np.random.default_rng(9)
    table = small_numbers(random, (80, 3), np.float64)
    sources, destinations = random.integers(0, 80, (2, 60))
    given = random.integers(0, 80, (60, 40))
    given[(given == destinations[:, None]) | (given == sources[:, None])] = -1
    negative = np.einsum("nd,nkd->nk", table[sources], table[given])
    wanted = ogb_ranks((table[sources] * table[destinations]).sum(1), np.where(given < 0, -np.inf, negative))
    doubled = ranks(DotScores(table), sources, destinations, given, Known.nothing(80))
    assert (doubled / 2).tolist() == wanted.tolist()
    assert pair_metrics.mean_reciprocal_rank(doubled) == pytest.approx((1 / wanted).mean(), rel=0, abs=1e-12)
    for k in (1, 3, 10):
        assert pair_metrics.hits(doubled, k) == (wanted <= k).mean()


@pytest.mark.parametrize("seed", range(20))
def test_curves_are_those_of_scikit_learn_with_ties(seed):
    random = np.random.default_rng(seed)
    most = [1, 2, 5, 1000][seed % 4]
    right = int(random.integers(1, 60))
    true, scores = np.repeat([1, 0], [right, 45]), random.integers(0, most, right + 45).astype(np.float64)
    scores[right:] -= seed % 2
    positive, negative = np.split(scores, [right])
    assert pair_metrics.area_under_roc(positive, negative) == pytest.approx(
        sklearn.roc_auc_score(true, scores), rel=0, abs=1e-12
    )
    assert pair_metrics.average_precision(positive, negative) == pytest.approx(
        sklearn.average_precision_score(true, scores), rel=0, abs=1e-12
    )


def test_hits_above_the_best_of_a_list():
    positive, negative = np.array([5.0, 3.0, 3.5, 1.0]), np.array([4.0, 3.0, 3.0, 2.0])
    assert [pair_metrics.hits_above(positive, negative, k) for k in (1, 2, 3, 4, 5)] == [0.25, 0.5, 0.5, 0.75, 1.0]


def test_metrics_of_nothing_and_of_no_numbers():
    none, some, odd = np.empty(0), np.ones(3), np.array([1.0, np.nan])
    assert math.isnan(pair_metrics.mean_reciprocal_rank(np.empty(0, np.int64)))
    assert math.isnan(pair_metrics.hits(np.empty(0, np.int64), 1))
    for positive, negative in ((none, some), (some, none), (odd, some), (some, odd)):
        assert math.isnan(pair_metrics.area_under_roc(positive, negative))
        assert math.isnan(pair_metrics.average_precision(positive, negative))
    assert math.isnan(pair_metrics.hits_above(none, some, 1))
    assert pair_metrics.hits_above(some, none, 1) == 1.0


@pytest.mark.parametrize(
    "decoder", [Dot(), Cosine(), DistMult(7), MLP(7, 5), Own()], ids=lambda each: type(each).__name__
)
def test_scores_are_the_decoders(decoder):
    torch.manual_seed(1)
    decoder = decoder.double()
    if isinstance(decoder, DistMult):
        nn.init.normal_(decoder.weight)
    rows = torch.randn(50, 7, dtype=torch.float64)
    rows[3] = 0
    pairs = np.random.default_rng(1).integers(0, 50, (2, 300))
    table = rows.numpy().copy()
    ranking.prepare(decoder, table)
    scores = ranking.scores_of(decoder, table, threads=1, device=torch.device("cpu"))
    with torch.no_grad():
        wanted = decoder(rows[pairs[0]], rows[pairs[1]])
    np.testing.assert_allclose(scores.pairs(*pairs), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decoder", [MLP(7, 40), Own()], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("threads", [1, 2])
def test_equal_rows_have_equal_scores_by_any_decoder(decoder, threads):
    random = np.random.default_rng(2)
    torch.manual_seed(2)
    table = np.repeat(random.standard_normal((40, 7)).astype(np.float32), 60, 0)[random.permutation(2400)]
    _, kind = np.unique(table, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    sources, destinations = random.integers(0, 2400, (2, 150))
    torch.set_num_threads(threads)
    left_out = Known.nothing(2400).lists(sources, sources, destinations)
    scores = DecoderScores(table, decoder, torch.device("cpu"))
    _, equal = scores.counts(sources, destinations, None, left_out)
    torch.set_num_threads(1)
    own = (kind[sources] == kind[destinations]) & (sources != destinations)
    assert equal.tolist() == (60 - 1 - own).tolist()


def test_no_scores_are_kept():
    """Scores of 20,000 pairs times 20,000 candidates would be 1.5 GiB."""
    random = np.random.default_rng(2)
    table = random.standard_normal((20_000, 8)).astype(np.float32)
    sources, destinations = random.integers(0, len(table), (2, 20_000))
    known = Known.of(destinations, sources, len(table))
    tracemalloc.start()
    ranks(DotScores(table), sources, destinations, None, known)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


TABLE, COUNTS = np.ones((3, 2), np.float32), np.zeros(1, np.int64)
ONE, OUT = TABLE[:1], (np.empty((1, 2), np.int64), np.empty((1, 2), np.float32))


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (_core.score_pairs, (ONE, TABLE, np.array([3]), np.empty(1, np.float32)), "row 3 is outside 0 .. 2"),
        (
            _core.count_listed,
            (ONE, TABLE, ONE[0, :1], np.array([0, 1]), np.array([0, 1]), 1, COUNTS, COUNTS),
            "follow one another",
        ),
        (_core.count_shared, (ONE, TABLE, ONE[0], None, COUNTS, COUNTS), "a bound and two counts"),
        (_core.best_rows, (ONE, TABLE, None, np.arange(2), np.zeros(2, np.int64), COUNTS[:0], *OUT), "an order"),
    ],
)
def test_the_core_refuses_what_does_not_fit(call, arguments, message):
    with pytest.raises(ValueError, match=message):
        call(*arguments, 1)
