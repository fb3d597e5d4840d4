"""What people meet first: parts on any number of trainers, the line on mini-batches, and the name of the model."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.runs import all_equal, records

import gsplit
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError
from gsplit.models import registry
from gsplit.runs import checkpoint

BASE = {"fan_out": (3, 3), "hidden": 8, "epochs": 2, "lr": 0.02, "batch_size": 50, "dropout": 0.0, "threads": 1}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Layouts of one graph, by their number of parts."""
    folder, graph = tmp_path_factory.mktemp("parts"), random_graph(120, 6, seed=9)
    return lambda number: lay_out(graph, folder, parts=number).path


def config(out, **changes):
    return TrainConfig(**{"out": out, "device": "cpu", "dtype": "float64", "samplers": 0, **BASE, **changes})


def trained(layout, out, **changes):
    """Logits of all vertices, in the graph's ids."""
    gsplit.train(layout, config(out, save_predictions="logits", **changes))
    return np.load(out / "predictions.npy")


FULL = {"strategy": "full", "num_layers": 2, "fan_out": (-1, -1), "batch_size": 512}
UNIFORM = {**FULL, "strategy": "split", "sampling": "uniform", "subgraph": "50%"}
WAYS = {
    "split": {},
    "cached": {"cache": "partitioned", "cache_size": "20%"},
    "sums": {"exchange": "auto"},
    "full": FULL,
    "rows": {**FULL, "algorithm": "1d-sparse"},
}


@pytest.mark.cases(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [4, 8])
def test_parts_that_three_trainers_share_out_unevenly(parts, tmp_path, in_pool, way, number):
    """The model of one trainer, by training, evaluation and prediction."""
    with in_pool():
        wanted = trained(parts(4), tmp_path / "one", gpus=1, **{**WAYS[way], "algorithm": "auto", "cache": "auto"})
        found = trained(parts(number), tmp_path / "three", gpus=3, **WAYS[way])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)
        options = {"what": "logits", "device": "cpu", "gpus": 3}
        exact = gsplit.predict(tmp_path / "three", parts(number), **options)
        np.testing.assert_allclose(exact, wanted, rtol=0, atol=1e-8)
        drawn = [
            gsplit.predict(tmp_path / "three", parts(number), **{**options, "fan_out": (2, 2), "gpus": gpus})
            for gpus in (1, 3)
        ]
        np.testing.assert_allclose(*drawn, rtol=0, atol=1e-8)


def test_caches_that_peers_read_are_dealt_out_unevenly(parts, tmp_path, in_pool):
    with in_pool():
        plain = trained(parts(4), tmp_path / "plain", gpus=3, strategy="data")
        cached = trained(
            parts(4), tmp_path / "cached", gpus=3, strategy="data", cache="partitioned", cache_size="20%"
        )
    assert np.array_equal(plain, cached)


def test_more_trainers_than_parts_predict_exactly_but_do_not_sample(parts, tmp_path, in_pool):
    with in_pool():
        wanted = trained(parts(4), tmp_path / "run", gpus=1)
        found = gsplit.predict(tmp_path / "run", parts(2), what="logits", device="cpu", gpus=3)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)
        with pytest.raises(InputError, match=line_with("2 parts, --fan-out, 3, --gpus 2")):
            gsplit.predict(tmp_path / "run", parts(2), device="cpu", gpus=3, fan_out=(2, 2))


SAID = {
    "split": ({"gpus": 2}, "50, 2 trainers, --batch-size 50"),
    "parts": ({"gpus": 3}, "4 parts, 1, 1 and 2"),
    "data": ({"gpus": 3, "strategy": "data"}, "3 trainers, --batch-size 50, 17"),
    "groups": ({"gpus": 4, "split_group": 2}, "50, 4 trainers"),
    "one": ({"gpus": 1}, "50, one trainer, --batch-size 50"),
    "full": ({"gpus": 2, **FULL}, "60, 2 trainers"),
    "uniform": ({"gpus": 2, **UNIFORM}, "30, 2 trainers"),
}


@pytest.mark.parametrize("way", SAID)
def test_the_start_says_how_large_a_mini_batch_is(parts, tmp_path, in_pool, caplog, way):
    changes, line = SAID[way]
    caplog.set_level(logging.INFO, "gsplit")
    with in_pool():
        gsplit.train(parts(4), config(tmp_path / "run", **{"epochs": 0, **changes}))
    where, said = [record.getMessage() for record in caplog.records if record.name == "gsplit.launch.start"]
    says(where, f"CPU, PyTorch {torch.__version__}")
    says(said, line)
    layout = gsplit.data.open_layout(parts(4))
    if way == "split":  # each trainer's share of the training vertices is that of the targets
        first = (layout.graph.train_idx < layout.offsets[2]).mean()
        assert said.endswith(f": about {50 * first:,.0f} and {50 * (1 - first):,.0f}")


@pytest.mark.parametrize(("hidden", "given", "dropped"), [(127, None, 0.0), (128, None, 0.5), (16, 0.3, 0.3)])
def test_dropout_is_for_layers_that_are_wide_enough(parts, tmp_path, in_pool, hidden, given, dropped):
    asked = config(tmp_path / "run", hidden=hidden, dropout=given, epochs=1)
    with in_pool():
        gsplit.train(parts(2), asked)
    assert TrainConfig.from_json(tmp_path / "run" / "resolved.json").dropout == dropped
    assert TrainConfig.from_json(tmp_path / "run" / "config.json").dropout == given
    assert records(tmp_path / "run")[0]["settings"]["dropout"] == dropped
    made = registry.build(checkpoint.describe_state(tmp_path / "run", checkpoint.MODEL)["signature"], asked)
    assert made.dropout.p == dropped


def test_model_pt_is_the_model_that_is_kept(parts, tmp_path, in_pool):
    run = tmp_path / "run"

    def named():
        weights = torch.load(run / "model.pt", weights_only=True)
        assert all_equal(weights, checkpoint.load_state(run, checkpoint.MODEL))
        return weights

    def goes_on(**changes):
        gsplit.train(config=replace(TrainConfig.resuming(run), **changes))

    with in_pool():
        gsplit.train(parts(2), config(run, epochs=1, validate_every=0))
        first = named()
        goes_on(epochs=2)
        assert not all_equal(named(), first)
        goes_on(epochs=3, validate_every=1, lr=1e-12)  # from here on nothing is better, so nothing is saved
        kept = checkpoint.describe_state(run, checkpoint.MODEL)["file"]
        link = run / "model.pt"
        for epochs, left in ((4, None), (5, "model-0000000000000000.pt")):  # by a process that was killed in between
            link.unlink()
            if left is not None:
                link.symlink_to(left)
            goes_on(epochs=epochs)
            named()
            assert link.readlink().name == kept
