"""The record of docs/results out of what comparisons wrote."""

from __future__ import annotations

import json

import pytest

from experiments.compare import report
from experiments.compare.config import CompareConfig
from gsplit.errors import InputError
from tools import comparison_record, results


def finished(**settings):
    """What a comparison writes, as far as a record takes it."""
    return {
        "dataset": {"partition": {"quality": {"balance_train_targets": 1.02}}},
        "settings": report.settings_of(CompareConfig(**settings)),
        "versions": {"torch": "2.13.0", "dgl": None},
        "tables": {"systems": [{"system": "dgl", "epoch_s": 2.0}], "ratios": [], "accuracy": []},
    }


def test_a_record_holds_several_comparisons(tmp_path):
    paths = []
    for hidden in (16, 128):
        paths.append(tmp_path / f"{hidden}.json")
        paths[-1].write_text(json.dumps(finished(hidden=hidden, fan_out=(4, 3), quick=hidden == 128)))
    comparison_record.command([*map(str, paths), "--out", str(tmp_path / "record.json"), "--date", "2026-11-22"])
    record = json.loads((tmp_path / "record.json").read_text())
    assert record.keys() == results.KEYS
    assert record["commands"] == [
        "python -m experiments.compare --fan-out 4,3",
        "python -m experiments.compare --hidden 128 --fan-out 4,3 --quick",
    ]
    assert [(row["hidden"], row["system"], row["epoch_s"]) for row in record["tables"]["systems"]] == [
        (16, "dgl", 2.0),
        (128, "dgl", 2.0),
    ]
    assert [row["balance_train_targets"] for row in record["tables"]["graphs"]] == [1.02, 1.02]
    assert record["versions"] == {"torch": "2.13.0"}


def test_of_a_sweep_ratios_are_kept():
    """What others took over what we took by the same value; nothing loaded gives no ratio."""
    swept = {"cache_percent": (0, 25), "epoch_s": (2.0, 1.0), "edges": (8, 8), "loaded_bytes": (40, 0)}
    rows = [
        {"system": system, "rounds": 3, **{key: values[place] * by for key, values in swept.items()}}
        for system, by in (("gsplit", 1), ("quiver", 1.5))
        for place in range(2)
    ]
    for row, percent in zip(rows, (0, 25, 0, 25), strict=True):
        row["cache_percent"] = percent
    assert comparison_record.over_ours(rows, "cache_percent") == [
        {"system": "quiver", "cache_percent": 0, "rounds": 3, "epoch": 1.5, "edges": 1.5, "loaded": 1.5},
        {"system": "quiver", "cache_percent": 25, "rounds": 3, "epoch": 1.5, "edges": 1.5, "loaded": None},
    ]


def test_no_record_of_what_is_no_comparison(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    for name in ("other.json", "nowhere.json"):
        with pytest.raises(InputError, match=rf"{name} is no comparison\.json"):
            comparison_record.command([str(tmp_path / name), "--out", str(tmp_path / "record.json")])
