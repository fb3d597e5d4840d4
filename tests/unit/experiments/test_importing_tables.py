"""What experiments.micro.importing_tables writes is what it says it writes."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from experiments.micro import importing_tables
from gsplit.data.api import import_graph


@pytest.mark.parametrize(("table", "width"), [("numbers", 20), ("kinds", 8 + 4 * 5 + 4 + 2 + 2), ("joined", 20)])
def test_tables_are_read_as_they_were_written(tmp_path, monkeypatch, table, width):
    monkeypatch.setattr(importing_tables, "ROWS_AT_ONCE", 64)
    edges, features = importing_tables.write_tables(tmp_path, table, 200, seed=1)
    made = import_graph(edges, tmp_path / "store", features=[features], **importing_tables.FLAGS[table])
    assert made.graph.features.shape == (200, width)
    assert np.diff(made.graph.indptr).tolist() == [1] * 200
    filled = sum(entry.get("missing", 0) for entry in made.description["columns"])
    assert filled == pytest.approx(200 * 20 * importing_tables.GAPS, rel=0.5)


@pytest.mark.slow
def test_imports_are_measured_beside_another_python_and_nothing_is_left(tmp_path, capsys):
    flags = ["--rows", "200", "--pairs", "1", "--tables", "numbers", "--beside", sys.executable]
    work = tmp_path / "work"
    importing_tables.command([*flags, "--work", str(work), "--json", f"{tmp_path}/i.json"])
    result = json.loads((tmp_path / "i.json").read_text())
    assert result["settings"] == {"rows": 200, "pairs": 1, "seed": 0, "beside": True}
    (found,) = result["imports"]
    assert found["table"] == "numbers"
    assert found["feature_bytes"] == 128 + 200 * 20 * 4
    assert found["file_bytes"] > 200 * 20 * 5
    assert 2**20 < found["peak_bytes"] < 2**34
    assert 0 < found["ratio_min"] == found["ratio"] == found["ratio_max"]
    assert "| table |" in capsys.readouterr().out
    assert list(work.iterdir()) == []
