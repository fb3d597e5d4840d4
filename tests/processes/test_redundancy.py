"""What experiments.paper.redundancy counts from samples is what trainers count while they train."""

from __future__ import annotations

import pytest
from support import runs

from experiments.paper.redundancy import RedundancyConfig, counts_of


@pytest.mark.parametrize("hidden", [8, 4])
def test_an_epoch_of_training_counts_the_same(pool, layouts, tmp_path, hidden):
    """5 features: with 4 hidden columns the first layer exchanges projections, with 8 the features themselves."""
    layout = layouts(4)
    config = runs.config_for(layout.path, tmp_path / "run", hidden=hidden, fan_out=(4, 3, 2), epochs=1)
    traffic = pool.run(4, runs.train_in_trainer, config)[0]["summary"]["traffic"]
    counted = counts_of(
        layout, RedundancyConfig(batch_size=config.batch_size, hidden=hidden, fan_out=config.fan_out, caches=(0,))
    )
    (ours,) = (row for row in counted["traffic"] if row["system"] == "GSplit")
    (splits,) = (row for row in counted["work"] if row["laying"] == "splits")
    assert splits["edges"] == traffic["computed_edges"] == traffic["sampled_edges"]
    assert ours["host_rows"] == traffic["host_rows"]
    assert ours["host_bytes"] == traffic["host_to_device_bytes"]
    exchanges = counted["exchanges"]
    for way in ("forward", "backward"):
        assert sum(layer[f"projected_{way}_bytes"] for layer in exchanges) == traffic[f"exchange_{way}_bytes"]
    messages = sum(layer["messages"] * (1 + (layer["projected_backward_bytes"] > 0)) for layer in exchanges)
    assert messages == traffic["exchange_forward_messages"] + traffic["exchange_backward_messages"]


@pytest.mark.parametrize(
    ("system", "changes"),
    [
        ("DGL", {"strategy": "data"}),
        ("PaGraph", {"strategy": "data", "cache": "replicated", "cache_size": "10%"}),
        ("Quiver", {"strategy": "data", "cache": "partitioned", "cache_size": "10%"}),
        ("GSplit", {"cache_size": "10%"}),
    ],
)
def test_every_system_trains_as_it_is_counted(pool, layouts, tmp_path, system, changes):
    layout = layouts(4)
    config = runs.config_for(layout.path, tmp_path / "run", fan_out=(4, 3), epochs=1, **changes)
    traffic = pool.run(4, runs.train_in_trainer, config)[0]["summary"]["traffic"]
    rows = counts_of(layout, RedundancyConfig(batch_size=config.batch_size, fan_out=config.fan_out, caches=(10,)))
    (counted,) = (row for row in rows["traffic"] if row["system"] == system)
    assert [counted[f"{kind}_rows"] for kind in ("needed", "hit", "peer", "host")] == [
        traffic[name] for name in ("level_0_vertices", "cache_hits", "peer_rows", "host_rows")
    ]
    assert (counted["host_bytes"], counted["peer_bytes"]) == (
        traffic["host_to_device_bytes"],
        traffic["device_to_device_bytes"],
    )
