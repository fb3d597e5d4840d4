"""--check-model: it finds what no list of names holds."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.apart import run_apart
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.models import DGL, OURS, PYG, make_model, names
from torch import nn
from torch.nn.functional import dropout

import gsplit
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError
from gsplit.models import prepared
from gsplit.nn import SAGE
from gsplit.train.check.cases import Draws, chosen_cases
from gsplit.train.check.gradients import CheckSpec, compare

pytestmark = pytest.mark.usefixtures("spent_pool")

NOT_ALIKE = "model, trainer #, layer #"


class Dropped(SAGE):
    """Dropout called as a function, which the check must switch off."""

    def forward_layer(self, layer, block, x):
        return super().forward_layer(layer, block, dropout(nn.functional.alpha_dropout(x, 0.5, True), 0.5))


class Centred(SAGE):
    """Looks at all rows at hand."""

    def forward_layer(self, layer, block, x):
        x = super().forward_layer(layer, block, x)
        return x - x.mean(dim=0)


class Noisy(SAGE):
    """Depends on chance."""

    def forward_layer(self, layer, block, x):
        return super().forward_layer(layer, block, x + torch.randn_like(x))


class NotANumber(SAGE):
    """Its last parameter alone has a wrong gradient, and that is not a number, where the mini-batch is split."""

    def __init__(self, *widths, **options):
        super().__init__(*widths, **options)
        self.last = nn.Parameter(torch.ones(3))

    def forward(self, blocks, x):
        last = self.last.clone()
        if blocks[1].route is not None:
            last.register_hook(lambda gradient: gradient * torch.nan)
        return super().forward(blocks, x) + last


class Forgetful(SAGE):
    """No exchange: sees only its own part."""

    def forward(self, blocks, x):
        alone = {layer: replace(block, route=None) for layer, block in blocks.items()}
        return super().forward(
            {layer: replace(block, indices=block.indices % block.num_own_sources) for layer, block in alone.items()},
            x,
        )


class OnlyWithEdges(SAGE):
    """The exchange stands in a condition that differs from trainer to trainer."""

    def forward_layer(self, layer, block, x):
        if block.num_edges > 0:
            return super().forward_layer(layer, block, x)
        return x.new_zeros(block.num_destinations, self.level_widths[layer]) * sum(p.sum() for p in self.parameters())


class NeedsEdges(SAGE):
    """Works on most mini-batches."""

    def forward_layer(self, layer, block, x):
        x = super().forward_layer(layer, block, x)
        assert block.indices.max() >= 0
        return x


class Rows(nn.Module):
    """Looks at no neighbour."""

    uses_edge_weight = False

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, blocks, x):
        return self.linear(x[: blocks[len(blocks)].num_destinations])


@pytest.fixture(scope="module")
def graph():
    return random_graph(150, 6, seed=9)


@pytest.fixture(scope="module")
def layout(graph, tmp_path_factory):
    return lay_out(graph, tmp_path_factory.mktemp("check"), parts=3)


def config_of(fan_out=(4, 4), **more):
    return TrainConfig(fan_out=fan_out, batch_size=40, check_model=True, device="cpu", **more)


@pytest.mark.cases(1)
@pytest.mark.parametrize("parts", [1, 3])
def test_says_that_a_model_can_be_split(graph, tmp_path, parts):
    layout = lay_out(graph, tmp_path, parts=parts)
    said = gsplit.train(layout.path, config_of(), model=Dropped(5, 8, 3, num_layers=2, dropout=0.5))["check"]
    says(said, "Dropped can be split, #, 4 mini-batches, # rows, float64")
    assert {path.name for path in tmp_path.iterdir()} == {"store", f"metis-{parts}-0"}  # nothing else is left


def test_refuses_a_model_in_one_line(graph, tmp_path):
    layout = lay_out(graph, tmp_path, parts=3)
    with pytest.raises(InputError, match=line_with(NOT_ALIKE)):
        gsplit.train(layout.path, config_of(), model=OnlyWithEdges(5, 8, 3, num_layers=2))


def compare_in_trainer(member, layout, config, pickled_model, name):
    spec = CheckSpec(
        layout=layout,
        fan_out=config.fan_out,
        batch_size=config.batch_size,
        seed=config.seed,
        partial_sums=config.exchange == "auto",
        normalize_features=config.normalize_features,
        port=0,
        pickled_model=pickled_model,
        name=name,
        checker=pool_module.SHARED.checker,
    )
    return compare(member, spec)


def checked(pool, layout, model, config=None):
    """The line, or the complaint of a trainer."""
    name = type(model).__name__
    config = config or config_of()
    outcomes = run_apart(pool, 2, compare_in_trainer, layout.path, config, prepared.pickled(model), name)
    # As the launcher does: the first failure counts, for the other may be of the connection that it broke.
    failed = [outcome for outcome in sorted(outcomes, key=lambda outcome: outcome.ended_s) if outcome.error]
    assert not failed or isinstance(failed[0].error, InputError), outcomes
    return str(failed[0].error) if failed else outcomes[0].result


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", names([*OURS, *PYG, *DGL]))
def test_accepts_every_model_of_ours_and_of_the_libraries(pool, layout, name):
    said = checked(pool, layout, make_model(name, 5, 3, 2))
    says(said, "can be split")


@pytest.mark.parametrize(
    ("cls", "complaint"),
    [
        *((cls, f"{cls.__name__} cannot be split, gradient") for cls in (Centred, Noisy, Forgetful, NotANumber)),
        (OnlyWithEdges, NOT_ALIKE),
        (NeedsEdges, "NeedsEdges, trainer #"),
    ],
)
def test_refuses_a_model_that_cannot_be_split(pool, layout, cls, complaint):
    said = checked(pool, layout, cls(5, 8, 3, num_layers=2))
    says(said, complaint)


class MeanOfEdges(SAGE):
    """Says that it takes sums of rows, and counts the edges of the block, which stand for several then."""

    uses_source_rows = False

    def forward_layer(self, layer, block, x):
        summed = block.sum(x) / block.indptr.diff().clamp(min=1).unsqueeze(1)
        return super().forward_layer(layer, block, x) + summed.mean(dim=1, keepdim=True)


def test_the_exchange_is_that_of_the_run(pool, layout):
    model = MeanOfEdges(5, 8, 3, num_layers=2)
    says(checked(pool, layout, model), "can be split")
    said = checked(pool, layout, model, config_of(exchange="auto"))
    says(said, "MeanOfEdges cannot be split")


def test_says_that_a_model_exchanges_nothing(pool, layout):
    says(checked(pool, layout, Rows()), "4 mini-batches, no exchange")


def chain(edges):
    """40 vertices, all to train; their in-edges."""
    graph = random_graph(40, 3, seed=1)
    sources, destinations = np.array(edges, np.int32).T
    order = np.argsort(destinations, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(destinations, minlength=40))])
    return replace(
        graph,
        indptr=indptr,
        indices=sources[order],
        train_idx=np.arange(40),
        valid_idx=np.array([], int),
        test_idx=np.array([], int),
    )


TWO_PARTS = [(u, v) for half in (0, 20) for u in range(half, half + 20) for v in range(half, half + 20) if u != v]


def test_moves_the_cut_to_where_rows_cross(pool, tmp_path):
    layout = lay_out(chain(TWO_PARTS), tmp_path, parts=2)
    owner = np.searchsorted(layout.offsets, np.arange(40), side="right")
    destinations = np.repeat(np.arange(40), np.diff(layout.graph.indptr))
    assert (owner[layout.graph.indices] == owner[destinations]).all()  # no edge goes from part to part
    said = checked(pool, layout, SAGE(5, 8, 3, num_layers=2))
    assert int(re.search(r"(\d+) rows", said)[1]) > 0
    says(checked(pool, layout, Forgetful(5, 8, 3, num_layers=2)), "Forgetful cannot be split")


@pytest.mark.parametrize("edges", [[(3, 3)], [(v, v) for v in range(40)]], ids=["a loop", "loops"])
def test_says_that_nothing_could_be_shown(pool, tmp_path, edges):
    layout = lay_out(chain(edges), tmp_path, parts=2, method="random")
    says(checked(pool, layout, SAGE(5, 8, 3, num_layers=2)), "SAGE, no row crosses")


@pytest.mark.parametrize("fan_out", [(4,), (4, 4), (4, 4, 4)])
def test_looks_at_trainers_without_targets_and_without_edges(layout, fan_out):
    draws = Draws(layout=layout, fan_out=fan_out, batch_size=config_of().batch_size, seed=config_of().seed)
    cases = chosen_cases(draws, "model")
    assert [case.ordinary for case in cases] == [True, False, False, False]
    assert cases[0].rows > 0
    idle = []
    for case in cases:
        sampler = draws.sample(case.targets, case.batch, [case.cut])
        splits = [sampler.segment(rank) for rank in (0, 1)]
        idle.append([(len(split.targets) == 0, split.num_edges == 0) for split in splits])
        assert case.rows == sum(sum(layer.send_counts) for split in splits for layer in split.layers.values())
    assert idle[0] == [(False, False), (False, False)]
    assert idle[1][1][0]
    assert idle[2][0][0]
    assert (True, True) in idle[3]
    assert cases[3].rows > 0  # the idle one has rows that the other needs
