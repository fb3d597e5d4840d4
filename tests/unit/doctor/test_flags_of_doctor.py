"""Every flag of ``python -m gsplit.doctor``: what it changes of what a training takes, or why it changes nothing."""

from __future__ import annotations

from dataclasses import fields

import pytest
from support.flags import Row, Table, assert_complete, rows_of

from gsplit.config.train import TrainConfig
from gsplit.doctor.__main__ import DoctorConfig
from gsplit.doctor.diagnosis import examine


@pytest.fixture(autouse=True)
def _a_process_of_one_size(monkeypatch):
    """What this process holds, which is what one of a trainer is taken to hold, grows by itself."""
    monkeypatch.setattr("gsplit.doctor.training_needs.process_bytes", lambda: 200 << 20)


def needs(found):
    return found.training.host, found.training.accelerator


def step(found):
    return found.training.step


def cache(found):
    return found.training.cache_bytes


LADIES = {"sampling": "ladies", "layer_sizes": (20, 20), "fan_out": TrainConfig.fan_out}
TAKES: Table = {
    "layout": Row(value=lambda place: place(3).path, see=lambda found: found.trainers),
    "gpus": Row(value=1, see=lambda found: found.trainers),
    "batch_size": Row(value=80, see=step),
    "fan_out": Row(value=(5, 2), see=step),
    "hidden": Row(value=64, see=step),
    "model": Row(value="gat", see=step),
    "heads": Row(value=8, see=step, base={"model": "gat"}),
    "norm": Row(value="layer", see=step),
    "precision": Row(value="bf16-mixed", see=step),
    "dtype": Row(value="float64", see=step),
    "optimizer": Row(value="sgd", see=step),
    "sampling": Row(value="fastgcn", see=step, base=LADIES),
    "layer_sizes": Row(value=(90, 90), see=step, base=LADIES),
    "prefetch": Row(value=4, see=needs),
    "slots": Row(value=9, see=needs),
    "samplers": Row(value=3, see=needs),
    "bulk": Row(value="4", see=needs),
    "feature_dtype": Row(value="bfloat16", see=needs),
    "cache_size": Row(value="50%", see=cache),
    "evaluate": Row(value="none", see=needs),
    "strategy": Row(value="data", see=step),
    "json": "what is printed: test_host.py and test_training_needs.py read both forms",
}
"""Flags that what is said of memory depends on."""
RUN = "one of gsplit train: resolve, which trains, too, is given it (tests/processes/test_flags_of_train.py)"


def test_the_table_is_complete():
    rest = {field.name: RUN for field in fields(TrainConfig) if field.name not in TAKES}
    assert_complete({**TAKES, **rest}, DoctorConfig)


@pytest.mark.cases(6)
@pytest.mark.parametrize("flag", rows_of(TAKES))
def test_the_flag_does_something(layouts, flag):
    def seen(given):
        plain = {"layout": layouts(2).path, "device": "cpu", "fan_out": (5, 5), "batch_size": 40, "samplers": 1}
        return row.see(examine(DoctorConfig(**{**plain, "hidden": 32, **given}).training))

    row = TAKES[flag]
    base, changed = row.values(flag, layouts)
    assert seen(base) == seen(base)  # or a difference would prove nothing
    assert seen(changed) != seen(base)
