"""Models handed over as objects: law 2 holds for them too, and mistakes are told before anything starts."""

from __future__ import annotations

import contextlib
import copy

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.messages import line_with
from torch import nn

import gsplit
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError
from gsplit.nn import SAGE
from gsplit.runs import checkpoint


class MyModel(nn.Module):
    """As a user would write one: the exchange first, then any layer; evaluated by targets."""

    def __init__(self, width, classes, norm=nn.Identity):
        super().__init__()
        self.first, self.second = nn.Linear(2 * width, 8), nn.Linear(16, classes)
        self.norm = norm(8)

    def forward(self, blocks, x):
        for layer, linear in ((1, self.first), (2, self.second)):
            block = blocks[layer]
            x = block.exchange(x)
            neighbours = torch.segment_reduce(x[block.indices.long()], "max", offsets=block.indptr.long(), initial=0)
            x = linear(torch.cat([x[: block.num_destinations], neighbours], dim=1))
            x = self.norm(torch.relu(x)) if layer == 1 else x
        return x


@pytest.fixture(scope="module")
def graph():
    return random_graph(120, 6, seed=9)


def config(out, **changes):
    defaults = {"fan_out": (4, 4), "batch_size": 30, "epochs": 2, "lr": 0.01, "threads": 1}
    return TrainConfig(out=out, device="cpu", save_predictions="logits", **{**defaults, **changes})


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("make", "dtype", "own_processes"),
    [
        (MyModel, "float64", True),
        (lambda w, c: MyModel(w, c, norm=nn.BatchNorm1d), "float64", False),
        (lambda w, c: SAGE(w, 8, c, num_layers=2), "float32", False),
    ],
    ids=["MyModel", "BatchNorm", "SAGE"],
)
def test_the_same_model_whatever_the_number_of_trainers(graph, tmp_path, in_pool, make, dtype, own_processes):
    torch.manual_seed(0)
    model = make(graph.num_features, graph.num_classes).to(getattr(torch, dtype))
    untouched = copy.deepcopy(model.state_dict())
    logits = []
    for parts in (1, 3):
        layout = lay_out(graph, tmp_path, parts=parts)
        with contextlib.nullcontext() if own_processes and parts > 1 else in_pool():
            gsplit.train(layout.path, config(tmp_path / f"run-{parts}", dtype=dtype, samplers=0), model=model)
        logits.append(np.load(tmp_path / f"run-{parts}" / "predictions.npy"))
        assert all(torch.equal(tensor, untouched[name]) for name, tensor in model.state_dict().items())
    np.testing.assert_allclose(*logits, rtol=0, atol=1e-8 if dtype == "float64" else 1e-3)
    loaded = gsplit.load(tmp_path / "run-3", model=copy.deepcopy(model))
    assert not all(torch.equal(tensor, untouched[name]) for name, tensor in loaded.state_dict().items())


class Deeper(MyModel):
    num_layers = 3


class ByLayer(MyModel):
    def forward_layer(self, layer, block, x):
        return x


class Wider(ByLayer):
    level_widths = (99, 8, 3)


class Nothing(nn.Module):
    def forward(self, blocks, x):
        return x


def local_class(width, classes):
    class Local(MyModel):
        pass

    return Local(width, classes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Deeper, "3, 2, --fan-out"),
        (ByLayer, "level_widths, 3"),
        (Wider, "99, level_widths[0], 5"),
        (lambda w, c: Nothing(), "Nothing"),
        (local_class, "Local"),
        (lambda w, c: MyModel(w, c, norm=nn.InstanceNorm1d), "InstanceNorm1d"),
        (lambda w, c: MyModel(w, c + 2), "(#, 5, 3"),
    ],
)
def test_models_that_cannot_be_trained_are_named(graph, tmp_path, make, message):
    layout = lay_out(graph, tmp_path, parts=2)
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.train(layout.path, config(tmp_path / "run"), model=make(graph.num_features, graph.num_classes))
    assert not (tmp_path / "run").exists()  # a run that saved nothing leaves nothing


def test_a_custom_model_is_resumed_and_loaded_with_one_of_the_same_shape(graph, tmp_path, in_pool):
    layout = lay_out(graph, tmp_path, parts=1)
    model = MyModel(graph.num_features, graph.num_classes, norm=nn.BatchNorm1d)
    with in_pool():
        gsplit.train(layout.path, config(tmp_path / "run", epochs=1, samplers=0), model=model)
    assert checkpoint.describe_state(tmp_path / "run", "model")["signature"]["class"] == "MyModel"
    with pytest.raises(InputError, match=line_with("MyModel, Python")):
        gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=2))
    with pytest.raises(InputError, match=line_with("first.weight, [8, 10], [8, 12]")):
        gsplit.load(tmp_path / "run", model=MyModel(6, graph.num_classes, norm=nn.BatchNorm1d))
