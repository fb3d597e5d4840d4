"""What stands between the convolutions, beside the same written out."""

from __future__ import annotations

import pytest
import torch
from support.blocks import sampled_block
from support.graphs import random_graph

from gsplit.nn import GCN


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
