"""Which operators have a CUDA kernel: PyTorch's headers tell, one for each operator and kind of kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

HEADERS = Path(torch.__file__).parent / "include" / "ATen" / "ops"
KINDS = ("cuda", "compositeexplicitautograd", "compositeexplicitautogradnonfunctional", "compositeimplicitautograd")
"""Kernels that a call on a GPU may reach: CUDA's own, or one that is made of other operators."""


def without_kernel(names: Iterable[str], headers: Path = HEADERS) -> list[str]:
    """Those operators that no kernel runs on a GPU.

    Args:
        names: with their overloads, such as ``aten::add_.Tensor``; of other libraries than ATen none is looked up.
            What works in place shares a header with what does not.
        headers: PyTorch's headers of operators.
    """
    bare = {name.removeprefix("aten::").partition(".")[0] for name in names if name.startswith("aten::")}
    return sorted(name for name in bare if not _has_kernel(name.rstrip("_"), headers))


def _has_kernel(name: str, headers: Path) -> bool:
    return any((headers / f"{name}_{kind}_dispatch.h").is_file() for kind in KINDS)
