"""Whole runs fed by sampler processes: the same losses however many there are, and however far they are ahead."""

from __future__ import annotations

import pytest
from support.runs import config_for, records

import gsplit
from gsplit.runs import checkpoint

EPOCHS = 2


def trained(layout, run, **changes):
    """Losses of the epochs, traffic, and the weights' digest of a run with 2 trainers, by the real command's way."""
    config = config_for(layout, run, epochs=EPOCHS, dropout=0.3, **changes)
    summary = gsplit.train(config=config)
    return {
        "losses": [record["loss"] for record in records(run)],
        "traffic": summary["traffic"],
        "model": checkpoint.describe_state(run, checkpoint.MODEL)["sha256"],
    }


@pytest.fixture(scope="module")
def without_samplers(layouts, tmp_path_factory, in_pool):
    with in_pool():
        return trained(layouts(2).path, tmp_path_factory.mktemp("n0") / "run", samplers=0, prefetch=0)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "changes",
    [
        {"samplers": 1},
        {"samplers": 2, "slots": 1, "sampler_threads": 2, "sampler_memory": "0", "prefetch": 0},
        {"samplers": 4, "prefetch": 3},
    ],
    ids=str,
)
def test_in_sequence_runs_are_bit_equal_for_any_samplers(layouts, tmp_path, without_samplers, changes):
    assert trained(layouts(2).path, tmp_path / "run", **changes) == without_samplers


def test_ready_order_trains_the_same_mini_batches(layouts, tmp_path, without_samplers):
    run = trained(layouts(2).path, tmp_path / "run", samplers=4, order="ready")
    assert len(run["losses"]) == EPOCHS
    for count in ("sampled_edges", "host_rows", "computed_vertices", "exchange_forward_bytes"):
        assert run["traffic"][count] == without_samplers["traffic"][count]


def test_weights_travel_by_edge_ids(weighted_layouts, tmp_path, in_pool):
    path, changes = weighted_layouts(2).path, {"model": "gcn", "fan_out": (3, 3)}
    with in_pool():
        without = trained(path, tmp_path / "0", samplers=0, **changes)
    assert trained(path, tmp_path / "2", samplers=2, **changes) == without
