"""Whole runs on accelerators: resuming, profiles, and what ends a run in its middle."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.accelerators import ROUNDING, apart_by, equal, has_cpu_numbers, held_to
from support.callbacks import BreaksDevice
from support.messages import line_with
from support.runs import config_for, stopped_and_gone_on, train_in_trainer

from gsplit.device import accelerator
from gsplit.errors import InputError, ProcessDied
from gsplit.train.api import train

pytestmark = pytest.mark.accelerator


def test_a_run_goes_on_from_a_checkpoint_as_if_nothing_had_happened(accelerator_pool, kind, layouts, tmp_path):
    changes = {"device": kind, "dropout": 0.3, "cache": "none", "checkpoint_every_batches": 1}
    config = held_to(kind, config_for(layouts(2).path, tmp_path / "whole", **changes))
    wanted = accelerator_pool.run(2, train_in_trainer, config)
    stopped = replace(config, out=tmp_path / "stopped")
    found = accelerator_pool.run(2, stopped_and_gone_on, stopped, 3)
    for one, other in zip(found, wanted, strict=True):
        assert one["after"].keys() == other["after"].keys()
        for name, weight in other["after"].items():
            got = one["after"][name]
            assert equal(got, weight) if has_cpu_numbers(kind) else apart_by(got, weight) <= ROUNDING, name


def test_a_profile_has_the_stages_of_all_trainers(accelerator_pool, kind, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "run", device=kind, cache="none", profile=True)
    accelerator_pool.run(2, train_in_trainer, config)
    names = {event.get("name") for event in json.loads((tmp_path / "run" / "trace.json").read_text())["traceEvents"]}
    assert {"forward", "backward", "reduce", "step", "load"} <= names


TOO_LARGE = {"cache": "none", "hidden": 1024, "fan_out": (9, 9, 9)}


def test_what_does_not_fit_is_refused_before_anything_is_started(controls, layouts, tmp_path, monkeypatch):
    monkeypatch.setattr(accelerator, "smallest_bytes", lambda _: 2 << 20)
    config = config_for(layouts(1).path, tmp_path / "run", device="sim", **TOO_LARGE)
    with pytest.raises(InputError, match=line_with("sim, 1.9 MiB, --batch-size")):
        train(config.layout, config)
    assert not config.out.exists()


def test_a_device_without_room_ends_a_run_in_one_line(controls, layouts, tmp_path, monkeypatch):
    """By a step of which nobody knows what it takes."""
    monkeypatch.setattr("gsplit.launch.resolve.dry_run_of", lambda *_: None)
    monkeypatch.setenv("GSPLIT_SIM_BYTES", str(2 << 20))
    config = config_for(layouts(1).path, tmp_path / "run", device="sim", **TOO_LARGE)
    with pytest.raises(InputError, match=line_with("trainer 0, sim:0, --batch-size")):
        train(config.layout, config)


def test_a_device_that_fails_in_the_middle_ends_the_run_with_the_cause_as_the_last_word(controls, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "run", device="sim", cache="none", epochs=50)
    with pytest.raises(ProcessDied, match=r"^trainer 0 failed:") as said:
        train(config.layout, config, callbacks=[BreaksDevice()])
    assert "sim:0" in str(said.value).strip().splitlines()[-1]
