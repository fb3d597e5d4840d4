"""Fixtures of the simulated accelerator's own tests, which need it as a device of PyTorch's (README.md)."""

from __future__ import annotations

import pytest
import torch

SCHEDULES = ("eager", "random:1", "lazy:3000")
"""Lazy tasks that nobody waits for begin after three seconds, so that a busy machine changes no result."""


@pytest.fixture
def sim():
    """``torch.ops.sim`` with the lazy schedule, no waits counted and nothing broken, before and after."""
    if not hasattr(torch, "sim"):
        pytest.skip("PyTorch does not know the simulated accelerator (tests/simulator/README.md)")
    controls = torch.ops.sim
    controls.clear_errors()
    controls.set_schedule(SCHEDULES[-1])
    controls.reset_waits()
    yield controls
    controls.forbid_waits(False)
    controls.clear_errors()
    controls.set_schedule("lazy")


@pytest.fixture(params=SCHEDULES)
def scheduled(request, sim):
    """The same, under each schedule."""
    sim.set_schedule(request.param)
    return sim
