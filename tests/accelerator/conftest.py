"""Fixtures of the tests that run on accelerators."""

from __future__ import annotations

import pytest
import torch
from support.accelerators import SCHEDULES


@pytest.fixture(autouse=True)
def _registered_memory_stays_mapped(kind):
    """Memory that is unmapped while it is registered is so for whatever is mapped there next."""
    yield
    if kind == "sim":
        assert not torch.ops.sim.unmapped_while_registered()


@pytest.fixture
def controls(kind):
    """``torch.ops.sim``, which steers and counts what simulated devices do."""
    if kind != "sim":
        pytest.skip("only simulated devices are steered and count what they do")
    yield torch.ops.sim
    torch.ops.sim.set_schedule("lazy")
    torch.ops.sim.clear_errors()


@pytest.fixture(params=SCHEDULES, ids=lambda schedule: schedule.split(":")[0])
def schedule(request, controls):
    """Each schedule in turn, on the devices of this process; lazy ones begin nothing by themselves meanwhile."""
    controls.set_schedule("lazy:3000" if request.param == "lazy" else request.param)
    return request.param
