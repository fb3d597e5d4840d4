"""Kernels that tests are run with."""

from __future__ import annotations

import pytest
import torch
from support.kernels import NAMES, instructions, kernels_named

import gsplit._core as _core


@pytest.fixture(autouse=True)
def _two_threads():
    """Which the core shares its rows out to."""
    torch.set_num_threads(2)


@pytest.fixture(params=NAMES)
def kernels(request):
    """The kernels of the core, as compiled for each instruction set of this machine, and those made of PyTorch's."""
    with kernels_named(request.param) as kernels:
        yield kernels


@pytest.fixture(params=_core.instruction_sets())
def core(request):
    """The core, as compiled for each instruction set of this machine."""
    with instructions(request.param) as core:
        yield core
