"""The precision of a run: in which types a model keeps its parameters, computes, and is given feature rows.

| name | parameters, optimizer, losses | products, hidden rows | feature rows |
|---|---|---|---|
| ``32`` | float32 | float32 | float32 |
| ``64`` | float64 | float64 | float64 |
| ``bf16-mixed`` | float32 | bfloat16 | bfloat16 |
| ``16-mixed`` | float32 | float16, with a loss scale | float32 |

The mixed ones are PyTorch's autocast around the calls of the model: it says which operations are in which type.
Losses and backward are outside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

DEFAULT: Final = "32"
BFLOAT16: Final = "bf16-mixed"


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The types that a run computes in."""

    dtype: torch.dtype
    """Type of parameters, of the optimizer's state, of losses, and of weights of edges."""
    autocast: torch.dtype | None = None
    """Type in which autocast lets the model compute; None: there is none."""

    @classmethod
    def named(cls, name: str | None) -> Precision:
        """The precision of a name of ``--precision``; of None ``32``, of runs of earlier releases, too."""
        return PRECISIONS[name or DEFAULT]

    @property
    def rows(self) -> torch.dtype:
        """Type of the feature rows that a model is given: bfloat16 has the range of float32, float16 has not."""
        return torch.bfloat16 if self.autocast == torch.bfloat16 else self.dtype

    @property
    def products(self) -> torch.dtype:
        """Type of products, and of the hidden rows that are made of them."""
        return self.autocast or self.dtype

    @property
    def scales_loss(self) -> bool:
        """True where gradients are too small for the type, and the loss is scaled before backward."""
        return self.autocast == torch.float16

    def calling(self, device: torch.device) -> AbstractContextManager[Any]:
        """Let a model that is called in the block compute in this precision."""
        if self.autocast is None or device.type == "meta":  # which has no autocast: rows have their type there
            return nullcontext()
        return torch.autocast(device.type, dtype=self.autocast)

    def called(self, device: torch.device, function: Callable[..., Tensor], *arguments: Any) -> Tensor:
        """What a model, or a part of one, gives in this precision; out of autocast in the type of the parameters."""
        with self.calling(device):
            out = function(*arguments)
        return out if self.autocast is None else out.to(self.dtype)


PRECISIONS = {
    DEFAULT: Precision(dtype=torch.float32),
    "64": Precision(dtype=torch.float64),
    BFLOAT16: Precision(dtype=torch.float32, autocast=torch.bfloat16),
    "16-mixed": Precision(dtype=torch.float32, autocast=torch.float16),
}
"""Precisions by the names that a configuration holds."""
