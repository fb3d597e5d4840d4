"""Accuracy with other types of the exchange: what runs are asked for, and what is made of their scores."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from experiments.paper import accuracy
from gsplit.config.train import TrainConfig


def test_types_of_the_exchange_are_compared_seed_by_seed(real_data, tmp_path, monkeypatch):
    asked = []

    def train(layout, config):
        asked.append((layout.name, config.exchange_dtype, config.seed, config.epochs))
        return {
            "test_accuracy": 0.8 + 0.01 * config.seed + 0.002 * (config.seed + 1) * (config.exchange_dtype != "model")
        }

    monkeypatch.setattr(accuracy, "train", train)
    words = "--datasets cora --trainers 2 --seeds 0,1 --exchange-dtypes model bfloat16 --quick --json found.json"
    monkeypatch.chdir(tmp_path)
    accuracy.command([*words.split(), "--data", str(real_data)])
    assert asked == [("layout-2", kind, seed, 2) for kind in ("model", "bfloat16") for seed in (0, 1)]
    first, second = json.loads((tmp_path / "found.json").read_text())
    assert (first["exchange_dtype"], first["minus_first"]) == ("model", None)
    assert second["scores"] == pytest.approx([0.802, 0.814])
    assert second["minus_first"] == pytest.approx(0.003)


def test_first_runs_have_the_defaults_alone(real_data, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(accuracy, "train", lambda _, config: asked.append(config) or {"test_accuracy": 0.8})
    monkeypatch.chdir(tmp_path)
    accuracy.command(
        ["--datasets", "cora", "--trainers", "2", "--seeds", "0,1", "--defaults", "--data", str(real_data)]
    )
    where = {"out": None, "device": "auto", "checkpoint_every": 1}
    assert [replace(config, **where) for config in asked] == [TrainConfig(seed=seed) for seed in (0, 1)]
