"""What is counted of the memory of tensors: what an allocator would hand out, as long as somebody holds it."""

from __future__ import annotations

import pytest
import torch
from support.messages import line_with
from torch import nn

from gsplit.engine.dry import LiveBytes
from gsplit.engine.dry.live_bytes import AsAccelerators, Bound

KIB = 1024


def test_an_operation_behind_the_bound_is_the_last():
    roomy = Bound(num_bytes=8 * KIB, seconds=60)
    with LiveBytes("cpu", roomy) as live:
        x = torch.zeros(2 * KIB)
        with pytest.raises(MemoryError, match=line_with("8.0 KiB, CPU")):
            torch.zeros(1)
        del x
        torch.zeros(1)
        assert live.now == 0
    beyond = pytest.raises(TimeoutError, match=line_with("0 s, CPU"))
    with beyond, LiveBytes("cpu", Bound(num_bytes=KIB, seconds=0)):
        torch.zeros(1)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_memory_is_counted_once_and_until_it_goes(device):
    before = torch.zeros(1 << 20, device=device)
    with LiveBytes(device) as live:
        x = torch.zeros(2 * KIB, device=device)
        assert (live.now, live.peak) == (8 * KIB, 8 * KIB)
        views = [x[:10], x.view(32, 64), x.detach(), before[5:]]
        assert live.now == 8 * KIB  # what was there before is not
        small = torch.zeros(1, device=device)
        assert live.now == 8 * KIB + 512  # handed out in pieces
        del x
        assert live.now == 8 * KIB + 512
        del views
        assert live.now == 512
        live.restart()
        assert live.peak == 512
        small.resize_(KIB)
        assert (live.now, live.peak) == (4 * KIB, 4 * KIB)
        live.add([before])
        assert live.now == 4 * KIB + (4 << 20)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_autograd_saves_is_held(device):
    weight = torch.ones(256, 256, device=device, requires_grad=True)
    with LiveBytes(device) as live:
        out = (torch.zeros(64, 256, device=device) @ weight).exp().sum()
        assert live.now == 2 * 64 * KIB + 512  # the input and the result of exp, by autograd alone, and the sum
        out.backward()
        assert live.now == 256 * KIB + 512  # the gradient of the weight, and the sum
        assert live.peak >= 256 * KIB + 64 * KIB
        weight.grad = None
        assert live.now == 512


def test_sparse_tensors_are_counted_by_their_parts():
    with LiveBytes("cpu") as live:
        sparse = torch.sparse_csr_tensor(torch.arange(257), torch.arange(256), torch.ones(256), (256, 256))
        assert live.now == 5 * 512 + 2 * KIB + KIB  # 257 pointers and 256 columns of 8 bytes, 256 values of 4
        del sparse
        assert live.now == 0


def test_other_devices_are_not_counted():
    with LiveBytes("meta") as live:
        torch.zeros(10)
        assert live.peak == 0


def test_results_of_unknown_size_are_answered_from_above_on_meta():
    x = torch.zeros(8, 3, device="meta")
    mask = torch.ones(8, dtype=torch.bool, device="meta")
    with LiveBytes("meta"):
        assert x[mask].shape == (8, 3)
        assert x[torch.ones(8, 3, dtype=torch.bool, device="meta")].shape == (24,)
        assert mask.nonzero().shape == (8, 1)
        assert x.masked_select(x > 0).shape == (24,)
        ids = torch.zeros(8, dtype=torch.int64, device="meta")
        assert torch.bincount(ids, minlength=5).shape == (5,)
        assert torch.repeat_interleave(ids, ids, output_size=12).shape == (12,)
        with pytest.raises(NotImplementedError):
            torch.repeat_interleave(ids, ids)
        with pytest.raises((RuntimeError, NotImplementedError)):
            float(x.sum())


def test_the_cpu_keeps_what_accelerators_would():
    x = torch.ones(1024, requires_grad=True)
    host = torch.zeros(1024)
    with AsAccelerators(), LiveBytes("cpu") as live:
        kept = nn.functional.dropout(x, 0.5, training=True)
        assert live.now == 4 * KIB + KIB  # the result, and a byte of each value
        assert nn.functional.dropout(x, 0.5, training=False) is x
        assert nn.functional.dropout(x, p=0.0, training=True) is x
        del kept
        loaded = host.to("cpu", non_blocking=True)
        assert live.now == 4 * KIB
        assert loaded is not host
        assert host.to(torch.float32) is host  # a conversion to what it is makes nothing anywhere
