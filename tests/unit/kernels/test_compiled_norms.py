"""What Triton compiles for GPUs to normalise rows, without one; and what takes its place where it cannot."""

from __future__ import annotations

import re
import subprocess

import pytest
import torch
from support.messages import says
from support.normalising import by_kernels, by_pieces, material, same, wanted_of

from gsplit.kernels.compiled_norms import FIRST, CompiledNorms
from gsplit.kernels.library_norms import LibraryNorms
from gsplit.kernels.normalising import BATCH, LAYER, RMS, Finishing, Given, Normaliser

pytest.importorskip("triton")
from gsplit.kernels import norm_passes, norm_rows

BOUND = {"rtol": 1e-4, "atol": 2e-5}


def passes(all_compiled, kind, width, dtype):
    """The code of all that a normalisation with ReLU, dropout and a skip launches, both ways, by name."""
    x, column = torch.zeros(3000, width, dtype=dtype), torch.zeros(width)
    mean = column if kind == BATCH else None
    by = Normaliser(kind=kind, eps=1e-5, weight=column, bias=column, mean=mean, behind=Finishing(1, 0.5, 7))
    launches: dict[str, tuple] = {"_forward": (norm_passes.normalise, x, by, x, x)}
    if kind == BATCH:
        launches["_column_sums _add_up"] = norm_passes.column_sums, x
        launches["_batch_sums_backward _add_up"] = norm_passes.batch_sums_backward, x, by, x
        launches["_batch_backward"] = norm_passes.batch_backward, x, by, x, column, column, x
    else:
        launches["_backward _add_up"] = norm_passes.normalise_backward, x, by, x, x, column, column
    found = {}
    for names, (launch, *given) in launches.items():
        codes = all_compiled([getattr(norm_rows, name) for name in names.split()], launch, *given)
        assert len(codes) == len(names.split())  # a launch each
        found |= dict(zip(names.split(), codes, strict=True))
    return found


@pytest.mark.cases(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [16, 33, 100, 1000])
@pytest.mark.parametrize("kind", [RMS, LAYER, BATCH])
def test_each_pass_reads_rows_as_wide_as_they_are_aligned(all_compiled, kind, width, dtype):
    """And adds nothing by atomic operations, nor in short types; values of rows and gradients are read once each."""
    read = {"_forward": 2, "_backward": 2, "_column_sums": 1, "_batch_sums_backward": 2, "_batch_backward": 2}
    for name, code in passes(all_compiled, kind, width, dtype).items():
        assert not re.search(r"\b(atom|red)\.|atomic", code.text)
        assert not re.search(r"\b(add|mul|fma)\.\S*(bf|\.f)16", code.text)
        if name == "_add_up":
            continue
        values = code.constants["ROWS"] * code.constants["COLUMNS"]
        wide = code.lane_bytes(width * dtype.itemsize, dtype.itemsize, values)
        assert wide in code.loads
        if wide == 16 and code.nvidia and name != "_column_sums":  # whose first row is read like a column
            assert code.loads[16] == read[name] * values // code.lanes * dtype.itemsize // 16


@pytest.mark.parametrize("norm", [RMS, LAYER, BATCH])
def test_by_pytorch_s_operations(norm):
    """They compute the same where a kernel cannot be made."""
    given, finish = material(40, 20, torch.float32), (1, 0.4, 7)
    counts, kernels = [25, 0, 15] if norm == BATCH else [40], LibraryNorms()
    found = by_pieces(kernels, counts, *given, finish) if norm == BATCH else by_kernels(kernels, norm, *given, finish)
    same(found, wanted_of(norm, *given, finish, counts), BOUND)


def raising(*_):
    raise subprocess.CalledProcessError(1, ["ptxas"])


@pytest.mark.parametrize("name", ["normalise", "normalise_backward"])
def test_what_cannot_be_compiled_is_normalised_by_pytorch_after_one_line(monkeypatch, caplog, name):
    for other in ("normalise", "normalise_backward"):
        monkeypatch.setattr(norm_passes, other, raising if other == name else (lambda *_: None))
    kernels, given, finish = CompiledNorms(lambda _: True), material(9, 20, torch.float32), (1, 0.4, 7)
    for _ in range(2):
        found = by_kernels(kernels, LAYER, *given, finish)
        same(found[name != "normalise" :], wanted_of(LAYER, *given, finish)[name != "normalise" :], BOUND)
    (line,) = caplog.messages
    says(line, FIRST.strip(), "CalledProcessError")


def test_a_kernel_that_fails_after_gradients_went_over_rows_is_not_replaced(monkeypatch):
    """Nobody could compute it in its place."""
    monkeypatch.setattr(norm_passes, "normalise_backward", raising)
    x, weight, _, gradients = material(9, 20, torch.float32)
    by = Normaliser(kind=RMS, weight=weight)
    with pytest.raises(subprocess.CalledProcessError):
        CompiledNorms(lambda _: True).backward(Given(x, by, None, gradients), x, None, None)
