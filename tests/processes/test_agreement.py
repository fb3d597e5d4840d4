"""A model that does not do the same on all trainers ends the run at once; a line names the layer and the trainers."""

from __future__ import annotations

import contextlib
import re
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from support.apart import run_apart
from support.messages import says
from support.predictions import predicted
from support.runs import all_equal, config_for, train_in_trainer
from torch import nn

from gsplit.errors import InputError

pytestmark = pytest.mark.usefixtures("spent_pool")

SECONDS = 20.0
"""Far below the limit of a collective, and many times what these runs take."""


class Odd(nn.Module):
    """Takes the mean of its in-edges, but for what goes wrong on the ``odd`` trainers."""

    uses_edge_weight = False

    def __init__(self, wrong, odd):
        super().__init__()
        torch.manual_seed(0)
        self.wrong, self.odd = wrong, odd
        self.first, self.last, self.norm = nn.Linear(5, 6), nn.Linear(6, 3), nn.BatchNorm1d(6)

    def forward(self, blocks, x):
        x = self.first(x)
        for layer, block in blocks.items():
            rows = self.sources(layer, block, x)
            total = x.new_zeros(block.num_destinations, 6).index_add(0, block.destinations(), rows[block.indices])
            x = x[: block.num_destinations] + total / block.in_degrees().clamp(min=1).unsqueeze(1)
            if layer == 2 and not self.is_wrong("normalised"):
                x = self.norm(x)
        return self.last(x)

    def is_wrong(self, how):
        return self.wrong == how and dist.get_rank() in self.odd

    def sources(self, layer, block, x):
        nothing = x.new_zeros(block.num_sources, 6)
        if layer == 2 and self.is_wrong("width"):
            return block.exchange(torch.cat([x, x], dim=1))[:, :6]
        if layer == 1 and self.is_wrong("type"):
            return block.exchange(x.double()).to(x.dtype)
        if layer == 2 and self.is_wrong("one more"):
            return block.exchange(x) + block.exchange(x)
        if layer == 1 and self.is_wrong("one fewer"):
            return nothing
        if layer == 2 and self.is_wrong("no last"):
            return nothing
        if layer == 1 and self.is_wrong("no gradient"):
            return block.exchange(x.detach())
        if self.wrong == "no edges" and block.num_edges == 0:
            return nothing
        return block.exchange(x)


DEEDS = {
    "no edges": "layer #, 6 float32",
    "width": "layer 2, 6 float32",
    "type": "layer 1, 6 float32",
    "one more": "layer 2, 6 float32",
    "one fewer": "layer 1, 6 float32",
    "no gradient": "gradients, layer 1, 6 float32",
    "normalised": "7 float32",
}
"""What the trainers that differ are told, beside who they are."""


def train(member, config, wrong, odd):
    return train_in_trainer(member, config, Odd(wrong, odd))


def assert_told(outcomes, deed, odd):
    """Whoever comes last says what each does; all end, the others since its connections close."""
    told = [str(outcome.error) for outcome in outcomes if isinstance(outcome.error, InputError)]
    assert told, outcomes
    for line in told:
        assert "\n" not in line
        says(line, "model", deed)
        assert re.search(rf"trainers? (\d, )*[{odd}]", line)
    assert all(outcome.error is not None for outcome in outcomes)
    assert max(outcome.seconds for outcome in outcomes) < SECONDS


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("world", "wrong"),
    [
        *((2, wrong) for wrong in DEEDS),
        (3, "no edges"),
        (3, "width"),
        (3, "one fewer"),
        (4, "one more"),
        (4, "no gradient"),
    ],
)
def test_training_ends_where_trainers_differ(pool, layouts, tmp_path, world, wrong):
    config = config_for(layouts(world).path, tmp_path / "run", batch_size=1 if wrong == "no edges" else 40)
    outcomes = run_apart(pool, world, train, config, wrong, (world - 1,))
    assert_told(outcomes, DEEDS[wrong], "0-3" if wrong == "no edges" else world - 1)


@pytest.mark.parametrize(
    ("wrong", "odd", "among"),
    [("one more", (3,), {2, 3}), ("normalised", (2, 3), {0, 1, 2, 3})],
    ids=["inside a group", "between groups"],
)
def test_training_ends_where_trainers_of_split_groups_differ(pool, layouts, tmp_path, wrong, odd, among):
    config = config_for(layouts(4).path, tmp_path / "run", split_group=2)
    outcomes = run_apart(pool, 4, train, config, wrong, odd, size=2)
    assert_told(outcomes, DEEDS[wrong], odd)
    assert {rank for rank, outcome in enumerate(outcomes) if isinstance(outcome.error, InputError)} <= among


def test_split_groups_may_exchange_differently(pool, layouts, tmp_path):
    config = config_for(layouts(4).path, tmp_path / "run", split_group=2)
    outcomes = run_apart(pool, 4, train, config, "one more", (2, 3), size=2)
    assert [outcome.error for outcome in outcomes] == [None] * 4


def train_without_board(member, config, wrong, odd):
    with mock.patch("gsplit.train.trainer.with_checker", lambda member, *_: member):
        return train(member, config, wrong, odd)


@pytest.mark.cases(2)
@pytest.mark.parametrize(("world", "changes"), [(2, {}), (3, {}), (4, {"split_group": 2})])
def test_agreeing_changes_nothing(pool, layouts, tmp_path, world, changes):
    runs = [
        pool.run(world, function, config_for(layouts(world).path, tmp_path / function.__name__, **changes), "no", ())
        for function in (train, train_without_board)
    ]
    for with_it, without in zip(*runs, strict=True):
        assert all_equal(with_it["after"], without["after"])
        assert not all_equal(with_it["after"], with_it["before"])
    assert runs[0][0]["summary"]["traffic"] == runs[1][0]["summary"]["traffic"]


class Apart:
    """In place of the pool, for helpers that run something in it."""

    def __init__(self, pool):
        self.pool, self.outcomes = pool, []

    def run(self, world, function, *arguments):
        self.outcomes = run_apart(self.pool, world, function, *arguments)


@pytest.mark.parametrize("wrong", ["width", "no last"])
@pytest.mark.parametrize("batch_size", [40, 300])
def test_sampled_prediction_ends_where_trainers_differ(pool, layouts, tmp_path, wrong, batch_size):
    apart = Apart(pool)
    with contextlib.suppress(FileNotFoundError):  # nothing was written
        predicted(
            apart,
            layouts(3),
            Odd(wrong, (1,)).double(),
            range(300),
            tmp_path / "job",
            num_layers=2,
            fan_out=(4, 4),
            batch_size=batch_size,
        )
    assert_told(apart.outcomes, r"rows of layer 2, 6 float64 each", 1)
