"""Sets of kernels that sum over edges, and the instruction sets that the core is compiled for."""

from __future__ import annotations

import contextlib
import os

import gsplit._core as _core
from gsplit.kernels.compiled import Compiled
from gsplit.kernels.core import Core
from gsplit.kernels.library import Library

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether this is the process of test_interpreter.py, where Triton's kernels run on the CPU."""
NAMES = ["compiled"] if INTERPRETED else [*_core.instruction_sets(), "library"]


@contextlib.contextmanager
def instructions(name):
    """The core as compiled for an instruction set."""
    _core.use_instruction_set(name)
    yield Core()
    _core.use_instruction_set(_core.instruction_sets()[0])


@contextlib.contextmanager
def kernels_named(name):
    """One of :data:`NAMES`: Triton's, those made of PyTorch's, or the core's by an instruction set."""
    if name == "library":
        yield Library()
    elif name == "compiled":
        kernels = Compiled()
        yield kernels
        assert kernels._works  # or the library summed in its place
    else:
        with instructions(name) as core:
            yield core
