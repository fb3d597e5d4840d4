"""Operators on the simulated accelerator equal the CPU's, and only those wait whose shapes are values.

Bit for bit, but where it was told to have other numbers: there what is added is equal to rounding, and what is drawn
is another.
"""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from support.accelerators import has_cpu_numbers
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.accelerator

DRAWS = torch.Generator().manual_seed(1)
X = torch.randn(40, 17, generator=DRAWS)
Y = torch.randn(17, 9, generator=DRAWS)
INDEX = torch.randint(0, 40, (60,), generator=DRAWS)
WEIGHT = torch.rand(60, generator=DRAWS)
OFFSETS = torch.tensor([0, 5, 5, 20, 60], dtype=torch.int32)
MASK = X > 0


class On:
    """The tensors above on a device, anew for each case."""

    def __init__(self, device):
        self.device = torch.device(device)

    def to(self, x):
        return x.clone() if self.device.type == "cpu" else x.pin_memory().to(self.device, non_blocking=True)

    x = property(lambda self: self.to(X))
    y = property(lambda self: self.to(Y))
    index = property(lambda self: self.to(INDEX))
    offsets = property(lambda self: self.to(OFFSETS))

    def full(self, sizes, value, **options):
        return torch.full(sizes, value, device=self.device, **options)

    def arange(self, *range_, **options):
        return torch.arange(*range_, device=self.device, **options)


def graded(function, *values):
    """A function's result and the gradients of its arguments."""
    leaves = [value.requires_grad_() for value in values]
    out = function(*leaves)
    (out * out).sum().backward()
    return [out, *(leaf.grad for leaf in leaves)]


def bags(mode="sum", dtype=torch.float32, weighted=False, graded_=True, last=True):
    def of(on):
        def bag(rows, weight=None):
            return F.embedding_bag(
                on.index.int(), rows, on.offsets, mode=mode, include_last_offset=last, per_sample_weights=weight
            )

        values = [on.x.to(dtype)] + ([on.to(WEIGHT).to(dtype)] if weighted else [])
        return graded(bag, *values) if graded_ else bag(*values)

    return of


def assigned(on):
    x = on.x
    x[3:7, 2:] = 5.0
    x[0] += 1
    x[:, 1] = x[:, 0]
    x[on.index[:3]] = 0.0
    return x


def normalized(on):
    torch.manual_seed(0)
    batch, layer = nn.BatchNorm1d(17, device=on.device), nn.LayerNorm(17, device=on.device)
    found = graded(lambda x: layer(batch(x)), on.x)
    batch.eval()
    kept = [batch.running_mean, batch.running_var, batch.num_batches_tracked, batch.weight.grad, layer.weight.grad]
    return [*found, batch(on.x), *kept]


def dropped(p):
    def of(on):
        torch.manual_seed(5)
        return graded(lambda x: F.dropout(x, p), on.x)

    return of


def drawn(on):
    device = on.device
    torch.manual_seed(9)
    first = [
        torch.rand(5, device=device),
        torch.randn(30, device=device),
        torch.randperm(20, device=device),
        torch.bernoulli(on.full((50,), 0.4)),
        torch.empty(7, device=device).uniform_(-1, 1),
        torch.randint(0, 9, (8,), device=device),
        torch.empty(5, device=device).normal_(),
        torch.empty(50, device=device).bernoulli_(0.3),
    ]
    torch.manual_seed(1)
    return [*first, torch.rand(5, device=device)]


def optimized(make, **options):
    def of(on):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(17, 8), nn.ReLU(), nn.Linear(8, 3))
        for layer in (model[0], model[2]):
            layer.weight, layer.bias = (nn.Parameter(on.to(x.detach())) for x in (layer.weight, layer.bias))
        optimizer = make(model.parameters(), lr=0.1, weight_decay=0.01, **options)
        for _ in range(3):
            optimizer.zero_grad()
            model(on.x).square().sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return list(model.parameters())

    return of


def sampled(on):
    pattern = torch.sparse_csr_tensor(on.offsets.long(), on.index, on.full((60,), 0.0), (4, 40))
    return torch.sparse.sampled_addmm(pattern, on.x[:4].contiguous(), on.x.contiguous().t()).values()


def saved(on):
    torch.manual_seed(0)
    file, model = io.BytesIO(), nn.Linear(3, 3).to(on.device)
    torch.save(model.state_dict(), file)
    file.seek(0)
    return [*torch.load(file, map_location="cpu").values(), *copy.deepcopy(model).parameters()]


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


def rows_of(on):
    return on.index.unsqueeze(1).expand(-1, 17)


FLOATS = (torch.float32, torch.float64, torch.bfloat16)
CASES = {
    **{f"bag {mode} {dtype}": bags(mode, dtype) for mode in ("sum", "mean", "max") for dtype in FLOATS},
    **{f"bag weighted {dtype}": bags("sum", dtype, weighted=True) for dtype in FLOATS},
    **{
        f"bag {mode} last {last}": bags(mode, graded_=False, last=last)
        for mode in ("sum", "max")
        for last in (False, True)
    },
    "index_select": lambda on: graded(lambda x: x.index_select(0, on.index), on.x),
    "index": lambda on: graded(lambda x: x[on.index], on.x),
    "index_add": lambda on: on.full((40, 17), 0.0).index_add_(0, on.index.int(), on.x[on.index]),
    "index_copy": lambda on: on.full((40, 17), 0.0).index_copy_(0, on.arange(5), on.x[:5]),
    "index_put": lambda on: on.full((40, 17), 0.0).index_put_((on.index,), on.x[on.index], accumulate=True),
    "gather": lambda on: on.x.gather(0, rows_of(on)),
    "scatter_reduce": lambda on: on.full((40, 17), -1e9).scatter_reduce_(0, rows_of(on), on.x[on.index], "amax"),
    "mm": lambda on: graded(torch.mm, on.x, on.y),
    "addmm": lambda on: torch.addmm(on.full((9,), 1.0), on.x, on.y),
    "linear": lambda on: graded(F.linear, on.x, on.y.t().contiguous(), on.full((9,), 1.0)),
    "bmm": lambda on: torch.bmm(on.x.view(4, 10, 17), on.x.view(4, 10, 17).transpose(1, 2)),
    "einsum": lambda on: torch.einsum("ij,kj->ik", on.x, on.x),
    "cat": lambda on: [torch.cat([on.x, on.x[:3]]), torch.cat([on.x, on.x], dim=1)],
    "stack": lambda on: torch.stack([on.x, on.x], dim=1),
    "unbind": lambda on: [*on.x.unbind(1)[:2], *on.x.chunk(3, dim=1), *on.x.split(9)],
    "assigned": assigned,
    "bits": lambda on: on.x.view(torch.uint8).view(torch.int32).sum(),
    "diff": lambda on: on.offsets.diff(),
    "cumsum": lambda on: [on.x.cumsum(0), on.offsets.cumsum(0)],
    "sort": lambda on: [*torch.sort(on.index, stable=True), *on.x.topk(3)],
    "repeat_interleave": lambda on: torch.repeat_interleave(on.arange(4), on.offsets.diff(), output_size=60),
    "arange": lambda on: [
        on.arange(5, dtype=torch.int32),
        on.arange(2, 9, 3),
        on.arange(0.5, 2.0, 0.3),
        on.arange(0),
    ],
    "activations": lambda on: [graded(f, on.x) for f in (F.relu, F.elu, F.gelu, lambda x: F.leaky_relu(x, 0.2))],
    "softmax": lambda on: [graded(lambda x: x.softmax(1), on.x), on.x.log_softmax(1)],
    "cross_entropy": lambda on: graded(lambda x: F.cross_entropy(x, on.arange(40) % 17), on.x),
    "bce": lambda on: graded(lambda x: F.binary_cross_entropy_with_logits(x, on.to(MASK).float()), on.x),
    "norms of rows": lambda on: torch.linalg.vector_norm(on.x, ord=1, dim=1, keepdim=True).clamp_(min=1e-30),
    "normalized": normalized,
    **{f"dropout {p}": dropped(p) for p in (0.1, 0.3, 0.5, 0.9)},
    "drawn": drawn,
    "where": lambda on: [torch.where(on.to(MASK), on.x, on.x * 2), torch.where(on.to(MASK), on.x, 0.0)],
    "powers": lambda on: [on.x.pow(2), (on.x * on.x).sqrt(), on.x.exp(), 1 / on.x, 2**on.x, on.x % 0.7],
    "reductions": lambda on: [on.x.sum(0), on.x.mean(1), on.x.amax(0), on.x.argmax(1), on.x.norm()],
    "order": lambda on: [*on.x.min(dim=1), *on.x.max(dim=1)],
    "truth": lambda on: [on.to(MASK).any(), on.to(MASK).all(dim=1), ~on.to(MASK)],
    "types": lambda on: [
        on.x.to(torch.bfloat16),
        on.x.half().float(),
        on.index.int(),
        on.index.double() + on.x[0, 0],
    ],
    "promotion": lambda on: [on.index + 1.5, on.index.int() * torch.tensor(2), on.x.half() * torch.tensor(2.0)],
    "layouts": lambda on: [on.x.t().contiguous(), on.x.unfold(0, 3, 2), on.x.tril()],
    "given results": lambda on: [
        torch.mm(on.x, on.y, out=on.full((40, 9), 0.0)),
        torch.arange(5, out=on.full((0,), 0)),
    ],
    "nothing": lambda on: [
        on.x[:0] @ on.y,
        on.x[:0].sum(0),
        on.x[:0].sum(),
        torch.cat([on.x[:0], on.x]),
        on.x[:0].relu(),
    ],
    "resized": lambda on: [on.x.resize_(2, 3), on.x[0].clone().resize_(0)],
    "autograd.Function": lambda on: graded(Squared.apply, on.x),
    "sampled product": sampled,
    "saved": saved,
    "Adam": optimized(torch.optim.Adam),
    "Adam foreach": optimized(torch.optim.Adam, foreach=True),
    "Adam fused": optimized(torch.optim.Adam, fused=True),
    "AdamW": optimized(torch.optim.AdamW),
    "SGD": optimized(torch.optim.SGD, momentum=0.9),
}
COMPILER = {
    "checkpoint": lambda on: graded(lambda x: checkpoint(torch.sin, x, use_reentrant=False), on.x),
    "given results of another shape": lambda on: torch.add(on.x, 1, out=on.full((0,), 0.0)),
    "truth and order": lambda on: [on.x.isfinite(), on.x.median(), on.x.quantile(0.3), on.x.std(), on.x // 0.3],
    "layouts": lambda on: [on.x.flip(0), on.x.roll(1, 0), on.x.logsumexp(1)],
}
BLOCK = {"normalized": "its number of batches comes from the host", "saved": "a file is written"}
WAIT = {
    "masked": (lambda on: on.x[on.to(MASK)], "aten::nonzero"),
    "nonzero": (lambda on: on.to(MASK).nonzero(), "aten::nonzero"),
    "nonzero given": (lambda on: torch.nonzero(on.to(MASK), out=on.full((0,), 0)), "aten::nonzero.out"),
    "bincount": (lambda on: torch.bincount(on.index, minlength=50), "aten::bincount"),
    "unique": (lambda on: torch.unique(on.index), "aten::_unique2"),
    "index by the host's": (lambda on: on.x[INDEX], "copy to a device"),
    "equal": (lambda on: torch.tensor(torch.equal(on.x, on.x)), "aten::equal"),
    "item": (lambda on: torch.tensor(on.x.sum().item()), "_local_scalar_dense"),
}


def flat(found):
    return [found] if isinstance(found, torch.Tensor) else [tensor for part in found for tensor in flat(part)]


def assert_equal(found, wanted, drawn=False):
    found, wanted = ([x.detach().cpu() for x in flat(tensors)] for tensors in (found, wanted))
    assert [(x.dtype, x.shape) for x in found] == [(x.dtype, x.shape) for x in wanted]
    if has_cpu_numbers("sim"):
        assert all(map(torch.equal, found, wanted))
    elif drawn:
        assert not any(map(torch.equal, found, wanted))
    else:
        torch.testing.assert_close(found, wanted)


def both(case):
    torch.manual_seed(3)
    found = case(On("sim:0"))
    torch.accelerator.synchronize("sim:0")  # or what has yet to draw would draw with the next seed's numbers in line
    torch.manual_seed(3)
    return found, case(On("cpu"))


@pytest.mark.cases(68)
@pytest.mark.parametrize("name", CASES)
def test_an_operator_equals_the_cpu_s_and_waits_for_nothing(scheduled, name):
    scheduled.reset_waits()
    scheduled.forbid_waits(name not in BLOCK)
    found, wanted = both(CASES[name])
    scheduled.forbid_waits(False)
    assert name in BLOCK or scheduled.waits() == {"synchronize": 1}
    assert_equal(found, wanted, drawn=name == "drawn" or name.startswith("dropout"))


@pytest.mark.slow  # PyTorch imports its compiler for these, on the CPU for the checkpoint as well
@pytest.mark.parametrize("name", COMPILER)
def test_what_imports_the_compiler_equals_the_cpu_s(scheduled, name):
    scheduled.forbid_waits(True)
    found, wanted = both(COMPILER[name])
    scheduled.forbid_waits(False)
    assert_equal(found, wanted)


@pytest.mark.parametrize("name", WAIT)
def test_an_operator_whose_shape_is_a_value_waits_and_is_counted(scheduled, name):
    case, counted = WAIT[name]
    scheduled.reset_waits()
    found, wanted = both(case)
    assert scheduled.waits() == {counted: 1, "synchronize": 1}
    assert_equal(found, wanted)


WRONG = {
    "bag": lambda x, i: F.embedding_bag(i, x, torch.zeros(1, dtype=torch.int64, device="sim"), mode="sum"),
    "embedding": lambda x, i: graded(lambda rows: F.embedding(i, rows), x),
    "index_select": lambda x, i: x.index_select(0, i),
    "index": lambda x, i: x[i],
    "index_add": lambda x, i: x.index_add_(0, i, x[:3].clone()),
    "index_copy": lambda x, i: x.index_copy_(0, i, x[:3].clone()),
    "gather": lambda x, i: x.gather(0, i.unsqueeze(1)),
    "labels": lambda x, i: F.cross_entropy(x[:3], i),
}


@pytest.mark.parametrize("name", WRONG)
def test_poison_as_an_index_is_an_error_that_comes_later(sim, name):
    x, poison = torch.ones(40, 17, device="sim"), torch.empty(3, dtype=torch.int64, device="sim")
    WRONG[name](x, poison if name != "index" else poison - 99)  # -1 is the last row
    with pytest.raises(RuntimeError, match=r"sim:0 is broken by aten::.*(out of|outside|range|bounds)"):
        torch.accelerator.synchronize("sim:0")


def test_offsets_that_fall_are_an_error(sim):
    x, index = torch.ones(40, 17, device="sim"), torch.zeros(9, dtype=torch.int64, device="sim")
    F.embedding_bag(index, x, torch.tensor([0, 7, 3], device="sim"), mode="sum")
    with pytest.raises(RuntimeError, match="offsets fall"):
        torch.accelerator.synchronize("sim:0")


def test_a_wrong_call_is_the_cpu_s_error_at_once(sim):
    x = torch.ones(4, 3, device="sim")
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        x @ x
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(4, 3)
    torch.accelerator.synchronize("sim:0")  # nothing is broken


def test_a_task_keeps_no_memory(sim):
    """Or a missing record_stream would be hidden."""
    torch.accelerator.empty_cache()
    x = torch.ones(1000, device="sim")
    before = torch.accelerator.memory_allocated()
    y = x * 2 + x  # two tasks that have not begun
    del x, y
    assert torch.accelerator.memory_allocated() == before - 4096


def test_calls_are_counted(sim):
    x = torch.ones(4, 4, device="sim")
    sim.reset_calls()
    (x @ x).relu_()
    assert sim.calls() == {"aten::mm.out": 1, "aten::relu_": 1}


def test_the_state_of_draws_can_be_kept(scheduled):
    torch.manual_seed(2)
    torch.rand(3, device="sim")
    state = scheduled.random_state(0)
    wanted = torch.rand(5, device="sim").cpu()
    assert not torch.equal(torch.rand(5, device="sim").cpu(), wanted)
    scheduled.set_random_state(0, state)
    assert torch.equal(torch.rand(5, device="sim").cpu(), wanted)
