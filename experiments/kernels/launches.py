"""Launches of kernels, and what they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override


class Launch(NamedTuple):
    """A kernel: the bytes that it moves, and whether these are whole rows."""

    num_bytes: int
    large: bool


@dataclass
class Count:
    """What was launched forward and backward, and what was kept in between."""

    forward: list[Launch]
    backward: list[Launch]
    kept_bytes: int

    def row(self, whole_bytes: int) -> dict[str, Any]:
        """Numbers of a row of results, over the bytes of the rows."""
        both = [*self.forward, *self.backward]
        return {
            "kernels": len(both),
            "large": sum(launch.large for launch in both),
            "forward_moved": round(sum(launch.num_bytes for launch in self.forward) / whole_bytes, 2),
            "backward_moved": round(sum(launch.num_bytes for launch in self.backward) / whole_bytes, 2),
            "kept": round(self.kept_bytes / whole_bytes, 2),
        }


def launch_of(tensors: list[Tensor], whole: int) -> Launch:
    """A launch that reads or writes each of some tensors once; ``whole`` is the number of values of all rows."""
    return Launch(sum(each.nbytes for each in tensors), any(each.numel() >= whole for each in tensors))


class Operations(TorchDispatchMode):
    """Operations that compute something, a kernel each: no views, and no memory that is only taken.

    Rows without numbers, on PyTorch's device ``meta``, stand for those of a GPU.
    """

    def __init__(self, found: list[Launch], whole: int) -> None:
        super().__init__()
        self.found, self.whole = found, whole

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        returns = [each.alias_info for each in func._schema.returns]
        views = bool(returns) and all(each is not None and not each.is_write for each in returns)
        tensors = {id(each): each for each in tree_leaves((args, out)) if isinstance(each, Tensor)}
        on_device = any(each.is_meta for each in tensors.values())
        if on_device and not (views or "empty" in func.__name__ or "detach" in func.__name__):
            self.found.append(launch_of(list(tensors.values()), self.whole))
        return out
