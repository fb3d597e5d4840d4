"""The models that ``--model`` names, and how they are described in a run."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from gsplit.data import GraphArrays
from gsplit.errors import InputError
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


def check_custom(model: nn.Module, layers: int, world: int) -> None:
    """What can be told of a model before it runs.

    Raises:
        InputError: for a model without parameters, of another depth than the fan-outs, with ``forward_layer`` but
            no ``level_widths``, or with layers that need statistics over the whole mini-batch.
    """
    name = type(model).__name__
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"the model {name} has no parameter to train")
    depth = getattr(model, "num_layers", layers)
    if depth != layers:
        raise InputError(f"the model {name} has {depth} layers, but --fan-out has {layers} numbers")
    if hasattr(model, "forward_layer") and len(getattr(model, "level_widths", ())) != layers + 1:
        raise InputError(f"the model {name} has forward_layer, so it needs level_widths: {layers + 1} widths")
    for path, layer in model.named_modules():
        if world > 1 and isinstance(layer, (_BatchNorm, _InstanceNorm)):
            raise InputError(
                f"the model's {path} is a {type(layer).__name__}: each trainer would normalise by its own rows; "
                "use LayerNorm, or train with one part"
            )


def pickled(model: nn.Module) -> bytes:
    """The model in bytes, for the trainers.

    Raises:
        InputError: where its class cannot be found by name in another process.
    """
    try:
        return pickle.dumps(copy.deepcopy(model).cpu())
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"the model {type(model).__name__} cannot be sent to the trainers ({error}); define its class at the top "
            "of a module that can be imported"
        ) from None


def build(described: dict[str, Any], *, dropout: float = 0.0, input_dropout: float = 0.0) -> nn.Module:
    """The model of a signature, freshly initialised from torch's generator, in float32."""
    try:
        if described["model"] != "sage":
            raise InputError(f"unknown model {described['model']!r}; this release knows sage")
        return SAGE(
            described["in_features"],
            described["hidden"],
            described["out_features"],
            num_layers=described["num_layers"],
            dropout=dropout,
            input_dropout=input_dropout,
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"the signature of the model is damaged: {error}") from None
