"""Stand-ins: what a model's forward gets in place of the graph, only to hand it on to its convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gsplit.errors import InputError

HARMLESS = ("device", "dtype", "layout", "ndim", "requires_grad")
"""Attributes of a stand-in that libraries look at on the way, as at is_...; they say nothing of the graph."""


class StandIn(Tensor):
    """An empty tensor that refuses to be computed with, as a wrong result would come of it, and no error."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        attribute = getattr(getattr(func, "__self__", None), "__name__", None)
        if attribute is not None and (attribute in HARMLESS or attribute.startswith("is_")):
            return super().__torch_function__(func, types, args, kwargs or {})
        name = attribute or getattr(func, "__name__", str(func))
        raise InputError(
            f"forward computes with the graph or its edge weights itself ({name}); it may only hand them on to its "
            "convolutions, unchanged"
        )


def stand_in(like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A stand-in on the device of ``like``, and in its dtype where none is given."""
    return torch.empty((2, 0), dtype=dtype or like.dtype, device=like.device).as_subclass(StandIn)
