"""Kernels for GPUs ask for no value, for which the host would have to wait: they run on tensors that have none."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from gsplit.kernels import Edges, Sums, library_alone
from gsplit.kernels.library import Library
from gsplit.nn.head_scores import kept_of

R, S, E, H = 7, 12, 20, 2


@pytest.fixture(autouse=True)
def without_values():
    """As on an accelerator, whose lists are not looked at."""
    with library_alone(), FakeTensorMode():
        yield


def edges():
    indptr, indices = torch.empty(R + 1, dtype=torch.int32), torch.empty(E, dtype=torch.int32)
    return Edges(indptr=indptr, indices=indices)


def test_values_would_be_missed():
    with pytest.raises(DynamicOutputShapeException):
        torch.bincount(edges().indices, minlength=S)


def test_edges_are_transposed():
    turned = Library().transposed(edges(), S, order=True)
    assert (len(turned.indptr), turned.indptr.dtype) == (S + 1, torch.int32)
    assert (turned.indices.shape, turned.indices.dtype) == ((E,), torch.int32)
    assert (turned.order.shape, turned.order.dtype) == ((E,), torch.int32)


def test_sums_are_taken():
    kernels, weight, out = Library(), torch.empty(E, H), torch.empty(R, 6)
    kernels.sum(Sums(edges(), torch.empty(S - 3, 6), torch.empty(3, 6), out, weight=weight, degrees=torch.empty(R)))
    kernels.add(out, torch.empty(4, dtype=torch.int32), torch.empty(4, 6), (3, 1))


def test_attention_is_shared_out():
    kernels, source, destination = Library(), torch.empty(S, H), torch.empty(R, H)
    shares = kernels.shares(edges(), source, destination, 0.2, loops=True)
    gradients = tuple(map(torch.empty_like, shares))
    found = kernels.shares_backward(edges(), source, destination, 0.2, shares, gradients)
    assert [tuple(tensor.shape) for tensor in found] == [(E, H), (R, H), (R, H)]


@pytest.mark.parametrize(
    ("dropout", "changes"),
    [(torch.nn.Identity(), False), (torch.nn.Dropout(0.5), True), (torch.nn.Dropout(0.5, inplace=True), True)],
)
def test_dropout_that_changes_nothing_is_known(dropout, changes):
    assert (kept_of(dropout, torch.empty(E, H)) is not None) == changes
