"""Norms by the kernels that Triton compiles for the GPU that is there, beside their equations in float64."""

from __future__ import annotations

import itertools

import pytest
import torch
from support.normalising import BOUNDS, by_kernels, by_pieces, material, same, wanted_of

from gsplit.kernels import normalising_for
from gsplit.kernels.compiled_norms import CompiledNorms
from gsplit.kernels.normalising import BATCH, LAYER, RMS

pytestmark = pytest.mark.gpu("Triton compiles kernels for it, and runs them")

FINISH = (1, 0.4, 2**61 + 7)


def test_rows_and_what_weights_get_are_right_and_the_same_every_time(kind):
    shapes = (1, 1), (3000, 100), (700, 1000), (37, 4096)
    for norm, dtype, (n, width) in itertools.product((RMS, LAYER, BATCH), BOUNDS, shapes):
        given, counts = material(n, width, dtype, width), [n - n // 3, n // 3] if norm == BATCH else [n]
        x, weight, bias, gradients = (each.to(kind) for each in given)
        kernels = normalising_for(x, norm)
        assert isinstance(kernels, CompiledNorms)
        way, about = (by_pieces, counts) if norm == BATCH else (by_kernels, norm)
        found = [way(kernels, about, x, weight, bias, gradients, FINISH) for _ in range(2)]
        assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
        same([each.cpu() for each in found[0]], wanted_of(norm, *given, FINISH, counts), BOUNDS[dtype])
        assert kernels._works  # or PyTorch's operations normalised in their place
