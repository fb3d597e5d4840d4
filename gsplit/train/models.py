"""The models that ``--model`` names, and how they are described in a run."""

from __future__ import annotations

from typing import Any

from torch import nn

from gsplit.data import GraphArrays
from gsplit.nn import SAGE
from gsplit.train.config import TrainConfig

CUSTOM = "custom"
"""The name of a model that was handed over as an object."""


def signature(config: TrainConfig, graph: GraphArrays, model: nn.Module | None) -> dict[str, Any]:
    """What must agree for weights to fit: name, widths and depth; for a custom model its parameters' shapes."""
    if model is not None:
        shapes = {name: list(parameter.shape) for name, parameter in model.state_dict().items()}
        return {"model": CUSTOM, "class": type(model).__qualname__, "shapes": shapes, "dtype": config.dtype}
    return {
        "model": config.model,
        "in_features": graph.num_features,
        "hidden": config.hidden,
        "out_features": graph.num_classes,
        "num_layers": config.layers,
        "dtype": config.dtype,
    }


def build(described: dict[str, Any], *, dropout: float = 0.0, input_dropout: float = 0.0) -> nn.Module:
    """The model of a signature, freshly initialised from torch's generator, in float32."""
    assert described["model"] == "sage"
    return SAGE(
        described["in_features"],
        described["hidden"],
        described["out_features"],
        num_layers=described["num_layers"],
        dropout=dropout,
        input_dropout=input_dropout,
    )
