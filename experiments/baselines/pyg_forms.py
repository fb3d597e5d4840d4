"""The forms of PyG's training step, by what is installed beside it. Imports no torch."""

from __future__ import annotations

from importlib.util import find_spec

GIVEN, LOADER, TRIMMED = "given blocks", "NeighborLoader", "NeighborLoader, trimmed"
DRAWN = "blocks drawn in the epoch"
"""As given ones, by the same sampler, but the time to draw them is part of the epoch."""


def forms() -> tuple[str, ...]:
    """The forms that work; PyG's loader samples by pyg-lib or, more slowly, by torch-sparse."""
    if find_spec("pyg_lib"):
        return (LOADER, TRIMMED)
    if find_spec("torch_sparse"):
        return (LOADER,)
    return (GIVEN,)
