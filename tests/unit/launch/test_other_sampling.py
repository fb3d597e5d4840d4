"""A layout that was weighted for another training says so."""

from __future__ import annotations

import pytest
from support.graphs import random_graph
from support.messages import says

from gsplit import TrainConfig
from gsplit.data import open_layout, write_store
from gsplit.launch import resolve
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
        resolve._warn_of_other_sampling(TrainConfig(**given), layout)
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
    resolve._warn_of_other_sampling(TrainConfig(**rule), open_layout(out))
    assert not caplog.text
    resolve._warn_of_other_sampling(TrainConfig(**{**rule, "layer_sizes": (9, 8)}), open_layout(out))
    says(caplog.text, "--layer-sizes, 9,9, 9,8")
    caplog.clear()
    resolve._warn_of_other_sampling(TrainConfig(), open_layout(out))
    says(caplog.text, "--layer-sizes, 9,9, --sampling neighbours")
