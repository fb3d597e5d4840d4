"""How wide the vectors of each level of a model are."""

from __future__ import annotations

from torch import nn


def widths_of(model: nn.Module, num_features: int, layers: int) -> list[int]:
    """[L + 1] of a model; of one that does not say, as wide as the widest of its weights everywhere."""
    widths = getattr(model, "level_widths", None)
    if widths is not None:
        return [int(width) for width in widths]
    widest = max((max(p.shape) for p in model.parameters() if p.dim() > 1), default=num_features)
    return [num_features, *[int(widest)] * layers]
