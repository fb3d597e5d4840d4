"""Scores of pairs, of groups and of all with all are the same numbers, and those of plain formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gsplit.nn.decoders import MLP, Cosine, DistMult, Dot, OwnDecoder, decoder, mlp

WIDTH = 5


class Bilinear(nn.Module):
    """A decoder of a user's, with no more than forward."""

    def __init__(self):
        super().__init__()
        self.form = nn.Bilinear(WIDTH, WIDTH, 1)

    def forward(self, source, destination):
        return self.form(source, destination).squeeze(1)


MADE = {
    "dot": Dot,
    "cosine": Cosine,
    "distmult": lambda: DistMult(WIDTH),
    "mlp": lambda: MLP(WIDTH, hidden=7, layers=3),
    "mlp of one layer": lambda: MLP(WIDTH, layers=1),
    "own": lambda: OwnDecoder(Bilinear()),
}


def made(name):
    torch.manual_seed(1)
    found = MADE[name]().double()
    for parameter in found.parameters():
        parameter.data += torch.randn_like(parameter)
    return found


def rows(*shape):
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def formula(name, scorer, s, d):
    """One score, of two rows [D], by a formula written anew."""
    if name == "dot":
        return sum(s[j] * d[j] for j in range(WIDTH))
    if name == "cosine":
        return s @ d / (s @ s).sqrt() / (d @ d).sqrt()
    if name == "distmult":
        return sum(scorer.weight[j] * s[j] * d[j] for j in range(WIDTH))
    if name == "own":
        return s @ scorer.module.form.weight[0] @ d + scorer.module.form.bias[0]
    x = torch.cat([s, d])
    for layer in (scorer.first, *scorer.rest):
        x = layer.weight @ (x if layer is scorer.first else x.clamp(min=0)) + layer.bias
    return x[0]


@pytest.mark.parametrize("name", MADE)
def test_all_ways_to_score_give_the_formulas_numbers_and_gradients(name, monkeypatch):
    scorer = made(name)
    source, candidates = rows(4, WIDTH), rows(3, WIDTH)
    expected = torch.stack([torch.stack([formula(name, scorer, s, d) for d in candidates]) for s in source])
    leaves = [source, candidates, *scorer.parameters()]
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), leaves)
    pairs = scorer(source.repeat_interleave(3, 0), candidates.repeat(4, 1)).view(4, 3)
    groups = scorer.groups(source, candidates.expand(4, 3, WIDTH))
    matrix = scorer.matrix(source, candidates)
    monkeypatch.setattr(decoder, "AT_ONCE", 7)
    monkeypatch.setattr(mlp, "AT_ONCE_NUMBERS", 7)
    for scores in (pairs, groups, matrix, scorer.matrix(source, candidates)):
        torch.testing.assert_close(scores, expected, rtol=1e-12, atol=1e-12)
        gradients = torch.autograd.grad((scores * direction).sum(), leaves)
        for gradient, right in zip(gradients, wanted, strict=True):
            torch.testing.assert_close(gradient, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_gradients_are_those_of_differences(name):
    scorer = made(name)
    source, candidates = rows(3, WIDTH), rows(2, WIDTH)
    assert torch.autograd.gradcheck(lambda s, c: scorer.matrix(s, c), (source, candidates))
    assert torch.autograd.gradcheck(lambda s, c: scorer.groups(s, c), (source, rows(3, 2, WIDTH)))


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (0, 0)])
def test_of_nothing_the_scores_are_nothing_and_have_a_gradient(name, n, m):
    scorer = made(name)
    source, candidates = rows(n, WIDTH), rows(m, WIDTH)
    of_groups = rows(n, m, WIDTH)
    matrix, groups = scorer.matrix(source, candidates), scorer.groups(source, of_groups)
    pairs = scorer(source[:0], candidates[:0])
    assert matrix.shape == groups.shape == (n, m)
    assert pairs.shape == (0,)
    (matrix.sum() + groups.sum() + pairs.sum()).backward()
    for leaf in (source, candidates, of_groups, *scorer.parameters()):
        assert leaf.grad is not None
        assert not leaf.grad.any()


def test_a_row_without_a_direction_has_the_cosine_0_and_no_slope():
    source = torch.tensor([[0.0, 0.0], [1e-12, 0.0], [3.0, 4.0]], requires_grad=True)
    scores = Cosine()(source, torch.tensor([[1.0, 2.0]]).expand(3, 2))
    scores.sum().backward()
    assert scores[:2].tolist() == [0, 0]
    assert source.grad[:2].tolist() == [[0, 0], [0, 0]]
    assert 0 < source.grad[2].abs().max() < 1


def test_distmult_begins_as_dot():
    source, destination = torch.randn(2, 6, WIDTH)
    assert torch.equal(DistMult(WIDTH)(source, destination), Dot()(source, destination))


def test_the_first_layer_meets_each_row_once(monkeypatch):
    multiplied = []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(mlp.F, "linear", lambda x, *w: multiplied.append(len(x)) or linear(x, *w))
    MLP(WIDTH, layers=1).matrix(torch.randn(40, WIDTH), torch.randn(30, WIDTH))
    assert sorted(multiplied) == [30, 40]


def test_a_matrix_of_the_users_is_used():
    class Sum(nn.Module):
        def forward(self, source, destination):
            raise AssertionError

        def matrix(self, source, candidates):
            return source.sum(1, keepdim=True) + candidates.sum(1)

    assert OwnDecoder(Sum()).matrix(torch.ones(2, 3), torch.ones(4, 3)).tolist() == [[6.0] * 4] * 2
