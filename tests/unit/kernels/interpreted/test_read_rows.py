"""Rows that the kernel reads out of host memory, held against NumPy, bit for bit."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
import torch
from support.caches import STORAGE

from gsplit.kernels import zero_copy
from gsplit.kernels.zero_copy import prepare, read_rows

WIDTHS = (1, 33, 100, 128, 1433)
STORED = (*STORAGE, torch.float64)
PAGE = mmap.PAGESIZE


def table(n, width, dtype):
    """The same random rows as a tensor, and what NumPy makes of their bits: [n, width] float64."""
    values = torch.from_numpy(np.random.default_rng(0).standard_normal((n, width))).to(dtype)
    if dtype == torch.bfloat16:  # the upper half of a float32
        bits = values.view(torch.int16).numpy().astype(np.uint16).astype(np.uint32) << 16
        return values, bits.view(np.float32).astype(np.float64)
    return values, values.numpy().astype(np.float64)


def numbers(dtype):
    return {torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16}[dtype]


@pytest.mark.parametrize("compute", [torch.float32, torch.float64])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_of_every_type_and_width(monkeypatch, width, stored, compute):
    """Unsorted and repeated ids, put where positions say, and one after the other where there are none."""
    monkeypatch.setattr(zero_copy, "PROGRAMS", 2)  # which read several tiles of wide rows each
    host, values = table(50, width, stored)
    random = np.random.default_rng(width)
    for ids in (random.integers(0, 50, 37), np.array([49]), np.array([7, 7, 0, 7]), np.array([], np.int64)):
        positions = random.permutation(len(ids) + 5)[: len(ids)]
        out = torch.full((len(ids) + 5, width), 9.5, dtype=compute)
        read_rows(host, torch.from_numpy(ids), torch.from_numpy(positions), out)
        wanted = np.full((len(ids) + 5, width), 9.5, numbers(compute))
        wanted[positions] = values[ids].astype(numbers(compute))
        assert np.array_equal(out.numpy(), wanted)
        read_rows(host, torch.from_numpy(ids), None, out)
        wanted[: len(ids)] = values[ids].astype(numbers(compute))
        assert np.array_equal(out.numpy(), wanted)


def test_a_row_is_read_before_training():
    host, _ = table(3, 17, torch.float16)
    prepare(host, torch.device("cpu"), torch.float32)
    read_rows(torch.empty(4, 0), torch.tensor([1]), None, torch.empty(1, 0))  # rows without features


@pytest.mark.parametrize("stored", [torch.float32, torch.float16])
@pytest.mark.parametrize("width", [1, 33, 100, 1433])
def test_nothing_outside_of_the_rows_is_read(width, stored):
    """A table between two pages that nobody may read: whoever reads what is masked out dies of it."""
    n = PAGE // stored.itemsize  # so the table fills its pages, whatever the width
    size = n * width * stored.itemsize
    memory = mmap.mmap(-1, size + 2 * PAGE)
    buffer = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for page in (0, size + PAGE):
        assert protect(ctypes.c_void_p(buffer.ctypes.data + page), ctypes.c_size_t(PAGE), 0) == 0
    host = torch.frombuffer(memory, dtype=stored, offset=PAGE, count=n * width).view(n, width)
    host.copy_(torch.arange(n * width).view(n, width) % 1009)
    for row in (0, 1, n - 2, n - 1):
        out = torch.empty(1, width)
        read_rows(host, torch.tensor([row]), None, out)
        assert torch.equal(out[0], host[row].float())
