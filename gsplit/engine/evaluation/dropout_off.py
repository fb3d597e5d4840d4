"""Dropout that keeps everything: modules and functions alike, those of users' models and of libraries included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_NAMES = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
DROPOUTS: frozenset[Callable[..., Any]] = frozenset(
    getattr(torch, name + place) for name in _NAMES for place in ("", "_")
) | {
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
}
"""All forms of dropout that PyTorch has as functions; its modules call these."""
DROPOUT_P = 4
"""Position of ``dropout_p`` among the arguments of scaled_dot_product_attention."""


class DropoutOff(TorchFunctionMode):
    """A context in which every dropout of PyTorch, in whatever mode the model is, returns its input.

    PyTorch hands each of its functions to a mode before it computes (torch.overrides). The dropout inside attention
    is a number that goes with the call, so that is 0 here. Code that TorchScript has compiled is not seen.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is functional.multi_head_attention_forward:
            kwargs = {**kwargs, "training": False}
        elif func is functional.scaled_dot_product_attention:
            if len(args) > DROPOUT_P:
                args = (*args[:DROPOUT_P], 0.0, *args[DROPOUT_P + 1 :])
            else:
                kwargs = {**kwargs, "dropout_p": 0.0}
        return func(*args, **kwargs)
