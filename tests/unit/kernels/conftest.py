"""Kernels that tests are run with."""

from __future__ import annotations

from functools import partial

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


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where Triton keeps what it compiled, in place of the user's folder."""
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(params=["sm_80", "sm_90", "gfx942"])
def all_compiled(request, cache, monkeypatch):
    """all_compiled(kernels, launch, *arguments): the code of what a function launches, for one target."""
    pytest.importorskip("triton")
    from support.targets import codes

    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))
    return partial(codes, monkeypatch, request.param)


@pytest.fixture
def compiled(all_compiled):
    """compiled(kernel, launch, *arguments): the same of a function that launches one kernel."""

    def made(kernel, launch, *arguments, **named):
        (code,) = all_compiled([kernel], launch, *arguments, **named)
        return code

    return made
