"""Blocks without edges get a destination more, with an edge from itself, which is dropped behind the convolution.

One trainer of several often has no edge in a layer, or no destination, and so has a level that is computed without
rows. Some convolutions of the libraries fail there: DGL's SAGEConv with gcn, the residuals of its GATConv, PyG's
FeaStConv.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gsplit.nn.block import Block


class Spare:
    """Says when a convolution computes a destination more than its block has, and drops it.

    Args:
        convolutions: of a model, each of which gets a forward hook.
    """

    def __init__(self, convolutions: Sequence[nn.Module]) -> None:
        self._convolution: nn.Module | None = None
        for convolution in convolutions:
            convolution.register_forward_hook(self._drop)

    def none(self) -> None:
        """The convolution that comes next computes what its block has."""
        self._convolution = None

    def is_added(self, convolution: nn.Module, block: Block) -> bool:
        """Return whether the convolution computes one more; not one with statistics, in which it would count."""
        if block.num_edges or any(isinstance(module, _BatchNorm) for module in convolution.modules()):
            return False
        self._convolution = convolution
        return True

    def _drop(self, convolution: nn.Module, _: Any, out: Any) -> Any:
        if self._convolution is not convolution:
            return None
        self._convolution = None
        return out[:-1] if isinstance(out, Tensor) else type(out)((out[0][:-1], *out[1:]))


def with_spare(x: Any, own: int) -> Any:
    """Rows of sources, or a pair of them and the destinations', with a row of zeros behind the ``own`` first ones."""
    if isinstance(x, (tuple, list)):
        return tuple(None if rows is None else with_spare(rows, own) for rows in x)
    return torch.cat([x[:own], x.new_zeros(1, *x.shape[1:]), x[own:]])


def with_spare_edge(value: Any) -> Any:
    """Weights or attributes of no edges with those of one; anything else as it is."""
    if isinstance(value, Tensor) and value.ndim and not len(value):
        return value.new_ones(1, *value.shape[1:])
    return value
