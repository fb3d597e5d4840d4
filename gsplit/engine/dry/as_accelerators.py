"""The CPU as an accelerator in what it keeps: copies from the host, and masks of dropout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class AsAccelerators(TorchFunctionMode):
    """PyTorch's functions keep on the CPU, while the block runs, what they would keep on an accelerator.

    Dropout keeps a byte of each value for backward, not a number. What is loaded is a copy: loaders say so by
    ``non_blocking``, and on the CPU would hand on what lies there.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function, or what stands in its place."""
        kwargs = kwargs or {}
        if func is torch.nn.functional.dropout:
            x, share, training, inplace = _dropout(*args, **kwargs)
            if training and 0 < share < 1 and not inplace:
                return torch.native_dropout(x, share, True)[0]
        out = func(*args, **kwargs)
        if func is Tensor.to and kwargs.get("non_blocking") and out is args[0]:
            return out.clone()
        return out


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """The arguments of ``torch.nn.functional.dropout``, by their places."""
    return input, p, training, inplace
