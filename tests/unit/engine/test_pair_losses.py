"""Losses of pairs against plain formulas, group by group and candidate by candidate; and functions of the user's."""

from __future__ import annotations

import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from support.messages import line_with
from torch import nn

from gsplit.engine.objectives.own_loss import OwnFunction
from gsplit.engine.objectives.pairs import counts_of, own_pair_loss, pair_loss
from gsplit.errors import InputError

T, MARGIN = 0.3, 0.7
NAMES = ("bce", "softmax", "bpr", "margin")
DIVISORS = {"bce": "scored", "softmax": "groups", "bpr": "negatives", "margin": "negatives"}


def log_of_one_and(x):
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def formula(name, s, candidates, log_q):
    """The value of one group, by Python's numbers; ``candidates`` are those that count."""
    if name == "bce":
        return log_of_one_and(-s) + sum(map(log_of_one_and, candidates))
    if name == "softmax":
        return math.log(1 + sum(math.exp((c - s) / T - q) for c, q in zip(candidates, log_q, strict=True)))
    if name == "bpr":
        return sum(log_of_one_and(c - s) for c in candidates)
    return sum(max(0, MARGIN - s + c) for c in candidates)


def drawn(groups, candidates, scale=3.0):
    draws = torch.Generator().manual_seed(groups + candidates)
    positive = torch.randn(groups, generator=draws, dtype=torch.float64) * scale
    negative = torch.randn(groups, candidates, generator=draws, dtype=torch.float64) * scale
    masked = torch.rand(groups, candidates, generator=draws) < 0.4
    return positive.requires_grad_(), negative.requires_grad_(), masked


def of(name):
    return pair_loss(name, temperature=T, margin=MARGIN)


@pytest.mark.parametrize("log_q", [None, "of all", "of each"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("masks", [None, "some", "all"])
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_is_its_formula(name, masks, weighted, log_q):
    positive, negative, masked = drawn(7, 4)
    masked = {None: torch.zeros_like(masked), "some": masked, "all": torch.ones_like(masked)}[masks]
    weight = torch.rand(7, dtype=torch.float64) if weighted else torch.ones(7, dtype=torch.float64)
    chances = {None: torch.zeros(7, 4), "of all": torch.randn(4).expand(7, 4), "of each": torch.randn(7, 4)}[log_q]
    chances = chances.double()
    s, candidates = positive.tolist(), negative.detach()
    expected = sum(
        float(weight[g]) * formula(name, s[g], candidates[g][~masked[g]].tolist(), chances[g][~masked[g]].tolist())
        for g in range(7)
    )
    given = {None: None, "of all": chances[0], "of each": chances}[log_q]
    loss = of(name).loss(positive, negative, None if masks is None else masked, given, weight if weighted else None)
    assert loss.ndim == 0
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_differences_and_of_differences_of_them(name):
    positive, negative, masked = drawn(5, 3)
    weight = torch.rand(5, dtype=torch.float64)
    log_q = torch.randn(3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda p, n: of(name).loss(p, n, masked, log_q, weight), (positive, negative))
    assert torch.autograd.gradgradcheck(lambda p, n: of(name).loss(p, n, masked), (positive, negative))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("name", NAMES)
def test_a_masked_candidate_counts_nothing_whatever_its_score(name, value):
    positive, negative, masked = drawn(6, 4)
    masked[2] = True
    odd = negative.detach().masked_fill(masked, value).requires_grad_()
    of(name).loss(
        positive, odd, masked, torch.full((6, 4), value, dtype=torch.float64).masked_fill(~masked, 0)
    ).backward()
    slopes, positive.grad = positive.grad, None
    loss = of(name).loss(positive, negative, masked)
    loss.backward()
    assert torch.equal(of(name).loss(positive, odd, masked), loss)
    assert torch.equal(slopes, positive.grad)
    assert torch.equal(odd.grad, negative.grad)
    assert not odd.grad[masked].any()
    assert odd.grad.isfinite().all()


@pytest.mark.parametrize("name", [*NAMES, "own"])
@pytest.mark.parametrize(("groups", "candidates"), [(0, 4), (0, 0), (5, 0)])
def test_without_groups_or_candidates_the_graph_stays(name, groups, candidates):
    positive, negative, masked = drawn(groups, candidates)
    loss = (pair_loss(own(each_group)) if name == "own" else of(name)).loss(positive, negative, masked)
    loss.backward()
    expected = sum(log_of_one_and(-s) for s in positive.tolist()) if name in ("bce", "own") else 0
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    assert negative.grad.shape == (groups, candidates)
    assert bool(positive.grad.any()) == (name in ("bce", "own") and groups > 0)


@pytest.mark.parametrize("far", [50.0, 1e4, 1e30])
@pytest.mark.parametrize("name", NAMES)
def test_far_scores_overflow_nowhere(name, far):
    for positive, negative in ((far, -far), (-far, far), (far, far)):
        s = torch.tensor([positive], dtype=torch.float32, requires_grad=True)
        c = torch.tensor([[negative, negative]], dtype=torch.float32, requires_grad=True)
        loss = of(name).loss(s, c)
        loss.backward()
        assert loss.isfinite()
        assert s.grad.isfinite().all()
        assert c.grad.isfinite().all()


def test_a_small_loss_keeps_its_digits():
    """e^-30 beside a score of 30: a difference of logarithms would be left with none."""
    s, c = torch.tensor([30.0], dtype=torch.float64), torch.tensor([[0.0]], dtype=torch.float64)
    for name in ("softmax", "bpr"):
        assert pair_loss(name).loss(s, c).item() == pytest.approx(math.log1p(math.exp(-30)), rel=1e-3)


def test_short_types_are_added_up_in_float32():
    s, c = torch.zeros(4096, dtype=torch.bfloat16), torch.zeros(4096, 1, dtype=torch.bfloat16)
    loss = pair_loss("bce").loss(s, c)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(2 * 4096 * math.log(2), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_says_what_it_is_divided_by_and_parts_add_up(name):
    positive, negative, masked = drawn(9, 4)
    loss, divisor = of(name), DIVISORS[name]
    assert loss.divisor == divisor
    assert loss.name == name
    counts = counts_of(divisor, masked)
    left = (~masked).sum(dim=1)
    assert counts.tolist() == {"groups": [1] * 9, "negatives": left.tolist(), "scored": (left + 1).tolist()}[divisor]
    parts = [(0, 0), (0, 4), (4, 5), (5, 9)]
    together = sum(loss.loss(positive[a:b], negative[a:b], masked[a:b]).item() for a, b in parts)
    assert together == pytest.approx(loss.loss(positive, negative, masked).item(), rel=1e-12)


def test_bce_and_softmax_are_pytorchs():
    positive, negative, masked = drawn(8, 3)
    scores = torch.cat([positive, negative[~masked]])
    labels = torch.cat([torch.ones(8), torch.zeros(len(scores) - 8)]).double()
    theirs = F.binary_cross_entropy_with_logits(scores, labels)
    assert of("bce").loss(positive, negative, masked).item() / len(scores) == pytest.approx(theirs.item(), rel=1e-9)
    logits = torch.cat([positive.unsqueeze(1), negative.masked_fill(masked, -torch.inf)], dim=1) / T
    theirs = F.cross_entropy(logits, torch.zeros(8, dtype=torch.int64))
    assert of("softmax").loss(positive, negative, masked).item() / 8 == pytest.approx(theirs.item(), rel=1e-12)


def each_group(positive, negative, mask):
    return F.softplus(-positive) + F.softplus(negative).masked_fill(mask, 0).sum(dim=1)


def total(positive, negative, mask):
    return F.softplus(-positive).sum() + F.softplus(negative)[~mask].sum()


total.counts = "pairs"  # type: ignore[attr-defined]


def below(positive, negative, mask):
    return (negative - positive.unsqueeze(1)).exp().masked_fill(mask, 0).sum(dim=1)


below.counts = "negatives"  # type: ignore[attr-defined]


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(1.0))

    def forward(self, positive, negative, mask):
        return each_group(positive, negative, mask) * self.scale


def mean(positive, negative, mask):
    return each_group(positive, negative, mask).mean()


def centred(positive, negative, mask):
    return each_group(positive - positive.mean(), negative, mask)


def without_mask(positive, negative, mask):
    return each_group(positive, negative, torch.zeros_like(mask))


def mean_of_left(positive, negative, mask):
    """0 / 0 where all candidates of a group are masked."""
    return -positive + (negative * ~mask).sum(1) / (~mask).sum(1)


def matrix(positive, negative, mask):
    return negative


def constant(positive, negative, mask):
    return torch.ones(len(positive))


def number(positive, negative, mask):
    return 1.0


def failing(positive, negative, mask):
    raise IndexError("no such\ncolumn")


def miscounted(positive, negative, mask):
    return each_group(positive, negative, mask)


miscounted.counts = "edges"  # type: ignore[attr-defined]


class Learned(Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))


def own(function, dtype=torch.float64):
    return own_pair_loss(None, function, dtype)


@pytest.mark.parametrize(
    ("function", "returns", "divisor"),
    [
        (each_group, "values of groups", "groups"),
        (total, "a sum", "scored"),
        (below, "values of groups", "negatives"),
        (Module(), "values of groups", "groups"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_function_is_recognised_and_travels(function, returns, divisor, dtype):
    found = pickle.loads(pickle.dumps(own(function, dtype)))
    assert (found.returns, found.divisor) == (returns, divisor)
    loss = pair_loss(found)
    positive, negative, masked = drawn(7, 4)
    assert loss.divisor == divisor
    assert torch.allclose(loss.loss(positive, negative, masked), function(positive, negative, masked).sum())


def test_a_function_is_named():
    found = own_pair_loss(f"{__name__}:total", None, torch.float32)
    assert isinstance(found, OwnFunction)
    assert found.name == f"{__name__}:total"
    assert found.pickled is None
    assert own_pair_loss("bce", None, torch.float32) is None
    assert own_pair_loss(None, None, torch.float32) is None


def test_a_function_sees_no_candidate_that_is_masked():
    positive, negative, masked = drawn(6, 4)
    odd = negative.detach().masked_fill(masked, math.nan).requires_grad_()
    loss = pair_loss(own(total)).loss(positive, odd, masked)
    loss.backward()
    assert loss.isfinite()
    assert odd.grad.isfinite().all()
    assert not odd.grad[masked].any()


def test_weights_want_values_of_groups():
    positive, negative, masked = drawn(6, 4)
    weight = torch.rand(6, dtype=torch.float64)
    weighted = pair_loss(own(each_group)).loss(positive, negative, masked, None, weight)
    assert torch.allclose(weighted, of("bce").loss(positive, negative, masked, None, weight))
    with pytest.raises(InputError, match=line_with("total, a sum, weights")):
        pair_loss(own(total)).loss(positive, negative, masked, None, weight)


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (mean, "mean, no sum over groups"),
        (centred, "centred, no sum over groups"),
        (without_mask, "without_mask, masked candidates"),
        (mean_of_left, "mean_of_left, not finite, masked"),
        (matrix, "matrix, [6, 3], 6 groups"),
        (constant, "constant, does not depend"),
        (number, "number, float"),
        (failing, "failing, [6], [6, 3], IndexError, no such column"),
        (miscounted, "miscounted, 'edges', groups, pairs, negatives"),
        (Learned(), "Learned, parameters"),
    ],
)
def test_a_function_that_trainers_could_not_add_up_is_refused(function, parts):
    with pytest.raises(InputError, match=line_with(parts)):
        own(function)


@pytest.mark.parametrize(
    ("name", "parts"), [("missing", "--loss, 'missing', mask"), ("Module", "--loss, 'Module', mask")]
)
def test_a_name_that_is_no_function_is_refused(name, parts):
    with pytest.raises(InputError, match=line_with(parts)):
        own_pair_loss(f"{__name__}:{name}", None, torch.float32)
