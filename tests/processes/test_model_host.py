"""What experiments.model_host counts is what trainers count while they train; the rates of this machine are there."""

from __future__ import annotations

import pytest
from support import runs

from experiments.model_host.check import STAGES, measured_epoch
from experiments.model_host.counts import count, strategies_of
from experiments.model_host.layers import layers_of
from experiments.model_host.measured import machine_rates
from experiments.model_host.model import exchanged_bytes, reduced_bytes
from experiments.shared.placements import Placements

FAN_OUT = (4, 3, 2)


@pytest.mark.cases(3)
@pytest.mark.parametrize("model", ["sage", "gat", "gcn"])
@pytest.mark.parametrize("changes", [{}, {"split_group": 2}, {"strategy": "data"}], ids=["split", "groups", "data"])
def test_an_epoch_of_training_counts_the_same(pool, layouts, tmp_path, model, changes):
    layout = layouts(4)
    config = runs.config_for(layout.path, tmp_path / "run", model=model, fan_out=FAN_OUT, epochs=1, **changes)
    traffic = pool.run(4, runs.train_in_trainer, config)[0]["summary"]["traffic"]
    placements = Placements(layout, config.batch_size, FAN_OUT, config.seed, groups=(2,))
    strategies = strategies_of(layout, placements, (0,), len(FAN_OUT), groups=(2,))
    group = changes.get("split_group", 1 if changes else 4)
    wanted = [each for each in strategies if each.group == group and each.name not in ("PaGraph", "Quiver")]
    (counted,) = count(placements, wanted, range(placements.plan.num_batches))
    graph = layout.graph
    layers = layers_of(model, [graph.num_features, config.hidden, config.hidden, graph.num_classes], config.heads)
    assert counted.edges == traffic["computed_edges"]
    assert counted.loads.host_rows == traffic["host_rows"]
    assert counted.segment_bytes == traffic["segment_bytes"]
    assert exchanged_bytes(counted, layers) == traffic["exchange_forward_bytes"] + traffic["exchange_backward_bytes"]
    assert counted.messages == traffic["exchange_forward_messages"]
    trainers = sum(map(len, counted.mini_batches))
    assert reduced_bytes(layers) * trainers == traffic["all_reduce_bytes"]


@pytest.mark.slow
def test_rates_of_this_machine():
    found = machine_rates(2, 1, (10, 4), 10)
    assert found.keys() == {"gather", "load", "flops", "pair", "operation_s", "message_s"}
    assert all(value > 0 for value in found.values())
    assert found["operation_s"] < 0.1 > found["message_s"]


@pytest.mark.slow
def test_a_measured_epoch(layouts, tmp_path):
    config = runs.config_for(layouts(2).path, tmp_path / "run", epochs=2, validate_every=0, samplers=1)
    found = measured_epoch(config)
    assert found.keys() == {"epoch", *STAGES}
    assert found["epoch"] > 0
    assert list(tmp_path.iterdir()) == []
