"""Our batch normalisation against PyTorch's, on rows that are all here and on rows split over trainers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from support.steps import CPU
from torch import nn

from gsplit.kernels import library_alone
from gsplit.nn import BatchComm, BatchNorm, ExchangeCounters
from gsplit.nn.norm import convert_batch_norms

ROWS = 12
WAYS = [(torch.float64, False), (torch.float32, False), (torch.float32, True)]
"""A type of rows, and whether PyTorch's operations compute alone."""


def rows():
    torch.manual_seed(1)
    return 3 + 2 * torch.randn(ROWS, 4, dtype=torch.float64)


def both(**options):
    theirs = nn.BatchNorm1d(4, **options).double()
    ours = BatchNorm(4, **options).double()
    if theirs.affine:
        nn.init.normal_(theirs.weight)
        nn.init.normal_(theirs.bias)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}])
def test_equals_pytorch_where_all_rows_are_here(options):
    ours, theirs = both(**options)
    for batch in range(3):
        x, y = rows().requires_grad_(), rows().requires_grad_()
        out, wanted = ours(x + batch), theirs(y + batch)
        torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)
        (out**3).sum().backward()
        (wanted**3).sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-12, atol=1e-12)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(rows()), theirs(rows()), rtol=1e-12, atol=1e-12)


def normalised(member, counts, dtype, library):
    """This trainer's rows normalised with those of the others, gradients, and the running variance.

    Rows in float32 are normalised in passes, by the core or by PyTorch's operations, which add up gradients of all
    trainers' rows in one message.
    """
    begin = sum(counts[: member.rank])
    x = rows()[begin : begin + counts[member.rank]].to(dtype).requires_grad_()
    torch.manual_seed(2)
    norm = both()[0].to(dtype)
    norm.comm = BatchComm(member.group, ExchangeCounters(), CPU)
    with library_alone() if library else nullcontext():
        out = norm(x)
    norm.comm.tie((out**3).sum()).backward()
    return out.detach(), x.grad, norm.running_var, norm.weight.grad, norm.bias.grad


@pytest.mark.parametrize(("dtype", "library"), WAYS)
@pytest.mark.parametrize("counts", [(5, 7), (0, 12), (4, 0, 8), (1, 2, 3, 6)])
def test_rows_of_all_trainers_count(pool, counts, dtype, library):
    results = pool.run(len(counts), normalised, counts, dtype, library)
    bound = 1e-10 if dtype == torch.float64 else 2e-5
    torch.manual_seed(2)
    _, theirs = both()
    x = rows().requires_grad_()
    wanted = theirs(x)
    (wanted**3).sum().backward()
    for i, whole in enumerate((wanted.detach(), x.grad)):
        torch.testing.assert_close(torch.cat([r[i] for r in results]).double(), whole, rtol=bound, atol=bound)
    for result in results:
        torch.testing.assert_close(result[2].double(), theirs.running_var, rtol=bound, atol=0)
    for i, whole in ((3, theirs.weight.grad), (4, theirs.bias.grad)):
        torch.testing.assert_close(sum(r[i].double() for r in results), whole, rtol=bound, atol=bound)


def test_a_single_row_becomes_the_bias():
    norm = BatchNorm(4)
    nn.init.normal_(norm.bias)
    torch.testing.assert_close(norm(torch.randn(1, 4)), norm.bias.unsqueeze(0))
    assert torch.equal(norm.running_var, torch.ones(4))  # no variance of one row, which would count as 0
    norm(torch.zeros(2, 4))
    torch.testing.assert_close(norm.running_var, torch.full((4,), 0.9))


def test_conversion_keeps_the_parameters_and_says_nothing_new():
    model: Any = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.SyncBatchNorm(4), nn.BatchNorm1d(4, momentum=0.3)))
    before = dict(model.named_parameters())
    convert_batch_norms(model)
    assert all(isinstance(norm, BatchNorm) for norm in model[1])
    shared = nn.BatchNorm1d(4)
    twice: Any = nn.ModuleList([shared, nn.Sequential(shared)])
    convert_batch_norms(twice)
    assert twice[0] is twice[1][0]
    assert isinstance(twice[0], BatchNorm)
    assert model[1][1].momentum == 0.3
    assert all(parameter is before[name] for name, parameter in model.named_parameters())
    assert set(model.state_dict()) == {
        *before,
        *(f"1.{i}.{b}" for i in (0, 1) for b in ("running_mean", "running_var", "num_batches_tracked")),
    }


@pytest.mark.parametrize("momentum", [0.1, None])
def test_no_rows_leave_the_running_statistics_as_they_are(momentum):
    """As in a step of which nobody has a target."""
    norm = BatchNorm(4, momentum=momentum)
    norm(torch.randn(9, 4) + 3)
    before = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    norm(torch.empty(0, 4))
    assert all(torch.equal(buffer, before[name]) for name, buffer in norm.named_buffers())
