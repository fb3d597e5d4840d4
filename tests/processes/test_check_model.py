"""--check-model: it finds what no list of names holds."""

from __future__ import annotations

import pytest
import torch
from support.graphs import lay_out, random_graph
from support.models import PYG
from torch import nn
from torch.nn.functional import dropout

import gsplit
from gsplit.errors import InputError
from gsplit.nn import SAGE
from gsplit.train.config import TrainConfig


class Dropped(SAGE):
    """Dropout called as a function, which the check must switch off."""

    def forward_layer(self, layer, block, x):
        return super().forward_layer(layer, block, dropout(nn.functional.alpha_dropout(x, 0.5, True), 0.5))


class Centred(SAGE):
    """Looks at all rows at hand."""

    def forward_layer(self, layer, block, x):
        x = super().forward_layer(layer, block, x)
        return x - x.mean(dim=0)


class Noisy(SAGE):
    """Depends on chance."""

    def forward_layer(self, layer, block, x):
        return super().forward_layer(layer, block, x + torch.randn_like(x))


class NotANumber(SAGE):
    """Its last parameter alone has a wrong gradient, and that is not a number, where the mini-batch is split."""

    def __init__(self, *widths, **options):
        super().__init__(*widths, **options)
        self.last = nn.Parameter(torch.ones(3))

    def forward(self, blocks, x):
        last = self.last.clone()
        if blocks[1].route is not None:
            last.register_hook(lambda gradient: gradient * torch.nan)
        return super().forward(blocks, x) + last


class Forgetful(SAGE):
    """No exchange: sees only its own part."""

    def forward(self, blocks, x):
        from dataclasses import replace

        alone = {layer: replace(block, route=None) for layer, block in blocks.items()}
        return super().forward(
            {layer: replace(block, indices=block.indices % block.num_own_sources) for layer, block in alone.items()},
            x,
        )


@pytest.fixture(scope="module")
def graph():
    return random_graph(150, 6, seed=9)


def check(graph, folder, model, parts=3):
    layout = lay_out(graph, folder, parts=parts)
    config = TrainConfig(fan_out=(4, 4), batch_size=40, check_model=True, device="cpu")
    return gsplit.train(layout.path, config, model=model)["check"]


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("make", [Dropped, None], ids=["Dropped", "pyg-batch-norm"])
def test_says_that_a_model_can_be_split(graph, tmp_path, make, parts):
    model = make(5, 8, 3, num_layers=2, dropout=0.5) if make else PYG["pyg-batch-norm"]()(5, 3, 2)
    said = check(graph, tmp_path, model, parts)
    assert said.startswith(
        f"{type(model).__name__} can be split: the gradients of two trainers and of one differ by "
    )
    assert {path.name for path in tmp_path.iterdir()} == {"store", f"metis-{parts}-0"}  # nothing else is left


@pytest.mark.parametrize("cls", [Centred, Noisy, Forgetful, NotANumber])
def test_says_that_a_model_cannot_be_split(graph, tmp_path, cls):
    with pytest.raises(InputError, match=f"the model {cls.__name__} cannot be split: the gradient of .* differs by"):
        check(graph, tmp_path, cls(5, 8, 3, num_layers=2))
