"""What experiments.micro.offline and experiments.paper.weights write is what they say they write."""

from __future__ import annotations

import json

import pytest
from support.graphs import random_graph

from experiments.micro import offline
from experiments.paper import weights
from gsplit.data import write_store


@pytest.fixture
def store(tmp_path):
    write_store(tmp_path / "store", random_graph(300, 6), name="test", source="test")
    return str(tmp_path / "store")


def test_offline_takes_down_every_stage(store, tmp_path, capsys):
    flags = ["--methods", "range", "metis", "--weights", "presample", "--fan-out", "3,3", "--batch-size", "50"]
    offline.command([store, *flags, "--work", str(tmp_path / "work"), "--json", str(tmp_path / "offline.json")])
    result = json.loads((tmp_path / "offline.json").read_text())
    assert result["store"] == {"name": "store", "vertices": 300, "edges": result["store"]["edges"], "features": 5}
    assert [(run["method"], run["weights"]) for run in result["runs"]] == [
        ("range", "presample"),
        ("metis", "presample"),
    ]
    for run in result["runs"]:
        stages = run["stages"]
        assert list(stages) == ["presample", f"partition by {run['method']}", "measure", "relabel"]
        assert 0 < sum(taken["seconds"] for taken in stages.values()) <= run["seconds"]
        assert all(2**20 < taken["peak_bytes"] < 2**34 for taken in stages.values())
        assert run["quality"]["vertices_per_part"]
    assert capsys.readouterr().out.count("| presample | 0.03 |") == 2
    assert not list((tmp_path / "work").iterdir())


def test_weights_reports_every_way(store, tmp_path, capsys):
    flags = ["--methods", "range", "--weights", "uniform", "presample", "--fan-out", "3,3", "--batch-size", "50"]
    weights.command(
        [store, "synthetic:tiny", *flags, "--work", str(tmp_path / "work"), "--json", f"{tmp_path}/w.json"]
    )
    rows = json.loads((tmp_path / "w.json").read_text())["rows"]
    assert [(row["dataset"], row["weights"]) for row in rows] == [
        (dataset, kind) for dataset in (store, "synthetic:tiny") for kind in ("uniform", "presample")
    ]
    for row in rows:
        assert row["report"]["layout"]["weights"] == row["weights"]
        assert row["report"]["training"]["fan_out"] == [3, 3]
    assert capsys.readouterr().out.count("| range |") == 4
    assert not list((tmp_path / "work").iterdir())
