"""Sets of kernels that sum over edges, and the instruction sets that the core is compiled for."""

from __future__ import annotations

import contextlib
import os

import torch

import gsplit._core as _core
from gsplit.kernels import Edges
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


def random_edges(rows=23, sources=40, most=9, seed=0):
    """Rows with 0 .. most edges, of which the first and the last have none."""
    generator = torch.Generator().manual_seed(seed)
    degrees = torch.randint(0, most + 1, (rows,), generator=generator)
    degrees[0] = degrees[-1] = 0
    indptr = torch.zeros(rows + 1, dtype=torch.int32)
    indptr[1:] = degrees.cumsum(0)
    indices = torch.randint(0, sources, (int(indptr[-1]),), generator=generator, dtype=torch.int32)
    return Edges(indptr=indptr, indices=indices)
