"""Every flag of ``python -m gsplit.predict`` does something, or the table says why nothing can be seen of it.

Predictions go the whole way of ``gsplit.predict``, but for the processes: its trainers are the pool's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.flags import Row, Table, assert_complete, rows_of
from support.messages import line_with
from support.predictions import InPool
from support.runs import config_for, train_in_trainer

import gsplit
from gsplit.config.predict import PredictConfig


@dataclass
class Seen:
    """What a prediction gave and left behind."""

    values: list
    files: set[str]
    job: dict
    world: int


def values(seen: Seen):
    return seen.values


EMBEDDINGS = {"what": "embeddings"}
SAMPLED = {"what": "logits", "fan_out": (2, 2, 2)}
PREDICT: Table = {
    "run": Row(value=lambda place: place.run(seed=1), see=values, base={"what": "logits"}),
    "layout": Row(value=lambda place: place.layouts(3).path, see=lambda seen: seen.job["layout"]),
    "out": Row(value=lambda place: place.folder / "here.csv", see=lambda seen: seen.files),
    "vertices": Row(value="test", see=values),
    "what": Row(value="logits", see=values),
    **dict.fromkeys(("pairs", "top_k", "candidates", "known"), "of a run of links: test_predict_pairs.py"),
    "layer": Row(value=1, see=values, base=EMBEDDINGS),
    "type": "of graphs of several types: test_typed_predictions.py",
    "fan_out_of": "of graphs of several types: test_typed_predictions.py",
    "fan_out": Row(value=(2, 2, 2), see=values, base={"what": "logits"}),
    "batch_size": Row(value=50, see=values, base=SAMPLED),
    "seed": Row(value=1, see=values, base=SAMPLED),
    "gpus": Row(value=1, see=lambda seen: seen.world),
    "device": "there is no GPU to choose; tests/unit/device/test_devices.py pretends that there are some",
    "threads": Row(value=2, see=lambda seen: seen.job["threads"], base={"threads": 1}),
    "check_model": "it refuses models that look at others: tests/processes/test_company_of_runs.py",
    "allow_nan": "it is for vectors that are not finite: tests/processes/test_not_finite.py",
    "overwrite": "where a file is in --out it is refused or replaced: test_overwrite_replaces_a_file, below",
}


class Place:
    """Predictions in a folder, from a run of three layers that is made once."""

    def __init__(self, folder, runs, layouts, pool, monkeypatch) -> None:
        self.folder, self.layouts = folder, layouts
        self._runs, self._pool = runs, pool
        self._start = InPool(pool)
        monkeypatch.setattr("gsplit.predict.api.start", self._start)

    def run(self, seed: int = 0) -> Path:
        config = config_for(self.layouts(2).path, self._runs / f"seed-{seed}", epochs=0, seed=seed, fan_out=(3, 3, 3))
        if not config.out.exists():
            config.out.mkdir()
            (config.out / "config.json").write_text(config.to_json())
            self._pool.run(2, train_in_trainer, config)
        return config.out

    def predict(self, **changes) -> Seen:
        arguments = {"run": self.run(), "layout": self.layouts(2).path, "device": "cpu", **changes}
        predicted = gsplit.predict(**arguments)
        files = {path.name for path in self.folder.iterdir()}
        return Seen(values=predicted.tolist(), files=files, job=self._start.fields, world=self._start.world)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def place(tmp_path, runs, layouts, pool, monkeypatch):
    return Place(tmp_path, runs, layouts, pool, monkeypatch)


def test_the_table_is_complete():
    assert_complete(PREDICT, PredictConfig)


@pytest.mark.parametrize("flag", rows_of(PREDICT))
def test_the_flag_does_something(place, flag):
    row = PREDICT[flag]
    base, changed = row.values(flag, place)
    seen = row.see(place.predict(**base))
    assert row.see(place.predict(**base)) == seen  # or a difference would prove nothing
    assert row.see(place.predict(**changed)) != seen


def test_overwrite_replaces_a_file(place):
    out = place.folder / "out.npy"
    before = place.predict(out=out).values
    with pytest.raises(gsplit.InputError, match=line_with("--out, --overwrite")):
        place.predict(out=out, vertices="test")
    assert np.load(out).tolist() == before
    after = place.predict(out=out, vertices="test", overwrite=True).values
    assert np.load(out).tolist() == after != before
