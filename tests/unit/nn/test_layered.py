"""What stands between the convolutions, beside the same written out."""

from __future__ import annotations

import pytest
import torch
from support.blocks import sampled_block
from support.graphs import random_graph
from torch import nn

from gsplit.nn import GCN
from gsplit.nn.gcn import GCNConv
from gsplit.nn.layered import LayeredModel


@pytest.mark.parametrize("after", [True, False])
def test_scalegnn_s_architecture(after):
    """Input projection; sum, product, RMSNorm, ReLU and residual a layer, in all layers; output projection."""
    graph = random_graph(80, 6, seed=3)
    block = sampled_block(graph, targets=80, fan_out=-1, dtype=torch.float64)  # all vertices, so it fits every layer
    options = {"norm": "rms", "residual": True, "residual_after": after, "input_projection": True}
    model = GCN(5, 8, 3, num_layers=2, output_projection=True, **options).double()
    assert model.level_widths == [5, 8, 3]
    x = torch.randn(block.num_sources, 5, dtype=torch.float64)
    h = torch.relu(model.projection(x))
    for conv, norm in zip(model.convs, model.norms, strict=True):
        out = conv(block, h)
        h = torch.relu(norm(out)) + h if after else torch.relu(norm(out + h))
    torch.testing.assert_close(model({1: block, 2: block}, x), model.head(h))
    squares = out.square().mean(dim=1, keepdim=True)
    wanted = out / (squares + torch.finfo(out.dtype).eps).sqrt()
    torch.testing.assert_close(model.norms[1](out), wanted)


def test_a_residual_behind_the_activation_is_that_of_hidden_layers_alone():
    """The last layer without an output projection has no activation that it could stand behind."""
    block = sampled_block(random_graph(80, 6, seed=3), targets=80, fan_out=-1, dtype=torch.float64)
    models = [GCN(5, 8, 3, num_layers=1, residual=True, residual_after=after).double() for after in (True, False)]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(block.num_sources, 5, dtype=torch.float64)
    assert torch.equal(models[0]({1: block}, x), models[1]({1: block}, x))


def whole_block():
    """A block of all vertices, which fits every layer."""
    return sampled_block(random_graph(80, 6, seed=3), targets=80, fan_out=-1)


@pytest.mark.parametrize("hidden", [8, 200])
def test_what_stands_behind_a_layer_is_in_its_pass(hidden):
    """Outputs and gradients are those of layers that add it themselves; the bias is no longer theirs to add."""
    block = whole_block()
    layers, x = GCN(5, hidden, 3, num_layers=3), torch.randn(block.num_sources, 5)
    for name, parameter in layers.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)  # or one that is left out would not be missed
    h = x
    for number, conv in enumerate(layers.convs, start=1):
        h = conv(block, h) if number == 3 else torch.relu(conv(block, h))
    out = layers(dict.fromkeys((1, 2, 3), block), x)
    torch.testing.assert_close(out, h)
    weight = torch.randn_like(out)
    ours, theirs = (torch.autograd.grad((each * weight).sum(), list(layers.parameters())) for each in (out, h))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    called = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(GCNConv, "forward_finished", lambda *args: called.append(args[-1]) or torch.zeros(80, hidden))
        layers(dict.fromkeys((1, 2, 3), block), x)
    assert [finish is not None for finish in called] == [True, True, False]


@pytest.mark.parametrize(
    "kind", ["hook", "own forward", "subclass", "norm", "residual", "hook of the norm", "forward of the norm"]
)
def test_a_layer_that_is_not_as_usual_is_called_by_itself(kind):
    block, x = whole_block(), torch.randn(80, 8)
    options = {"norm": {"norm": "layer"}, "residual": {"residual": True}}.get(kind, {})
    layers, seen = GCN(8, 8, 3, num_layers=2, **options), []
    conv = layers.convs[0]

    def shifted(self, *args):
        seen.append(1)
        return GCNConv.forward(self, *args) + 1

    if kind == "hook":
        conv.register_forward_hook(lambda _, __, out: seen.append(1) or out + 1)
    elif kind == "own forward":
        given = conv.forward
        conv.forward = lambda *args: seen.append(1) or given(*args) + 1
    elif kind == "subclass":
        conv.__class__ = type("Shifted", (GCNConv,), {"forward": shifted})
    elif kind == "forward of the norm":
        layers.norms[0].forward = lambda x: seen.append(1) or x * 2
    elif kind == "hook of the norm":
        layers.norms[0].register_forward_hook(lambda _, __, out: seen.append(1) or out + 1)
    for bias in (each for name, each in layers.named_parameters() if name.endswith("bias")):
        nn.init.normal_(bias)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LayeredModel, "_finishes_next", lambda *_: False)
        wanted = layers({1: block, 2: block}, x)
    number = len(seen)
    assert torch.equal(layers({1: block, 2: block}, x), wanted)
    assert len(seen) == 2 * number
    assert number == (kind not in ("norm", "residual"))


def test_hooks_of_all_modules_see_every_layer():
    block, x, seen = whole_block(), torch.randn(80, 8), []
    layers = GCN(8, 8, 3, num_layers=2)
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        layers({1: block, 2: block}, x)
    finally:
        handle.remove()
    assert set(layers.convs) <= set(seen)
