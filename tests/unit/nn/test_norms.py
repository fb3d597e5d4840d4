"""Normalisation with what stands behind it in one pass, beside PyTorch's modules, forward and backward."""

from __future__ import annotations

import copy

import pytest
import torch
from support.gradients import rows
from torch import nn
from torch.nn import functional as F

from gsplit.kernels import core_norms, library_alone
from gsplit.nn import BatchNorm
from gsplit.nn.norm import normalised
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.products import Keeps

KINDS = {
    "rms": lambda: nn.RMSNorm(20),
    "rms, eps": lambda: nn.RMSNorm(20, eps=1e-2),
    "rms, plain": lambda: nn.RMSNorm(20, elementwise_affine=False),
    "layer": lambda: nn.LayerNorm(20),
    "layer, no bias": lambda: nn.LayerNorm(20, bias=False),
    "layer, plain": lambda: nn.LayerNorm(20, elementwise_affine=False),
    "batch": lambda: BatchNorm(20),
    "batch, plain": lambda: BatchNorm(20, affine=False),
    "batch, momentum": lambda: BatchNorm(20, momentum=None),
    "batch, forgets": lambda: BatchNorm(20, track_running_stats=False),
}
PLAIN = nn.Dropout(0.0)


def made(kind):
    """A normalisation whose weights are not those that it begins with."""
    norm = KINDS[kind]()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


@pytest.fixture
def passes(monkeypatch):
    """How often the core has normalised."""
    calls = []
    for name in ("normalise", "normalise_backward", "batch_sums", "batch_backward_sums", "batch_backward"):
        given = getattr(core_norms._core, name)

        def counted(*args, _name=name, _given=given, **named):
            calls.append(_name)
            return _given(*args, **named)

        monkeypatch.setattr(core_norms._core, name, counted)
    return calls


@pytest.mark.parametrize("activation", [torch.relu, F.elu, None])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_pytorch_in_float64(passes, kind, activation):
    """Values, gradients of rows and weights, and what a batch leaves behind; ELU follows in a pass of its own."""
    norm = made(kind)
    double = copy.deepcopy(norm).double()
    x, finish = rows(50, 20, torch.float32), activation and Finish(activation, PLAIN)
    theirs_x = x.detach().double().requires_grad_()
    ours, theirs = normalised(norm, x, finish), double(theirs_x)
    theirs = theirs if activation is None else activation(theirs)
    gradients = torch.randn(50, 20)
    found = torch.autograd.grad(ours, [x, *norm.parameters()], gradients)
    wanted = torch.autograd.grad(theirs, [theirs_x, *double.parameters()], gradients.double())
    for one, other in zip((ours, *found, *norm.buffers()), (theirs, *wanted, *double.buffers()), strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=2e-5, atol=2e-5)
    sums = "batch" in kind
    assert passes == ["batch_sums"] * 2 * sums + ["normalise"] + (
        ["batch_backward_sums", "batch_backward"] if sums else ["normalise_backward"]
    )
    norm.eval()
    with torch.no_grad():
        torch.testing.assert_close(norm(x).double(), double.eval()(theirs_x), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", ["rms", "layer", "batch"])
def test_a_skip_is_added_in_the_pass_where_it_can(passes, kind):
    norm, x = made(kind), rows(30, 20, torch.float32)
    gradients = torch.randn(30, 20)
    for activation, dtype in ((torch.relu, torch.float32), (F.elu, torch.float32), (torch.relu, torch.float64)):
        skip, finish = rows(30, 20, dtype), Finish(activation, PLAIN)
        ours, theirs = normalised(norm, x, finish, skip), normalised(norm, x, finish) + skip
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
        for one, other in zip(
            *(torch.autograd.grad(out, [x, skip, *norm.parameters()], gradients.to(dtype)) for out in (ours, theirs)),
            strict=True,
        ):
            assert torch.equal(one, other)
    double = copy.deepcopy(norm).double()
    wide, skip = rows(30, 20, torch.float64), rows(30, 20, torch.float64)
    assert torch.equal(normalised(double, wide, None, skip), copy.deepcopy(double)(wide) + skip)


@pytest.mark.parametrize("kind", ["rms", "layer", "batch"])
def test_float64_keeps_every_bit(passes, kind):
    norm, x, finish = made(kind).double(), rows(30, 20, torch.float64), Finish(torch.relu, PLAIN)
    ours, theirs = normalised(norm, x, finish), torch.relu(copy.deepcopy(norm)(x))
    assert torch.equal(ours, theirs)
    gradients = torch.randn(30, 20, dtype=torch.float64)
    for one, other in zip(*(torch.autograd.grad(out, x, gradients) for out in (ours, theirs)), strict=True):
        assert torch.equal(one, other)
    assert not passes


@pytest.mark.parametrize("kind", ["rms", "layer", "batch"])
def test_the_same_values_are_dropped(kind):
    """One number is drawn, as for an activation of its own, and no other."""
    norm, x, finish = made(kind), rows(300, 20, torch.float32), Finish(torch.relu, nn.Dropout(0.3))
    found = []
    for own_forward in (False, True):
        if own_forward:
            norm.forward = norm.forward
        torch.manual_seed(7)
        found.append((normalised(norm, x, finish), torch.rand(())))
    (ours, after), (theirs, other) = found
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)
    assert (ours == 0).double().mean() > 0.4
    assert after == other


@pytest.mark.parametrize("kind", ["rms", "layer", "batch"])
def test_bfloat16_is_computed_in_float32_and_rounded_once(kind):
    norm, x, finish = made(kind), rows(40, 20, torch.bfloat16), Finish(torch.relu, PLAIN)
    wide = x.detach().float().requires_grad_()
    ours, theirs = normalised(norm, x, finish), normalised(norm, wide, finish)
    assert ours.dtype == torch.bfloat16
    assert torch.equal(ours, theirs.bfloat16())
    gradients = torch.randn(40, 20).bfloat16()
    found = torch.autograd.grad(ours, [x, *norm.parameters()], gradients)
    wanted = torch.autograd.grad(theirs, [wide, *norm.parameters()], gradients.float())
    assert torch.equal(found[0], wanted[0].bfloat16())
    for one, other in zip(found[1:], wanted[1:], strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def other_kind(how):
    """A normalisation that the core does not compute, which shows that it was called."""
    norm, seen = made("layer"), []
    if how == "hook":
        norm.register_forward_hook(lambda *_: seen.append(1))
    elif how == "forward":
        given = norm.forward
        norm.forward = lambda x: seen.append(1) or given(x)
    elif how == "subclass":
        norm.__class__ = type("Own", (nn.LayerNorm,), {"forward": lambda self, x: seen.append(1) or F.relu(x)})
    elif how == "parametrised":
        nn.utils.parametrizations.weight_norm(norm, dim=None)
        norm.register_forward_pre_hook(lambda *_: seen.append(1))
    return norm, seen


@pytest.mark.parametrize("how", ["hook", "forward", "subclass", "parametrised"])
def test_what_is_not_pytorch_s_own_is_called(passes, how):
    norm, seen = other_kind(how)
    x = torch.randn(10, 20)
    out = normalised(norm, x, Finish(torch.relu, PLAIN))
    assert seen == [1]
    assert torch.equal(out, torch.relu(norm(x)))
    assert not passes


def test_other_rows_are_left_to_pytorch(passes):
    x = torch.randn(10, 20)
    with library_alone():
        assert torch.equal(normalised(nn.LayerNorm(20), x), F.layer_norm(x, (20,)))
    cube = torch.randn(4, 10, 20)
    assert torch.equal(normalised(nn.LayerNorm(20), cube), F.layer_norm(cube, (20,)))
    assert torch.equal(normalised(nn.LayerNorm((10, 20)), cube), F.layer_norm(cube, (10, 20)))
    half = normalised(nn.LayerNorm(20), x.half())
    assert torch.equal(half, F.layer_norm(x.half().float(), (20,)).half())
    assert not passes


@pytest.mark.parametrize("kind", ["rms", "layer", "batch"])
def test_bits_are_kept_and_nothing_else_beside_rows_and_weight(kind):
    """Whatever a layer is computed again for: with these bits backward asks for rows and weight alone."""
    norm, saved, found = made(kind), [], []
    x = torch.randn(30, 20)
    for keeps in (Keeps.RESULT, Keeps.SIGNS, Keeps.NOTHING):
        saved.append([])

        def save(tensor, to=saved[-1]):
            to.append(tensor.detach().clone())
            return tensor

        given = x.clone().requires_grad_()
        torch.manual_seed(3)
        with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            out = normalised(norm, given, Finish(torch.relu, nn.Dropout(0.5), keeps), overwrites=True)
        if keeps is Keeps.NOTHING:
            assert out.untyped_storage().nbytes() == 4
            continue
        found.append((out.detach(), *torch.autograd.grad(out.sum(), [given, *norm.parameters()])))
        assert torch.equal(given, x) == (keeps is Keeps.RESULT)  # gradients are written over rows of no one else's
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    for tensors in saved:
        assert [tensor.shape for tensor in tensors] == [(30, 20), (20,)]
        assert torch.equal(tensors[0], x)


@pytest.mark.parametrize("kind", ["rms", "layer", "batch"])
def test_rows_that_lie_apart_and_gradients_that_are_all_the_same(kind):
    norm, wide = made(kind), torch.randn(30, 50)
    apart = wide[:, 7:27].detach().requires_grad_()
    turned = wide[:20, :30].t().detach().requires_grad_()
    for x in (apart, turned):
        out = normalised(norm, x, Finish(torch.relu, PLAIN))
        whole = x.detach().contiguous().requires_grad_()
        other = normalised(norm, whole, Finish(torch.relu, PLAIN))
        assert torch.equal(out, other)
        assert torch.equal(*(torch.autograd.grad(each.sum(), given)[0] for each, given in ((out, x), (other, whole))))


def test_no_row_and_one_row():
    for kind in ("rms", "layer", "batch"):
        norm = made(kind)
        for n in (0, 1):
            x = rows(n, 20, torch.float32)
            out = normalised(norm, x, Finish(torch.relu, PLAIN))
            of_x, *others = torch.autograd.grad(out.sum(), [x, *norm.parameters()])
            assert out.shape == of_x.shape == (n, 20)
            assert all(each.isfinite().all() for each in (out, of_x, *others))
            assert n or not any(each.any() for each in others)


@pytest.mark.parametrize("value", [100.0, 10_000.0146484375])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_columns_far_from_zero_are_normalised_by_what_they_are_over_their_mean(value, noise):
    """Within the rounding of a mean in float32; equal values give the bias, also in many rows."""
    norm = made("batch")
    double = copy.deepcopy(norm).double()
    x = value + noise * torch.randn(640, 20)
    out, wanted = norm(x), double(x.double())
    if noise:
        bound = 2 * torch.finfo(torch.float32).eps * value / noise * norm.weight.abs().max()
        assert (out - wanted).abs().max() <= bound * (1 + (x - value).abs().max() / noise)
    else:
        assert torch.equal(out, norm.bias.detach().expand(640, 20))
    torch.testing.assert_close(norm.running_mean.double(), double.running_mean, rtol=2e-7, atol=0)


@pytest.mark.parametrize(
    ("kind", "frozen"),
    [("rms", "weight"), ("layer", "weight"), ("layer", "bias"), ("batch", "weight"), ("batch", "bias")],
)
def test_what_is_frozen_gets_no_gradient_and_the_others_theirs(kind, frozen):
    norm, x = made(kind), rows(30, 20, torch.float32)
    wanted = {name: torch.autograd.grad((norm(x) ** 3).sum(), weight)[0] for name, weight in norm.named_parameters()}
    getattr(norm, frozen).requires_grad_(False)
    (norm(x) ** 3).sum().backward()
    for name, weight in norm.named_parameters():
        assert weight.grad is None if name == frozen else torch.equal(weight.grad, wanted[name])


def test_the_number_of_rows_is_exact_whatever_type_is_the_default():
    norm, x = made("batch"), 3 + torch.randn(257, 20)
    wanted = copy.deepcopy(norm)(x)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(norm(x), wanted)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_hook_that_looks_changes_no_bit_of_a_batch_s_norm(passes):
    """Nor which sums trainers add up: one alone may have it."""
    norm, x, seen = made("batch"), torch.randn(30, 20), []
    wanted, of_plain = copy.deepcopy(norm)(x), list(passes)
    norm.register_forward_hook(lambda *_: seen.append(1))
    passes.clear()
    assert torch.equal(norm(x), wanted)
    assert passes == of_plain
    assert seen == [1]
