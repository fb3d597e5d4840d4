"""Normalisation by the kernels for GPUs, beside its equations in float64; and in layers in the place of the core."""

from __future__ import annotations

import contextlib

import pytest
import torch
from support.gradients import rows
from support.normalising import BOUNDS, by_kernels, by_pieces, kept, material, same, wanted_of
from torch import nn

import gsplit.kernels
from gsplit.device import accelerator
from gsplit.kernels import library_alone, norm_passes
from gsplit.kernels.compiled_norms import CompiledNorms
from gsplit.kernels.normalising import BATCH, LAYER, RMS
from gsplit.nn import BatchNorm
from gsplit.nn.norm import normalised
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.products import Keeps

FINISHES = [(0, 0.0, 0), (1, 0.0, 0), (1, 0.4, 2**61 + 7)]
MODULES = {"layer": nn.LayerNorm, "batch": BatchNorm}


@pytest.fixture
def kernels(monkeypatch):
    """The kernels as on a GPU that Triton drives, whose programs have several tiles of rows, or a row alone."""
    monkeypatch.setattr(accelerator, "is_one", lambda device: device.type == "cpu")
    monkeypatch.setattr(accelerator, "as_current", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(norm_passes, "PROGRAMS", 3)
    monkeypatch.setattr(norm_passes, "SUMMED_PROGRAMS", 2)
    monkeypatch.setattr(norm_passes, "TILE_VALUES", 128)
    kernels = CompiledNorms(lambda device: device.type == "cpu")
    yield kernels
    assert kernels._works  # or PyTorch's operations normalised in their place


def compare(kernels, n, width, norm, finish, dtype):
    given, counts = material(n, width, dtype, width), [n]
    if norm == BATCH:
        counts = [n - n // 3, 0, n // 3]
        found = by_pieces(kernels, counts, *given, finish)
    else:
        found = by_kernels(kernels, norm, *given, finish)
    same(found, wanted_of(norm, *given, finish, counts), BOUNDS[dtype])


@pytest.mark.parametrize(("norm", "dtype"), [(RMS, torch.float32), (LAYER, torch.bfloat16), (BATCH, torch.float32)])
def test_rows_and_what_weights_get(kernels, norm, dtype):
    """Of widths that no tile has, one and more than a tile; of a batch in pieces, of which one is empty."""
    for (n, width), finish in zip([(9, 20), (2, 1), (1, 130)], FINISHES[::-1], strict=True):
        compare(kernels, n, width, norm, finish, dtype)


@pytest.mark.parametrize("finish", FINISHES, ids=str)
@pytest.mark.parametrize("norm", [RMS, LAYER, BATCH])
@pytest.mark.parametrize("width", [1, 2, 7, 33, 128, 257, 1000])
def test_rows_of_many_widths(kernels, width, norm, finish):
    for n, dtype in ((1, torch.float32), (12, torch.float32), (5, torch.bfloat16)):
        compare(kernels, n, width, norm, finish, dtype)


@pytest.mark.parametrize("norm", [RMS, LAYER, BATCH])
def test_no_row_one_row_and_equal_values(kernels, norm):
    for n, value in ((0, 1.0), (1, 3.0), (6, 1e4)):
        _, weight, bias, gradients = material(n, 17, torch.float32)
        given = torch.full((n, 17), value), weight, bias, gradients
        if norm == BATCH:
            found = by_pieces(kernels, [n], *given, FINISHES[0]) if n else kernels.column_sums(given[0]).values
        else:
            found = by_kernels(kernels, norm, *given, FINISHES[0])
        assert all(each.isfinite().all() for each in found)
        if n and norm != RMS:
            assert torch.equal(found[0], bias.expand(n, 17))
        if not n:
            assert not any(each.any() for each in found)


def test_dropout_is_the_core_s_and_a_skip_is_added_behind_it(kernels):
    x, weight, bias, skip = material(9, 40, torch.float32)
    left = kept(9, 40, *FINISHES[2][1:])
    given = LAYER, x, weight, bias + 100, torch.ones_like(x), FINISHES[2]
    found = [by_kernels(kernels, *given, skip=added) for added in (None, skip)]
    assert torch.equal(found[0][0] > 0, left > 0)
    torch.testing.assert_close(found[1][0], found[0][0] + skip)
    torch.testing.assert_close(found[0][3].double(), left.sum(0))  # what the bias gets of ones


@pytest.mark.parametrize("kind", MODULES)
def test_in_a_layer_it_is_what_the_core_gives(kernels, monkeypatch, kind):
    """By the same seeds the same values are dropped; also where gradients are written over rows."""
    monkeypatch.setattr(gsplit.kernels, "_COMPILED_NORMS", kernels)
    torch.manual_seed(2)
    norm, skip, gradients, found = MODULES[kind](20), torch.randn(7, 20), torch.randn(7, 20), []
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    for here, keeps in ((False, Keeps.RESULT), (True, Keeps.RESULT), (True, Keeps.SIGNS)):
        torch.manual_seed(3)
        x = rows(7, 20, torch.float32)
        with library_alone() if here else contextlib.nullcontext():
            apart = torch.cat([x, x], dim=1)[:, 20:] if keeps is Keeps.RESULT else x
            out = normalised(norm, apart, Finish(torch.relu, nn.Dropout(0.3), keeps), skip, overwrites=True)
            found.append((out, *torch.autograd.grad(out, [x, *norm.parameters()], gradients)))
    for one in found[1:]:
        assert torch.equal(one[0] == skip, found[0][0] == skip)
        torch.testing.assert_close(one, found[0], rtol=2e-5, atol=2e-5)
    assert all(torch.equal(one, other) for one, other in zip(*found[1:], strict=True))


@pytest.mark.parametrize("wrong", [False, True])
def test_first_rows_are_held_against_pytorch_s(monkeypatch, caplog, wrong):
    monkeypatch.setattr(accelerator, "is_one", lambda device: device.type == "cpu")
    monkeypatch.setattr(accelerator, "as_current", lambda device: contextlib.nullcontext())
    if wrong:
        launch = norm_passes.normalise_backward
        monkeypatch.setattr(norm_passes, "normalise_backward", lambda *given: (launch(*given), given[-1].mul_(1.01)))
    kernels = CompiledNorms(lambda device: device.type == "cpu")
    for _ in range(2):
        assert kernels.takes(torch.zeros(3, 2)) != wrong
    for other in (torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, 2, 2), torch.zeros(3, 5000)):
        assert not kernels.takes(other)
    said = ["normalisation is PyTorch's own: the kernels for it give other numbers here"]
    assert [record.getMessage() for record in caplog.records] == (said if wrong else [])
