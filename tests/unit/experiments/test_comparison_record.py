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


def test_no_record_of_what_is_no_comparison(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    for name in ("other.json", "nowhere.json"):
        with pytest.raises(InputError, match=rf"{name} is no comparison\.json"):
            comparison_record.command([str(tmp_path / name), "--out", str(tmp_path / "record.json")])
