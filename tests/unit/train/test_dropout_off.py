"""The check of models switches off every form of dropout, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from gsplit.engine.evaluation.dropout_off import DropoutOff

ROWS = torch.arange(1.0, 49.0)
CALLS = {
    "Dropout": lambda x: nn.Dropout(0.5)(x),
    "AlphaDropout": lambda x: nn.AlphaDropout(0.5)(x),
    "FeatureAlphaDropout": lambda x: nn.FeatureAlphaDropout(0.5)(x.view(2, 3, 8)),
    "Dropout1d": lambda x: nn.Dropout1d(0.5)(x.view(2, 3, 8)),
    "Dropout2d": lambda x: nn.Dropout2d(0.5)(x.view(2, 3, 2, 4)),
    "Dropout3d": lambda x: nn.Dropout3d(0.5)(x.view(2, 3, 2, 2, 2)),
    "dropout": lambda x: functional.dropout(x, 0.5),
    "dropout in place": lambda x: functional.dropout(x.clone(), 0.5, inplace=True),
    "dropout by names": lambda x: functional.dropout(input=x, p=0.5, training=True),
    "alpha_dropout": lambda x: functional.alpha_dropout(x, 0.5, training=True),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, train=True),
    "torch.dropout_": lambda x: torch.dropout_(x.clone(), 0.5, train=True),
}


@pytest.mark.parametrize("name", CALLS)
def test_dropout_keeps_everything(name):
    with DropoutOff():
        kept = CALLS[name](ROWS)
    assert torch.equal(kept.flatten(), ROWS)
    torch.manual_seed(0)
    assert not torch.equal(CALLS[name](ROWS).flatten(), ROWS), "afterwards it drops again"


@pytest.mark.parametrize("weights", [True, False])
def test_attention_drops_nothing(weights):
    attention = nn.MultiheadAttention(8, 2, dropout=0.5)
    x = torch.randn(5, 3, 8)
    with DropoutOff():
        kept, _ = attention(x, x, x, need_weights=weights)
    assert torch.allclose(kept, attention.eval()(x, x, x, need_weights=weights)[0])
    scaled = functional.scaled_dot_product_attention
    for arguments, named in [((x, x, x, None, 0.5), {}), ((x, x, x), {"dropout_p": 0.5})]:
        with DropoutOff():
            assert torch.allclose(scaled(*arguments, **named), scaled(x, x, x))


def test_all_else_trains():
    norm = nn.BatchNorm1d(8)
    with DropoutOff():
        out = norm(ROWS.view(6, 8))
    assert torch.allclose(out.mean(0), torch.zeros(8), atol=1e-6)  # by the rows at hand, as in training
    assert norm.num_batches_tracked == 1
