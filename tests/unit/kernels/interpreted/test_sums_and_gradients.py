"""What layers ask of sums, forward and backward, with the kernel for GPUs in the place of the core."""

from __future__ import annotations

import pytest
import torch
from support.blocks import coo, sampled_block
from support.graphs import random_graph

import gsplit.nn.aggregate
from gsplit.device import accelerator
from gsplit.kernels import Sums, segment_sums
from gsplit.kernels.compiled import Compiled
from gsplit.nn import mean_of_neighbours, sum_of_neighbours

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture
def launched(monkeypatch):
    """Layers sum by the kernel; how often they did so."""
    kernels, calls, launch = Compiled(), [], segment_sums.sum_rows
    monkeypatch.setattr(gsplit.nn.aggregate, "kernels_for", lambda _: kernels)
    monkeypatch.setattr(segment_sums, "sum_rows", lambda sums: (calls.append(1), launch(sums))[1])
    yield calls
    assert kernels._works


def edges_of(block, weight=None):
    """[N, S] what each destination takes of each source, in float64."""
    source, destination = coo(block)
    dense = torch.zeros(block.num_destinations, block.num_sources, dtype=torch.float64)
    ones = torch.ones(len(source), dtype=torch.float64) if weight is None else weight
    return dense.index_put((destination, source), ones, accumulate=True)


@pytest.mark.parametrize("width", [1, 7, 16, 100, 300])
def test_means_and_their_gradients(launched, width):
    block = sampled_block(targets=30)
    x = torch.randn(block.num_sources, width, dtype=torch.float64, requires_grad=True)
    dense = edges_of(block)
    wanted = dense / dense.sum(1, keepdim=True).clamp(min=1) @ x
    found = mean_of_neighbours(block, x)
    torch.testing.assert_close(found, wanted, **EXACT)
    direction = torch.randn_like(wanted)
    torch.testing.assert_close(
        torch.autograd.grad(found, x, direction)[0], torch.autograd.grad(wanted, x, direction)[0], **EXACT
    )
    assert len(launched) == 2


@pytest.mark.parametrize("heads", [1, 3])
def test_weighted_sums_and_their_gradients(launched, heads):
    block = sampled_block(random_graph(150, 9, seed=8, weighted=True), targets=30)
    x = torch.randn(block.num_sources, 4 * heads, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(block.num_edges, heads, dtype=torch.float64, requires_grad=True)
    pieces = zip(x.chunk(heads, dim=1), weight.unbind(1), strict=True)
    wanted = torch.cat([edges_of(block, by) @ rows for rows, by in pieces], dim=1)
    found = sum_of_neighbours(block, x, weight)
    torch.testing.assert_close(found, wanted, **EXACT)
    direction = torch.randn_like(wanted)
    for ours, theirs in zip(
        torch.autograd.grad(found, (x, weight), direction),
        torch.autograd.grad(wanted, (x, weight), direction),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, **EXACT)
    assert len(launched) == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_summed_in_float32_and_rounded_once(launched, dtype):
    block = sampled_block(targets=100, fan_out=40)
    x = torch.randn(block.num_sources, 33).to(dtype)
    exact = edges_of(block) @ x.double()
    ulps = 1 if dtype == torch.bfloat16 else 0.5  # the interpreter cuts bfloat16 off; compiled code rounds it
    once = {"rtol": torch.finfo(dtype).eps * ulps * 1.01, "atol": 1e-5}  # the last is of sums in float32
    torch.testing.assert_close(sum_of_neighbours(block, x).double(), exact, **once)


def test_a_gradient_that_is_one_number_in_all_places(launched):
    """The backward of ``sum()`` gives such: a tensor whose strides are 0."""
    block = sampled_block(targets=30)
    x = torch.randn(block.num_sources, 5, dtype=torch.float64, requires_grad=True)
    sum_of_neighbours(block, x).sum().backward()
    torch.testing.assert_close(x.grad, edges_of(block).sum(0).unsqueeze(1).expand_as(x), **EXACT)


@pytest.mark.parametrize("wrong", [False, True])
def test_the_first_sum_is_held_against_pytorch_s(monkeypatch, caplog, wrong):
    """As on a GPU that Triton drives; with other sums there the kernel is off, and one line says so."""
    monkeypatch.setattr(accelerator, "is_one", lambda device: device.type == "cpu")
    monkeypatch.setattr(accelerator, "as_current", lambda device: torch.no_grad())
    kernels = Compiled()
    kernels._driven = "cpu"
    if wrong:
        launch = segment_sums.sum_rows
        monkeypatch.setattr(segment_sums, "sum_rows", lambda sums: (launch(sums), sums.out.mul_(1.01)))
    for _ in range(2):
        assert kernels.takes(torch.zeros(3, 2)) != wrong
    assert not kernels.takes(torch.zeros(3, 2, dtype=torch.int32))
    assert not kernels.takes(torch.zeros(3, 2, device="meta"))
    said = ["sums over edges are PyTorch's own: the kernel for them gives other sums here"]
    assert [record.getMessage() for record in caplog.records] == (said if wrong else [])


@pytest.mark.parametrize("width", [24])
def test_slices_of_columns_are_added_in_the_order_of_all(width):
    """Tiles of narrower rows have more edges, and sums of theirs round otherwise."""
    block = sampled_block(targets=8, fan_out=30)
    edges, x = block.two_way.edges, torch.randn(block.num_sources, width)
    whole, sliced, narrow = (torch.empty(edges.num_rows, width) for _ in range(3))
    segment_sums.sum_rows(Sums(edges, x, None, whole))
    for columns in (slice(0, 10), slice(10, 20), slice(20, width)):
        segment_sums.sum_rows(Sums(edges, x[:, columns], None, sliced[:, columns], width=width))
        segment_sums.sum_rows(Sums(edges, x[:, columns], None, narrow[:, columns]))
    assert torch.equal(sliced, whole)
    assert not torch.equal(narrow, whole)
