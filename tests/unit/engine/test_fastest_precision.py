"""``--precision auto``: by what products take, and decided before a run begins."""

from __future__ import annotations

import logging

import pytest
import torch
from support.runs import config_for, run_for

import gsplit._core as _core
from gsplit.device.precision import Precision
from gsplit.engine import fastest_precision
from gsplit.launch import effects

CPU = torch.device("cpu")


@pytest.mark.parametrize(("seconds", "name"), [(1.0, "bf16-mixed"), (6.0, "bf16-mixed"), (7.0, "32"), (30.0, "32")])
def test_bfloat16_where_it_is_well_worth_it(monkeypatch, caplog, layouts, tmp_path, seconds, name):
    taken = {torch.float32: 9.0, torch.bfloat16: seconds}
    monkeypatch.setattr(fastest_precision, "products_s", lambda dtype, device: taken[dtype])
    with caplog.at_level(logging.INFO):
        run = run_for(config_for(layouts(2).path, tmp_path / "run", precision="auto"), 2)
    assert run.asked.precision == run.config.precision == name  # which a run that goes on keeps
    assert run.precision == Precision.named(name)
    assert f"--precision auto is {name}: products in bfloat16 are {9 / seconds:.1f} times as fast" in caplog.text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_are_measured(dtype):
    assert 0 < fastest_precision.products_s(dtype, CPU) < 10


@pytest.mark.parametrize(
    ("precision", "tiles", "says"), [("bf16-mixed", False, "32 is faster"), ("bf16-mixed", True, "")]
)
def test_what_the_cpu_lacks_is_said(monkeypatch, caplog, layouts, tmp_path, precision, tiles, says):
    monkeypatch.setattr(_core, "has_tiles", lambda: tiles)
    effects.warn(run_for(config_for(layouts(2).path, tmp_path / "run", precision=precision), 2))
    assert says in caplog.text
    assert bool(says) == ("AMX" in caplog.text)
