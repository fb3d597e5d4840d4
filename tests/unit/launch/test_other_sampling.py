"""A layout that was weighted for another training says so."""

from __future__ import annotations

import pytest
from support.graphs import random_graph
from support.messages import says
from support.typed_graphs import random_typed_graph

from gsplit import TrainConfig
from gsplit.data import open_layout, write_store
from gsplit.launch.presampled import warn_of_other_sampling
from gsplit.partition import PartitionConfig, partition


@pytest.mark.parametrize("weights", ["uniform", "presample"])
def test_another_fan_out_is_told(tmp_path, caplog, weights):
    write_store(tmp_path / "store", random_graph(60, 4), name="test", source="test")
    partition(
        PartitionConfig(store=tmp_path / "store", out=tmp_path / "layout", parts=2, weights=weights, fan_out=(5, 5))
    )
    layout = open_layout(tmp_path / "layout")
    ladies = {"sampling": "ladies", "layer_sizes": (9, 9)}
    for given, told in (({"fan_out": (5, 5)}, ""), ({"fan_out": (5, 4)}, "5,4"), (ladies, "--sampling ladies")):
        caplog.clear()
        warn_of_other_sampling(TrainConfig(**given), layout)
        if told and weights == "presample":
            says(caplog.text, "--fan-out, 5,5", told)
        else:
            assert not caplog.text


def test_other_layer_sizes_are_told(tmp_path, caplog):
    store, out = tmp_path / "store", tmp_path / "layout"
    write_store(store, random_graph(60, 4), name="test", source="test")
    rule = {"sampling": "ladies", "layer_sizes": (9, 9)}
    partition(PartitionConfig(store=store, out=out, parts=2, weights="presample", **rule))
    caplog.clear()
    warn_of_other_sampling(TrainConfig(**rule), open_layout(out))
    assert not caplog.text
    warn_of_other_sampling(TrainConfig(**{**rule, "layer_sizes": (9, 8)}), open_layout(out))
    says(caplog.text, "--layer-sizes, 9,9, 9,8")
    caplog.clear()
    warn_of_other_sampling(TrainConfig(), open_layout(out))
    says(caplog.text, "--layer-sizes, 9,9, --sampling neighbours")


def test_other_fan_outs_of_a_relation_are_told(tmp_path, caplog):
    """However it is called, and not where it has those of all."""
    write_store(tmp_path / "store", random_typed_graph(4, 6, seed=38), name="test", source="test")
    given = {"weights": "presample", "fan_out": (5, 5), "fan_out_of": "r2=1,2,r0=5,5"}
    partition(PartitionConfig(store=tmp_path / "store", out=tmp_path / "layout", parts=2, **given))
    layout = open_layout(tmp_path / "layout", typed=True)
    whole = str(layout.graph.schema.relations[2])
    for fan_out_of, told in ((f"{whole}=1,2", ""), ("r2=1,3", "1,3"), (None, "5,5"), ("r2=1,2,r0=0,5", "5,5, 0,5")):
        caplog.clear()
        warn_of_other_sampling(TrainConfig(fan_out=(5, 5), fan_out_of=fan_out_of), layout)
        if told:
            says(caplog.text, "--fan-out-of", told)
        else:
            assert not caplog.text
    caplog.clear()
    warn_of_other_sampling(TrainConfig(fan_out=(5, 4), fan_out_of="r2=1,2,r0=5,5"), layout)
    says(caplog.text, "--fan-out, 5,5, 5,4")
    assert "fan-out-of" not in caplog.text
