"""Runs with a loss of the user's: the gradient of one process, from Python and by name, and means found out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import pool as pool_module
from support.apart import run_apart
from support.dense_sage import DenseSage
from support.graphs import lay_out, random_graph, regression_graph
from support.messages import line_with, says
from support.runs import all_equal, config_for, records, run_for

import gsplit
from gsplit import TrainConfig
from gsplit.engine.objectives.own_loss import OwnLoss
from gsplit.errors import InputError
from gsplit.launch.resolve import resolve
from gsplit.models import prepared
from gsplit.nn import SAGE
from gsplit.runs import checkpoint
from gsplit.train import loop
from gsplit.train.check.gradients import CheckSpec, compare

pytestmark = pytest.mark.usefixtures("spent_pool")

FULL = {"strategy": "full", "batch_size": 512}
STEP = {"dtype": "float64", "fan_out": (-1, -1), "batch_size": 512, "epochs": 1, "optimizer": "sgd", "lr": 1.0}


def margins(logits, labels):
    """A value for each target."""
    return F.multi_margin_loss(logits, labels, reduction="none")


def summed_margins(logits, labels):
    return F.multi_margin_loss(logits, labels, reduction="sum")


def cosh(logits, labels):
    """A value for each output, NaN where nothing is known."""
    return (logits - labels).cosh().log()


def known_cosh(logits, labels):
    """A value for each target, of what is known of it."""
    return torch.where(labels.isnan(), 0, logits - labels).cosh().log().sum(dim=1)


def mean_of_many(logits, labels):
    """A mean, but for the few targets that it is tried on before a run."""
    each = F.cross_entropy(logits, labels, reduction="none")
    return each.mean() if len(each) > 6 else each.sum()


def classes_of(world, folder):
    graph = random_graph(120, 5, seed=4, features=6)
    owned = lay_out(graph, folder / "first", parts=world, method="random")
    first = owned.permutation[: owned.offsets[1]]
    train_idx = np.setdiff1d(graph.train_idx, first)  # none of trainer 0
    return lay_out(replace(graph, train_idx=train_idx), folder, parts=world, method="random")


def numbers_of(world, folder):
    return lay_out(regression_graph(120, 5, seed=4, features=6), folder, parts=world, method="random")


def wanted_loss(function, said, true):
    """The loss over a whole mini-batch, by what counts in it."""
    if not true.is_floating_point():
        return F.multi_margin_loss(said, true)
    if function is cosh:
        known = ~true.isnan()
        return (said[known] - true[known]).cosh().log().mean()
    rows = ~true.isnan().all(dim=1)
    return known_cosh(said[rows], true[rows]).mean()


def learned(member, config, function):
    """As ``train_in_trainer`` does with a model that was handed over."""
    run = resolve(run_for(config, member.world).asked, loss=function)
    trainer = loop.ready(member, run, pool_module.SHARED)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    loop.train(trainer)
    return before, {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


@pytest.mark.parametrize(
    ("world", "function", "changes"),
    [
        (2, summed_margins, {}),
        (3, margins, {}),
        (4, margins, FULL),
        (2, cosh, FULL),
        (3, known_cosh, {}),
        (4, cosh, {"strategy": "data"}),
    ],
)
def test_the_gradient_is_that_of_the_whole_mini_batch(pool, tmp_path, world, function, changes):
    layout = (numbers_of if "cosh" in function.__name__ else classes_of)(world, tmp_path)
    config = config_for(layout.path, tmp_path / "run", **{**STEP, **changes})
    before, after = pool.run(world, learned, config, function)[0]
    dense, train = DenseSage(layout, before), np.array(layout.graph.train_idx)
    labels = dense.labels.double() if layout.graph.regression else dense.labels
    wanted = wanted_loss(function, dense.logits()[train], labels[train])
    wanted.backward()
    for name, weight in dense.weights.items():
        torch.testing.assert_close(before[name] - after[name], weight.grad, rtol=0, atol=1e-10)
    assert records(tmp_path / "run")[0]["loss"] == pytest.approx(wanted.item(), rel=1e-12)


def weights_of(run):
    return checkpoint.load_state(run, checkpoint.MODEL)


def test_a_function_may_be_named_or_handed_over(here, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "given", validate_every=0)
    gsplit.train(config=config, loss=margins)
    gsplit.train(config=replace(config, out=tmp_path / "named", loss=f"{__name__}:margins"))
    gsplit.train(config=replace(config, out=tmp_path / "plain"))
    assert all_equal(weights_of(tmp_path / "given"), weights_of(tmp_path / "named"))
    assert not all_equal(weights_of(tmp_path / "given"), weights_of(tmp_path / "plain"))
    assert [records(tmp_path / run)[0]["settings"]["loss"] for run in ("given", "named", "plain")] == [
        "margins",
        f"{__name__}:margins",
        None,
    ]


def test_a_run_goes_on_with_the_loss_that_it_had(here, layouts, tmp_path, caplog):
    config = config_for(layouts(2).path, tmp_path / "given")
    gsplit.train(config=config, loss=margins)
    with pytest.raises(InputError, match=line_with("loss, margins, Python")):
        gsplit.train(config=TrainConfig.resuming(tmp_path / "given", epochs=3))
    gsplit.train(config=TrainConfig.resuming(tmp_path / "given", epochs=3), loss=margins)
    gsplit.train(config=replace(config, out=tmp_path / "whole", epochs=3), loss=margins)
    assert all_equal(weights_of(tmp_path / "given"), weights_of(tmp_path / "whole"))
    gsplit.train(config=replace(config, out=tmp_path / "named", loss=f"{__name__}:margins"))
    gsplit.train(config=TrainConfig.resuming(tmp_path / "named", epochs=3))
    assert all_equal(weights_of(tmp_path / "named"), weights_of(tmp_path / "whole"))
    gsplit.train(config=TrainConfig.resuming(tmp_path / "given", epochs=4, loss="cross-entropy"))
    says(caplog.text, "loss cross-entropy, None")


def test_a_mean_is_refused_before_anything_is_written(tmp_path, layouts):
    config = config_for(layouts(2).path, tmp_path / "run")
    with pytest.raises(InputError, match=line_with("cross_entropy, 2 targets, 4 others")):
        gsplit.train(config=config, loss=F.cross_entropy)
    with pytest.raises(InputError, match=line_with("torch.nn.functional:cross_entropy")):
        gsplit.train(config=replace(config, loss="torch.nn.functional:cross_entropy"))
    saint = {"sampling": "saint", "subgraph": "30%", "fan_out": (-1, -1), "num_layers": 2, "batch_size": 512}
    with pytest.raises(InputError, match=line_with("--sampling saint, summed_margins")):
        gsplit.train(config=replace(config, **saint), loss=summed_margins)
    assert not (tmp_path / "run").exists()


def compared(member, layout, own, pickled_model):
    spec = CheckSpec(
        layout=layout,
        fan_out=(4, 4),
        batch_size=40,
        seed=0,
        partial_sums=False,
        normalize_features=False,
        port=0,
        pickled_model=pickled_model,
        name="SAGE",
        own_loss=own,
        checker=pool_module.SHARED.checker,
    )
    return compare(member, spec)


def model_of(layout):
    return prepared.pickled(SAGE(layout.graph.num_features, 8, layout.graph.num_classes, num_layers=2))


def test_two_trainers_find_a_mean_that_a_few_targets_do_not_show(pool, layouts):
    own = resolve(config_for(layouts(2).path, None), loss=mean_of_many).own_loss
    assert own.returns == "a sum"
    outcomes = run_apart(pool, 2, compared, layouts(2).path, own, model_of(layouts(2)))
    first = next(outcome.error for outcome in outcomes if isinstance(outcome.error, InputError))
    says(first, "mean_of_many, gradient, return a value for each target")


@pytest.mark.parametrize("function", [margins, summed_margins, cosh])
def test_two_trainers_agree_on_what_can_be_added_up(pool, layouts, tmp_path, function):
    layout = layouts(2)
    if function is cosh:
        layout = lay_out(regression_graph(120, 5, seed=4), tmp_path, parts=2)
    own = resolve(config_for(layout.path, None), loss=function).own_loss
    said = pool.run(2, compared, layout.path, own, model_of(layout))[0]
    says(said, function.__name__)
    assert math.isclose(float(said.split(" differ by ")[1].split(" ")[0]), 0, abs_tol=1e-8)


def test_what_is_handed_over_travels_in_bytes(layouts):
    run = resolve(config_for(layouts(2).path, None), loss=torch.nn.CrossEntropyLoss(reduction="sum"))
    assert isinstance(run.own_loss, OwnLoss)
    assert isinstance(run.own_loss.pickled, bytes)
