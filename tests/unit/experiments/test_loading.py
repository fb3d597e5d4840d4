"""Ways to load rows, tiny and on the CPU: that they are compared and recorded as documented; no times."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
import torch
from support.caches import CPU, STORAGE, host_rows
from support.devices import hide
from support.documents import undocumented
from support.messages import line_with

from experiments.micro import loading
from experiments.micro.loading import LoadingConfig, sampled_list
from experiments.shared.loading_ways import Way, ways_of
from gsplit.errors import InputError

TINY = shlex.split("--device cpu --rows 500 --width 3 --batch-size 20 --fan-out 4,3 --threads 2")


def test_the_keys_are_those_documented(tmp_path, capsys):
    loading.command([*TINY, "--rounds", "2", "--json", str(tmp_path / "out.json")])
    result = json.loads((tmp_path / "out.json").read_text())
    assert list(result) == ["device", "versions", "settings", "loads"]
    first = result["loads"][0]
    keys = {*result, *result["versions"], *result["settings"], *first, *first["ways"][0]}
    assert all(set(load) == set(first) for load in result["loads"])
    assert undocumented("Loading", keys) == []
    assert result["device"] == "cpu"
    assert result["settings"]["fan_out"] == [4, 3]
    assert [(load["dtype"], load["list"]) for load in result["loads"]] == [
        (dtype, name) for dtype in ("float32", "float16", "bfloat16") for name in ("sampled", "random")
    ]
    for load in result["loads"]:
        assert load["bytes"] == load["listed"] * 3 * (4 if load["dtype"] == "float32" else 2)
        assert [(way["way"], way["threads"]) for way in load["ways"]] == [
            (name, threads) for threads in (1, 2) for name in ("copy", "gather", "index_select")
        ]
        for way in load["ways"]:
            assert way["seconds_min"] <= way["seconds"] <= way["seconds_max"]
            assert way["ratio_min"] <= way["ratio"] <= way["ratio_max"]
            assert way["way"] != "copy" or way["ratio_min"] == way["ratio_max"] == way["ratio_of_least"] == 1
    printed = capsys.readouterr().out
    assert "settings: dtypes float32,float16,bfloat16, rows 500, width 3" in printed
    assert printed.count("\n| gather | 2 |") == 6


def test_a_sampled_list_is_hot_and_without_duplicates():
    config = LoadingConfig(rows=5000, batch_size=50, fan_out=(5, 5))
    ids = sampled_list(config)
    assert len(np.unique(ids)) == len(ids) > 500
    assert ids.min() >= 0
    assert ids.max() < 5000
    assert np.median(ids[50:]) < 2000  # of all vertices it would be 2500
    assert np.array_equal(ids, sampled_list(config))
    assert not np.array_equal(ids, np.sort(ids))


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_way_gives_the_same_rows(dtype, threads):
    host, values = host_rows(90, 5, dtype)
    ids = np.random.default_rng(0).permutation(90)[:40]
    before = torch.get_num_threads()
    ways = ways_of(host, ids, CPU, threads)
    assert torch.get_num_threads() == before
    assert [way.threads for way in ways] == [1] * 3 + [3] * (3 if threads == 3 else 0)
    for way in ways:
        assert torch.equal(way.run(), values[ids])
        way.round(CPU)
        assert len(way.seconds) == 1


def test_other_rows_end_the_experiment(monkeypatch):
    host, values = host_rows(9, 2, torch.float32)
    monkeypatch.setattr(
        "experiments.shared.loading_ways._on_cpu", lambda *_: [Way(name="wrong", threads=1, run=lambda: values[:3])]
    )
    with pytest.raises(AssertionError, match="wrong gives other rows"):
        ways_of(host, np.array([0, 1, 3]), CPU, 1)


def test_no_gpu_is_said(monkeypatch):
    hide(monkeypatch)
    with pytest.raises(InputError, match=line_with("--device xpu")):
        loading.command(["--device", "xpu"])
