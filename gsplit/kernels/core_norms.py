"""Normalisation by the C++ core, on the CPU (``csrc/norm_rows.hpp``); rows are float32 or bfloat16."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

import gsplit._core as _core
from gsplit.kernels.normalising import ColumnSums, Given, Normaliser, Normalising, column, sums_like
from gsplit.kernels.sums import whole_rows


class CoreNorms(Normalising):
    """The core's passes. A bit a value says what ReLU and dropout let through."""

    finishes = True
    keeps_bits = True

    @override
    def forward(self, x: Tensor, by: Normaliser, skip: Tensor | None, *, keeps: bool) -> tuple[Tensor, Tensor | None]:
        out, bits = torch.empty_like(x, memory_format=torch.contiguous_format), None
        if keeps and by.behind.activation:
            bits = x.new_empty((len(x), -(-x.shape[1] // 8)), dtype=torch.uint8)
        columns, added = (column(by.weight), column(by.bias), by.mean), None if skip is None else whole_rows(skip)
        threads = torch.get_num_threads()
        _core.normalise(whole_rows(x), by.kind, by.eps, *columns, by.behind, out, bits, added, threads=threads)
        return out, bits

    @override
    def backward(self, given: Given, of_x: Tensor, of_weight: Tensor | None, of_bias: Tensor | None) -> None:
        x, by, kept, gradients = given
        rows, sums = (whole_rows(x), whole_rows(gradients)), (of_x, of_weight, of_bias)
        about = by.kind, by.eps, column(by.weight), by.behind, kept
        _core.normalise_backward(rows[0], *about, rows[1], *sums, threads=torch.get_num_threads())

    @override
    def column_sums(self, x: Tensor) -> ColumnSums:
        rows, threads = whole_rows(x), torch.get_num_threads()

        def sums(mean: Tensor | None) -> Tensor:
            out = sums_like(x, x.shape[1])
            _core.batch_sums(rows, mean, out, threads=threads)
            return out

        return ColumnSums(sums(None), sums)

    @override
    def batch_sums_backward(self, given: Given) -> Tensor:
        x, by, kept, gradients = given
        assert by.mean is not None
        out, rows, threads = sums_like(x, 2, x.shape[1]), whole_rows(x), torch.get_num_threads()
        _core.batch_backward_sums(
            rows, by.mean, by.behind, kept, whole_rows(gradients), out[0], out[1], threads=threads
        )
        return out

    @override
    def batch_backward(self, given: Given, shift: Tensor, slope: Tensor, of_x: Tensor) -> None:
        x, by, kept, gradients = given
        assert by.mean is not None
        assert by.weight is not None  # a batch's factors
        _core.batch_backward(
            whole_rows(x),
            by.weight.contiguous(),
            by.mean,
            by.behind,
            kept,
            whole_rows(gradients),
            shift,
            slope,
            of_x,
            threads=torch.get_num_threads(),
        )
