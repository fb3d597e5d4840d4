"""--check-model with --task links: models and decoders that look at other rows are told apart."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import pool as pool_module
from support.apart import run_apart
from support.graphs import lay_out
from support.links import linked_graph, linked_layouts, rule_of
from support.messages import line_with, says
from torch import nn

import gsplit
from gsplit import TrainConfig
from gsplit.errors import InputError
from gsplit.nn import SAGE
from gsplit.train.check.cases import Draws, chosen_cases
from gsplit.train.check.gradients import compare

pytestmark = pytest.mark.usefixtures("spent_pool")

HERE = __name__
DECODERS = ("dot", "cosine", "distmult", "mlp", f"{HERE}:Distance")


class Distance(nn.Module):
    """A good decoder, each pair by itself."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, source, destination):
        return -((source - destination) ** 2 * self.weight).sum(dim=1)


class CentredOfMany(Distance):
    """Looks at other pairs, but of the few that it is tried on before a run."""

    def forward(self, source, destination):
        scores = super().forward(source, destination)
        return scores - scores.mean() if len(scores) > 40 else scores


class CentredInTraining(Distance):
    """Looks at other pairs in training alone."""

    def forward(self, source, destination):
        scores = super().forward(source, destination)
        return scores - scores.mean() if self.training and len(scores) else scores


class NeedsPairs(Distance):
    """Works with pairs alone, but in its trial."""

    def forward(self, source, destination):
        assert len(source) or not self.training
        return super().forward(source, destination)


class Centred(SAGE):
    """Looks at all rows at hand, in training alone, which no evaluation before a run shows."""

    def forward_layer(self, layer, block, x):
        x = super().forward_layer(layer, block, x)
        return x - x.mean(dim=0) if self.training and len(x) else x


def mean_of_many(positive, negative, mask):
    """A mean, but for the few groups that it is tried on before a run."""
    each = F.softplus(-positive) + F.softplus(negative).masked_fill(mask, 0).sum(dim=1)
    return each.mean() if len(each) > 6 else each.sum()


def good_loss(positive, negative, mask):
    """A value for each group."""
    return F.softplus(-positive) + F.softplus(negative).masked_fill(mask, 0).sum(dim=1)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    return linked_layouts(tmp_path_factory.mktemp("links"), given=True, hard=3, weights=(0.5, 2.0))


def compare_in_trainer(member, spec):
    return compare(member, replace(spec, checker=pool_module.SHARED.checker))


@pytest.fixture
def checked(pool, layouts, monkeypatch):
    """The line, or the complaint, of a check in the pool."""

    def join(world, spec):
        outcomes = run_apart(pool, world, compare_in_trainer, spec)
        failed = [outcome for outcome in sorted(outcomes, key=lambda outcome: outcome.ended_s) if outcome.error]
        if failed:
            raise failed[0].error
        return [outcome.result for outcome in outcomes]

    monkeypatch.setattr(
        "gsplit.train.check.gradients.start", lambda _, world, spec: SimpleNamespace(join=lambda: join(world, spec))
    )

    def check(parts=3, given_loss=None, **changes):
        about = {"task": "links", "fan_out": (4, 3), "batch_size": 60, "hidden": 8, "device": "cpu"}
        config = TrainConfig(layout=layouts(parts).path, check_model=True, **about | changes)
        try:
            return gsplit.train(config=config, loss=given_loss)["check"]
        except InputError as error:
            return str(error)

    return check


@pytest.mark.parametrize("score", DECODERS)
def test_models_and_decoders_pass(checked, score):
    said = checked(score=score, negatives="uniform:2,joint:6/25,in-batch,near:2,hard:1", corrupt="both")
    says(said, "SAGE can be split, 4 mini-batches, # rows")
    assert ("scores each pair by itself" in said) == (":" in score)


@pytest.mark.parametrize(
    "changes",
    [
        {"parts": 1, "given_loss": good_loss},
        {"score_at": "destination", "corrupt": "source"},
        {"pairs": "edges", "loss": "softmax", "negatives": "in-batch", "log_q": True},
    ],
    ids=["loss", "score_at", "pairs"],
)
def test_the_pairs_are_those_of_the_run(checked, changes):
    said = checked(**changes)
    says(said, "SAGE can be split")
    assert ("a sum over groups" in said) == ("given_loss" in changes)


@pytest.mark.parametrize(
    ("score", "complaint"),
    [
        (f"{HERE}:CentredOfMany", "decoder, CentredOfMany cannot be split, gradient, with dot products they agree"),
        (f"{HERE}:CentredInTraining", "decoder, CentredInTraining cannot be split, gradient"),
        (f"{HERE}:NeedsPairs", "decoder, NeedsPairs fails, no pairs"),
    ],
)
def test_a_decoder_is_named(checked, score, complaint):
    says(checked(score=score), complaint)


@pytest.mark.parametrize("score", ["mlp", f"{HERE}:CentredOfMany"])
def test_a_model_is_named_before_its_decoder(checked, score):
    said = checked(score=score, model=f"{HERE}:Centred")
    says(said, "the model Centred cannot be split, gradient")


def test_a_loss_is_named(checked):
    says(checked(given_loss=mean_of_many, pairs="edges"), "mean_of_many is no sum over groups, without it they agree")


def drawn(layout, **options):
    rule = rule_of((4, 3), **options)
    return Draws(layout=layout, fan_out=(4, 3), batch_size=60, seed=0, links=rule)


@pytest.mark.parametrize("apart", [False, True])
def test_looks_at_trainers_without_pairs_and_without_edges(layouts, apart):
    draws = drawn(layouts(3), apart=apart)
    cases = chosen_cases(draws, "model")
    splits = []
    for case in cases:
        sampler = draws.sample(case.targets, case.batch, [case.cut])
        splits.append([sampler.segment(rank) for rank in (0, 1)])
    pairs = [[split.pairs.num_groups - split.pairs.num_apart for split in both] for both in splits]
    assert min(pairs[0]) > 0
    assert cases[0].rows > 0
    assert pairs[1][0] == 0 < pairs[1][1]
    assert pairs[2][1] == 0 < pairs[2][0]
    assert any(len(split.targets) == split.num_edges == 0 for split in splits[3])
    assert [case.ordinary for case in cases] == [True, False, False, False]


def test_loops_are_no_pairs(tmp_path):
    graph = linked_graph(60, 5, given=True)
    loops = np.stack([np.arange(60)] * 2, axis=1)
    loops[-1] = 59, 0
    layouts = [
        lay_out(replace(graph, links=replace(graph.links, train=train)), tmp_path / name, parts=2)
        for name, train in {"all": loops[:-1], "all but one": loops[np.lexsort((loops[:, 0], loops[:, 1]))]}.items()
    ]
    with pytest.raises(InputError, match=line_with("model, no row crosses, pairs")):
        chosen_cases(drawn(layouts[0]), "model")
    ordinary, *others = chosen_cases(drawn(layouts[1]), "model")
    assert ordinary.rows > 0
    assert all(len(case.targets.rows) == 1 for case in (ordinary, *others))
