"""A run's model is found, constructed and prepared once, and described by what that gave."""

from __future__ import annotations

import pickle

import pytest
from support.graphs import random_graph
from torch import nn

from gsplit import TrainConfig
from gsplit.models import prepared, registry
from gsplit.models.registry import CUSTOM, build, describe

GRAPH = random_graph(30, 3)
CALLS: list[str] = []


class Counted(nn.Module):
    """A model that notes when it is made; it has no dropout of its own, and needs no weights."""

    uses_edge_weight = False

    def __init__(self, in_feats, hidden, n_classes, depth=1):
        CALLS.append(f"{in_feats},{hidden},{n_classes},{depth}")
        super().__init__()
        self.lin = nn.Linear(in_feats, n_classes)

    def forward(self, blocks, x):
        return self.lin(x)


@pytest.fixture
def counted(monkeypatch):
    """What is done while a model is described: constructions, and preparations."""
    CALLS.clear()
    ours = prepared.prepare
    monkeypatch.setattr(prepared, "prepare", lambda model: CALLS.append("prepared") or ours(model))
    return CALLS


def config_for(**changes):
    return TrainConfig(fan_out=(2,), num_layers=1, **changes)


def test_a_class_is_constructed_once(counted):
    config = config_for(model=f"{__name__}:Counted", model_args="depth=3", hidden=7)
    described = describe(config, GRAPH, None)
    assert counted == [f"{GRAPH.num_features},7,{GRAPH.num_classes},3", "prepared"]
    shapes = {"lin.weight": [GRAPH.num_classes, GRAPH.num_features], "lin.bias": [GRAPH.num_classes]}
    arguments = {"in_feats": GRAPH.num_features, "hidden": 7, "n_classes": GRAPH.num_classes, "depth": 3}
    named = {"model": config.model, "arguments": arguments, "shapes": shapes, "dtype": "float32"}
    assert list(described.signature.items()) == list(named.items())
    assert (described.needs, described.pickled_model) == ({"weights": False, "degrees": False}, None)
    assert "dropout" in described.unused
    assert not {"model", "model_args", "hidden"} & set(described.unused)
    assert isinstance(build(described.signature, config), Counted)


def test_an_object_is_copied_once_and_left_alone(counted):
    model = nn.Sequential(Counted(GRAPH.num_features, 2, GRAPH.num_classes))[0]
    counted.clear()
    described = describe(config_for(), GRAPH, model)
    assert counted == ["prepared"]
    assert described.signature["model"] == CUSTOM
    assert set(described.unused) == set(registry.OF_MODEL)
    assert isinstance(pickle.loads(described.pickled_model), Counted)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_what_is_described_can_be_built(name):
    config = config_for(model=name, attention_dropout=0.3)
    described = describe(config, GRAPH, None)
    assert type(build(described.signature, config)) is registry.BUILT_IN[name]
    assert ("attention_dropout" in described.unused) == (name != "gat")
    assert {"dropout", "input_dropout"}.isdisjoint(described.unused)
