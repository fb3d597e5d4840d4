"""Accuracies in mixed precision: what runs are asked for, and what is made of their scores."""

from __future__ import annotations

import json

import pytest

from experiments.rules import precisions


def command(real_data, tmp_path, words):
    file = tmp_path / "found.json"
    precisions.command([*f"--datasets cora --quick {words} --data".split(), str(real_data), "--json", str(file)])
    return json.loads(file.read_text())


def test_precisions_are_compared_seed_by_seed(real_data, tmp_path, monkeypatch):
    asked = []

    def tested(config):
        asked.append((config.model, config.sampling, config.strategy, config.seed, config.precision))
        return 0.8 + 0.01 * config.seed + (0.002 + 0.004 * config.seed) * (config.precision != "32")

    monkeypatch.setattr(precisions, "tested", tested)
    found = command(real_data, tmp_path, "--models gcn sage --ways uniform whole-graph --seeds 2")
    pairs = [(seed, precision) for precision in ("32", "bf16-mixed") for seed in (0, 1)]
    ways = [("uniform", "split"), ("neighbours", "full")]
    assert asked == [(model, *way, *pair) for way in ways for model in ("gcn", "sage") for pair in pairs]
    for row in found["cells"]:
        assert row["float32_scores"] == pytest.approx([0.8, 0.81])
        assert row["mixed_scores"] == pytest.approx([0.802, 0.816])
        assert (row["points"], row["error"]) == (pytest.approx(0.4), pytest.approx(0.2))
    groups = {row["group"]: row for row in found["groups"]}
    pairs_of = {name: row["pairs"] for name, row in groups.items()}
    assert pairs_of == {"all": 8, "uniform": 4, "whole-graph": 4, "gcn": 4, "sage": 4}
    assert groups["all"]["points"] == pytest.approx(0.4)
    assert groups["all"]["error"] == pytest.approx(0.2 / 7**0.5)


def test_a_run_lives_in_this_process(real_data, tmp_path):
    (row,) = command(real_data, tmp_path, "--models gcn --ways neighbours --seeds 1")["cells"]
    assert 0.2 < row["float32_mean"] < 0.8
    assert row["float32_mean"] != row["mixed_mean"]
    assert row["error"] is None
