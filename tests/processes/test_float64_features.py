"""Features that are stored in float64 reach the model as they are, or rounded where it computes in float32."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.runs import config_for, train_in_trainer

from gsplit.features import FeatureLoader, HostRows
from gsplit.launch.resolve import resolve

PLACES = {
    "host": {},
    "cache": {"cache": "partitioned", "cache_size": "30%"},
    "peers": {"strategy": "data", "cache": "partitioned", "cache_size": "30%"},
    "whole": {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512},
}


@pytest.fixture
def layouts(tmp_path):
    """The same numbers in float32 and in float64."""
    graph = random_graph(120, features=6)
    graphs = {dtype: graph.with_feature_dtype(dtype) for dtype in ("float32", "float64")}
    return {dtype: lay_out(each, tmp_path / dtype, parts=2) for dtype, each in graphs.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("place", PLACES)
def test_models_are_those_of_float32_features(pool, layouts, tmp_path, place, dtype):
    weights = []
    for stored, layout in layouts.items():
        assert layout.graph.features.dtype == stored
        config = config_for(layout.path, tmp_path / f"{stored}-run", gpus=2, dtype=dtype, **PLACES[place])
        weights.append(pool.run(2, train_in_trainer, config)[0]["after"])
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_rounded_once_or_not_at_all(dtype):
    rows = np.random.default_rng(0).normal(1e7, 1, (50, 3))
    ids = np.array([3, 49, 3, 0])
    loader = FeatureLoader(
        HostRows(rows), device=torch.device("cpu"), dtype=getattr(torch, dtype), normalize=False, threads=1
    )
    assert not loader.stores
    assert np.array_equal(loader.load(ids).numpy(), rows[ids].astype(dtype))


def test_that_rows_are_rounded_is_said(layouts, tmp_path, caplog):
    for stored, dtype, told in (("float64", "float32", 1), ("float64", "float64", 0), ("float32", "float32", 0)):
        with caplog.at_level(logging.INFO):
            resolve(config_for(layouts[stored].path, tmp_path / "run", gpus=2, dtype=dtype))
        assert caplog.text.count("--precision 64") == told
        caplog.clear()
