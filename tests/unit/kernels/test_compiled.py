"""What Triton compiles for GPUs, without one: kernels for three of them, and how wide they read.

Code is compiled through the functions that launch kernels, with arrays of this machine; only the launch is left out.
A lane reads up to 16 bytes at once: as many as rows begin at multiples of, which is the largest power of two that
divides their bytes, and no more than a tile has for each lane. So 100 float32 (400 bytes) and 128 float16 (256) are
read 16 bytes at a time, 100 float16 (200) 8 bytes, and of rows of an odd width each value by itself. A warp has 64
lanes on AMD's, so there each has half as much of a small tile.
"""

from __future__ import annotations

import logging
import re
import subprocess
from types import SimpleNamespace

import pytest
import torch
from support.messages import says

from gsplit.kernels import Edges, Sums
from gsplit.kernels.compiled import FIRST, Compiled

pytest.importorskip("triton")
from support.targets import PTX
from triton.runtime import driver
from triton.runtime.errors import OutOfResources

from gsplit.kernels import segment_sums, zero_copy

WIDTHS = (1, 33, 100, 128, 1433)
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def reading(compiled, width, stored, compute, rows=8):
    """The code that reads rows of a width."""
    ids = torch.zeros(rows, dtype=torch.int64)
    host, out = torch.zeros(8, width, dtype=stored), torch.zeros(rows, width, dtype=compute)
    return compiled(zero_copy._read_rows, zero_copy.read_rows, host, ids, ids, out)


@pytest.mark.cases(8)
@pytest.mark.parametrize("stored", TYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_read_as_wide_as_they_are_aligned(compiled, width, stored):
    code = reading(compiled, width, stored, torch.float32)
    size = stored.itemsize
    wide = code.lane_bytes(width * size, size, code.constants["ROWS"] * code.constants["BLOCK"])
    assert set(code.loads) <= {wide, 8}  # 8: ids and positions
    assert wide in code.loads
    if code.nvidia:  # of a row, what is not in it is left out
        assert all(guard for guard, _, _ in PTX.findall(code.text))


def test_widths_of_loads_on_nvidia(compiled):
    """The rule above, in numbers."""
    widths = {
        (100, torch.float32): 16,
        (256, torch.float16): 16,
        (128, torch.float16): 16,
        (100, torch.bfloat16): 8,
        (33, torch.float32): 4,
        (1433, torch.float16): 2,
        (33, torch.float64): 8,
    }
    for (width, stored), size in widths.items():
        code = reading(compiled, width, stored, torch.float32)
        if code.nvidia:
            assert set(code.loads) == {size, 8}  # 8: ids and positions


@pytest.mark.cases(4)
@pytest.mark.parametrize("width", [16, *WIDTHS])
def test_few_programs_read_and_leave_the_rest_of_the_gpu_alone(compiled, width):
    """However many rows there are: each asks for as many bytes at once, whatever the width."""
    code = reading(compiled, width, torch.float32, torch.float32, rows=50_000)
    assert code.grid == (16,)
    assert code.constants["ROWS"] * code.constants["BLOCK"] * 4 == 16 * 1024


@pytest.mark.parametrize("compute", [torch.float32, torch.float64])
@pytest.mark.parametrize("stored", TYPES)
def test_every_type_is_converted_on_the_way(compiled, stored, compute):
    code = reading(compiled, 100, stored, compute)
    assert bool(re.search(r"arith\.(ext|trunc)f|tt\.fp_to_fp", code.before)) == (stored != compute)


def summing(compiled, width, dtype, *, received=False, **scaling):
    edges = Edges(indptr=torch.zeros(9, dtype=torch.int32), indices=torch.zeros(32, dtype=torch.int32))
    x, out = torch.zeros(80, width, dtype=dtype), torch.zeros(8, width, dtype=dtype)
    sources = (x[:48], x[48:]) if received else (x, None)
    return compiled(segment_sums._sum_rows, segment_sums.sum_rows, Sums(edges, *sources, out, **scaling))


@pytest.mark.cases(8)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [16, *WIDTHS])
def test_sources_are_read_as_wide_as_they_are_aligned(compiled, width, dtype):
    code = summing(compiled, width, dtype)
    size = dtype.itemsize
    values = code.constants["EDGES"] * code.constants["COLUMNS"]
    wide = code.lane_bytes(width * size, size, values)
    loads = code.loads
    assert set(loads) <= {wide, 4}  # 4: sources of edges
    if wide != 4:
        assert loads[wide] == max(1, values // code.lanes) * size // wide


@pytest.mark.cases(1)
def test_sums_of_all_kinds_are_compiled_and_add_nothing_by_atomic_operations(compiled):
    weight, start = torch.zeros(32, 4), torch.zeros(5, 64)
    degrees, factor = torch.zeros(8, dtype=torch.int32), torch.zeros(80)
    whole = {"weight": weight, "start": start, "degrees": degrees, "factor": factor, "scale": torch.zeros(8)}
    whole["start_scale"] = torch.zeros(5)
    for scaling in ({}, {"weight": weight[:, :1]}, {"degrees": degrees}, whole):
        for dtype in TYPES:
            code = summing(compiled, 64, dtype, received=bool(scaling), **scaling)
            assert not re.search(r"\b(atom|red)\.|atomic", code.text)


@pytest.mark.parametrize("width", [33, 128])
def test_what_rounding_takes_from_a_long_sum_is_computed(compiled, width):
    """Three differences for each of a lane's columns, all of which are 0 in numbers without rounding."""
    code = summing(compiled, width, torch.float32)
    if code.nvidia:
        columns = max(1, code.constants["COLUMNS"] // code.lanes)
        assert len(re.findall(r"\bsub\.(?:rn\.)?f32", code.text)) >= 3 * columns


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_to_the_nearest_once(compiled, dtype):
    code = summing(compiled, 128, dtype)
    if code.nvidia:
        to, other = ("f16", "bf16") if dtype == torch.float16 else ("bf16", "f16")
        assert re.search(rf"\bcvt\.rn\.{to}(x2)?\.f32", code.text)
        assert not re.search(rf"\b(add|fma)\.\S*\.({to}|{other})", code.text)


ONE_ROW = Edges(indptr=torch.zeros(2, dtype=torch.int32), indices=torch.zeros(0, dtype=torch.int32))


def raising(error):
    """In the place of a function: it raises the error, whatever it is called with."""

    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Failed to find C compiler. Please specify via CC environment variable"),
        RuntimeError("Cannot find ptxas"),
        RuntimeError("PTXAS error: Internal Triton PTX codegen error"),
        RuntimeError("Triton Error [CUDA]: device kernel image is invalid"),
        OutOfResources(327680, 232448, "shared memory"),
        PermissionError(13, "Permission denied", ".triton"),
    ],
)
def test_what_cannot_be_compiled_is_summed_by_pytorch_after_one_line(monkeypatch, caplog, error):
    """As where the machine has no C compiler, or a place where nothing can be written."""
    monkeypatch.setattr(segment_sums, "sum_rows", raising(error))
    kernels = Compiled()
    edges = Edges(
        indptr=torch.tensor([0, 2, 3], dtype=torch.int32), indices=torch.tensor([0, 2, 1], dtype=torch.int32)
    )
    x = torch.arange(6.0).view(3, 2)
    for _ in range(2):
        out = torch.empty(2, 2)
        kernels.sum(Sums(edges, x, None, out))
        assert out.tolist() == [[4, 6], [2, 3]]
    (line,) = caplog.messages
    says(line, FIRST.strip(), f"{type(error).__name__}: {error}")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("Triton Error [CUDA]: unspecified launch failure"),
    ],
)
def test_what_an_earlier_launch_broke_is_not_blamed_on_the_kernel(monkeypatch, caplog, error):
    """Nor is a full device a reason to give it up."""
    monkeypatch.setattr(segment_sums, "sum_rows", raising(error))
    kernels = Compiled()
    with pytest.raises(type(error), match=re.escape(str(error))):
        kernels.sum(Sums(ONE_ROW, torch.ones(1, 2), None, torch.ones(1, 2)))
    assert kernels._works
    assert not caplog.records


def test_a_kernel_that_cannot_be_made_after_others_could_is_given_up(monkeypatch, caplog):
    """Each type and way to scale has code of its own, compiled when it is first wanted."""

    def made(sums):
        if sums.out.dtype == torch.bfloat16:
            raise subprocess.CalledProcessError(1, ["ptxas"])
        sums.out.fill_(7)

    monkeypatch.setattr(segment_sums, "sum_rows", made)
    kernels = Compiled()
    for dtype, wanted in ((torch.float32, 7), (torch.bfloat16, 0)):
        out = torch.ones(1, 2, dtype=dtype)
        kernels.sum(Sums(ONE_ROW, torch.ones(1, 2, dtype=dtype), None, out))
        assert out.tolist() == [[wanted] * 2]
    assert "ptxas" in caplog.text


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (RuntimeError("0 active drivers ([]). There should only be one."), logging.INFO),
        (ImportError("no module named triton"), logging.WARNING),
        (RuntimeError("Failed to find C compiler. Please specify via CC environment variable"), logging.WARNING),
        (subprocess.CalledProcessError(1, ["gcc", "main.c"]), logging.WARNING),
        (AssertionError("libcuda.so cannot found!"), logging.WARNING),
        (FileNotFoundError(2, "No such file or directory", "/sbin/ldconfig"), logging.WARNING),
        (PermissionError(13, "Permission denied", ".triton"), logging.WARNING),
        (OSError(28, "No space left on device"), logging.WARNING),
    ],
)
def test_where_triton_drives_nothing_nothing_is_compiled(monkeypatch, caplog, error, level):
    caplog.set_level(logging.INFO, "gsplit")
    monkeypatch.setattr(driver, "_active", SimpleNamespace(get_active_torch_device=raising(error)))
    kernels = Compiled()
    on_gpu = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32)
    for _ in range(2):
        assert not kernels.takes(on_gpu)
    (record,) = caplog.records
    assert record.levelno == level
    assert str(error) in record.getMessage()
    assert not kernels.takes(torch.zeros(1))
