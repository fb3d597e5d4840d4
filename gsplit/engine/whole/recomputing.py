"""Layers that are computed again in backward, so that between forward and backward their inputs alone are kept.

    forward     layer 1 | 2 | .. | L                            of all but L the input is kept
    backward    L | L-1 again, and backward | .. | 1 again, and backward

What came of other trainers is fetched again, so forward moves of all layers but the last are made twice. Backward
begins with the last layer: it would be computed again at once. What is dropped is what was dropped before, so results
have the same bits. Elsewhere this is activation checkpointing (Chen et al., 2016), for graphs SAR's (MLSys 2023).
PyTorch's own (``torch.utils.checkpoint``) imports its compiler, which takes more memory than is saved.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from typing_extensions import override

from gsplit.device import accelerator
from gsplit.engine.minibatch import MiniBatch
from gsplit.host import give_freed_memory_back
from gsplit.nn.layered import LayeredModel
from gsplit.nn.neighbourhood import Neighbourhood
from gsplit.nn.norm import BatchNorm
from gsplit.nn.rowwise.products import Keeps


@dataclass(frozen=True, kw_only=True)
class RecomputedMiniBatch(MiniBatch):
    """A mini-batch whose layers are computed again in backward."""

    @override
    def logits(self, model: nn.Module) -> Tensor:
        assert isinstance(model, LayeredModel)
        assert isinstance(self.x, Tensor)
        return recomputed(model, cast("Mapping[int, Neighbourhood]", self.blocks), self.x)


def recomputed(model: LayeredModel, blocks: Mapping[int, Neighbourhood], x: Tensor) -> Tensor:
    """Logits of the targets [n_L, out] as ``model(blocks, x)`` gives them; all trainers make the call.

    Args:
        model: which nobody has put hooks on.
        blocks: of the layers, 1 .. L, with a communicator.
        x: [n_0, in] features.
    """
    for number in range(1, model.num_layers + 1):
        comm = blocks[number].comm
        assert comm is not None
        comm.overlaps = False
        layer = _Layer(model, number, blocks[number], x)
        last = number == model.num_layers or not torch.is_grad_enabled()
        with _given_once() if last else saved_tensors_hooks(layer.leave_out, layer.give):
            x = layer.forward(x, Keeps.RESULT if last else Keeps.SIGNS)
    return x


class _Layer:
    """One layer of a mini-batch: what its operations would save for backward, they are given when they ask for it."""

    def __init__(self, model: LayeredModel, number: int, block: Neighbourhood, x: Tensor) -> None:
        assert block.comm is not None
        self._model, self._number, self._block, self._comm = model, number, block, block.comm
        self._x: Tensor | None = x
        self._random, self._types = accelerator.random_states(x.device), _types(x.device)
        self._left_out = 0
        self._saved: dict[int, Tensor] = {}

    def forward(self, x: Tensor, keeps: Keeps) -> Tensor:
        """Rows of the level; at first batch normalisation, over all trainers' rows, remembers statistics."""
        norms = [module for module in self._model.modules() if isinstance(module, BatchNorm)]
        for norm in norms:
            norm.comm, norm.remembers = self._comm, keeps is not Keeps.NOTHING
        try:
            return self._model.forward_layer(self._number, self._block, x, keeps)
        finally:
            for norm in norms:
                norm.comm, norm.remembers = None, True

    def leave_out(self, _: Tensor) -> int:
        """Save the number of a tensor, which comes to the same when the layer is computed again."""
        self._left_out += 1
        return self._left_out - 1

    def give(self, number: int) -> Tensor:
        """The tensor of a number, once, so that it goes early; at the first one the layer is computed again."""
        if self._x is not None:
            x, self._x = self._x, None
            self._again(x)
        return self._saved.pop(number)

    def _again(self, x: Tensor) -> None:
        """Compute the layer again, chained by a token of its own: that of the mini-batch is in another graph."""
        comm, saved = self._comm, self._saved
        if x.device.type == accelerator.HOST:
            give_freed_memory_back()

        def save(tensor: Tensor) -> int:
            saved[len(saved)] = tensor.detach()
            return len(saved) - 1

        before, comm.token = comm.token, torch.zeros_like(comm.token, requires_grad=True)
        try:
            with (
                _as_before(x.device, self._random),
                torch.autocast(x.device.type, **self._types),
                torch.enable_grad(),
                saved_tensors_hooks(save, saved.__getitem__),
            ):
                self.forward(x.detach().requires_grad_(x.requires_grad), Keeps.NOTHING)
        finally:
            comm.token = before


def _given_once() -> saved_tensors_hooks:
    """What operations save for backward is given to them once, so that it goes early; no layer is held by it."""
    numbers, saved = itertools.count(), dict[int, Tensor]()

    def keep(tensor: Tensor) -> int:
        saved[number := next(numbers)] = tensor.detach()
        return number

    return saved_tensors_hooks(keep, saved.pop)


def _types(device: torch.device) -> dict[str, Any]:
    """What autocast does on a device now."""
    return {"enabled": torch.is_autocast_enabled(device.type), "dtype": torch.get_autocast_dtype(device.type)}


@contextmanager
def _as_before(device: torch.device, states: list[Tensor]) -> Iterator[None]:
    """Draw random numbers from where they stood, and then go on from where they stand."""
    now = accelerator.random_states(device)
    accelerator.set_random_states(device, states)
    try:
        yield
    finally:
        accelerator.set_random_states(device, now)
