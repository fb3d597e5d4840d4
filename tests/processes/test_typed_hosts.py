"""Graphs of several types on several hosts: the weights of one host with as many trainers in the same groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.runs import all_equal, config_for
from support.runs_of_hosts import assert_same_run, trained_on
from support.typed_graphs import lay_out_types, random_typed_graph, with_features

RGCN = {"model": "rgcn", "precision": "64", "batch_size": 12}
CASES = {
    # Adam would make steps of what is left of a gradient that is zero but for rounding, as of a bias before a norm.
    "groups": {"bases": 2, "norm": "batch", "residual": True, "optimizer": "sgd"},
    "data": {"strategy": "data", "edge_weights": True, "evaluate": "sampled"},
    "split over hosts": {"split_group": 4, "model": "rgat", "heads": 2, "fan_out_of": "r2=0,2"},
    "untyped": {"model": "sage", "save_predictions": "logits", "validate_every_batches": 2, "validate_vertices": 5},
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """typed(parts): layouts of one graph of four types, all with features."""
    graph, folder = with_features(random_typed_graph(4, 6, seed=38, weighted=True)), tmp_path_factory.mktemp("typed")
    return lambda parts: lay_out_types(graph, folder, parts=parts).path


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", CASES)
def test_two_hosts_train_as_one(pool, typed, tmp_path, name):
    config = config_for(typed(4), tmp_path / "one", **{**RGCN, **CASES[name]})
    several = replace(config, out=tmp_path / "several")
    for each in (config, several):
        each.out.mkdir()
    group = {} if config.strategy == "data" or config.split_group else {"split_group": 2}
    one = pool.run(4, trained_on, replace(config, **group), 1)
    found = pool.run(4, trained_on, several, 2)
    assert_same_run(found[0], one[0], several.out, config.out)
    assert all(all_equal(weights, found[0][0]) for weights, *_ in found)
