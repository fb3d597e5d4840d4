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
    controls, threads = torch.ops.sim, torch.get_num_threads()
    controls.clear_errors()
    controls.set_schedule(SCHEDULES[-1])
    controls.reset_waits()
    torch.set_num_threads(1)  # sums are those of a stream's thread
    yield controls
    controls.forbid_waits(False)
    controls.clear_errors()
    controls.set_schedule("lazy")
    torch.set_num_threads(threads)


@pytest.fixture(params=SCHEDULES)
def scheduled(request, sim):
    """The same, under each schedule."""
    sim.set_schedule(request.param)
    return sim
