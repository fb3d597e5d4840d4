"""Models one layer at a time: which can be computed so, and how wide their levels are.

Our models, and those of users with ``forward_layer`` and ``level_widths``, say it themselves. Models of PyG's and
DGL's convolutions are called with the rows of one level at a time (:meth:`gsplit.nn.adapters.Adapter.forward_one`);
whether that gives what they are is tried out on a few vertices, for in some of them rows reach behind a layer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from gsplit.engine.inputs import SplitLoader
from gsplit.nn import Block
from gsplit.nn.adapters import Adapter
from gsplit.sampling import sampler_of

logger = logging.getLogger(__name__)

TRIED_VERTICES = 16
TRIED_FAN_OUT = 4
TOLERANCE = 1e-3
"""Difference that may be rounding, as a share of the largest number; of rows that reach behind a layer it is more."""


@dataclass(frozen=True, kw_only=True)
class SingleLayers:
    """The layers of a model, one at a time."""

    widths: Sequence[int]
    """[L + 1] widths of the levels; that of level 0 are the features."""
    compute: Callable[[int, Block, Tensor], Tensor]
    """Gives level ``l`` [num_destinations, width] from (l, block of layer l, the sources' rows of level l - 1)."""


def single_layers_of(
    model: nn.Module, loader: SplitLoader, num_layers: int, *, warns: bool = True
) -> SingleLayers | None:
    """The layers of a model; None where only all of them together give its logits.

    Args:
        model: in evaluation mode.
        loader: of what belongs to segments; a few vertices of its layout are tried.
        num_layers: L.
        warns: whether to say so where a model of PyG or DGL has to be computed as a whole.
    """
    if hasattr(model, "forward_layer"):
        return SingleLayers(
            widths=cast("Sequence[int]", model.level_widths), compute=cast("Any", model.forward_layer)
        )
    if not isinstance(model, Adapter):
        return None
    widths, why = _tried(model, loader, num_layers)
    if widths is None:
        if warns:
            logger.warning(
                "%s is evaluated with the whole neighbourhoods of its targets, which takes longer than layer by "
                "layer: %s",
                type(model.module).__name__,
                why,
            )
        return None

    def compute(layer: int, block: Block, x: Tensor) -> Tensor:
        return model.forward_one(layer, num_layers, block, x, widths[0])

    return SingleLayers(widths=widths, compute=compute)


@torch.no_grad()
def _tried(model: Adapter, loader: SplitLoader, num_layers: int) -> tuple[list[int] | None, str]:
    """The widths of a model's levels if it can be computed layer by layer; else None, and why not."""
    layout = loader.layout
    sampler = sampler_of(layout, fan_outs=[TRIED_FAN_OUT] * num_layers, seed=0, edge_ids=loader.edges.weights)
    n = layout.graph.num_vertices
    sampler.sample(np.unique(np.linspace(0, n - 1, TRIED_VERTICES).astype(np.int64)), epoch=0, batch=0)
    segment = sampler.segment(0)
    blocks, x = loader.whole_blocks(segment), loader.features.load(segment.vertices)
    x = x.to(next((parameter.dtype for parameter in model.parameters()), x.dtype))  # no autocast, which would round
    whole = model(blocks, x)
    widths = [x.shape[1]]
    for layer in range(1, num_layers + 1):
        block = blocks[layer]
        try:
            x = model.forward_one(layer, num_layers, block, x, widths[0])
        except Exception as error:  # whatever a model makes of rows that do not belong together
            return None, f"layer {layer} alone fails ({type(error).__name__}: {str(error).splitlines()[0]})"
        if x.ndim != 2 or len(x) != block.num_destinations:
            return None, f"layer {layer} alone gives {tuple(x.shape)} for {block.num_destinations} destinations"
        widths.append(x.shape[1])
    scale = float(whole.abs().max()) if whole.numel() else 0.0
    close = x.shape == whole.shape and torch.allclose(x, whole, rtol=0, atol=TOLERANCE * scale, equal_nan=True)
    return (widths, "") if close else (None, "its layers one by one give other logits than its forward")
