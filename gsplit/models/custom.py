"""Models of the user's: named as package.module:Class, or handed over as an object."""

from __future__ import annotations

import copy
import inspect
import io
import json
import pickle
from types import FunctionType
from typing import Any

import numpy as np
from torch import nn
from torch.nn.parameter import UninitializedParameter

from gsplit.config.model import ModelConfig
from gsplit.data import GraphArrays
from gsplit.errors import InputError
from gsplit.models.arguments import DROPOUT, class_named, constructor_arguments, parse_arguments
from gsplit.nn.adapters import Adapter, wrap
from gsplit.nn.norm import convert_batch_norms, follow_chain
from gsplit.processes import finds_main

CUSTOM = "custom"
"""The name of a model that was handed over as an object."""


def signature(model: nn.Module) -> dict[str, Any]:
    """Signature of a model handed over as an object."""
    return {"model": CUSTOM, "class": type(model).__qualname__, "shapes": _shapes(model)}


def signature_of_class(config: ModelConfig, graph: GraphArrays) -> dict[str, Any]:
    """Signature of a model named as package.module:Class, with the arguments to build it again."""
    known = {
        "in_features": graph.num_features,
        "hidden": config.hidden,
        "out_features": graph.num_classes,
        "num_layers": config.num_layers,
    }
    arguments = constructor_arguments(class_named(config.model), known, parse_arguments(config.model_args))
    try:
        arguments = json.loads(json.dumps(arguments))  # as the description of the run will hold them
    except TypeError as error:
        raise InputError(f"--model-args {config.model_args!r}: {error}") from None
    shapes = _shapes(build(config.model, arguments))
    return {"model": config.model, "arguments": arguments, "shapes": shapes}


def build(path: str, arguments: dict[str, Any], dropout: float = 0.0) -> nn.Module:
    """Construct package.module:Class; ``dropout`` is for a class that takes it and was not given another."""
    cls = class_named(path)
    if DROPOUT in inspect.signature(cls).parameters:
        arguments = {DROPOUT: dropout, **arguments}
    try:
        return cls(**arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"{cls.__name__}({shown(arguments)}) fails: {error}") from None


def shown(arguments: dict[str, Any]) -> str:
    """Arguments as they stand in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def prepare(model: nn.Module) -> nn.Module:
    """Make any model run on blocks: PyG's and DGL's convolutions get the exchange, batch normalisation all trainers.

    Raises:
        InputError: for what cannot be split, by name.
    """
    model = wrap(model)
    convert_batch_norms(model)
    follow_chain(model)
    return model


def check(model: nn.Module, layers: int, graph: GraphArrays) -> None:
    """What can be told of a model before it runs.

    Raises:
        InputError: for a model without parameters, of another depth than the fan-outs, with ``forward_layer`` but
            no ``level_widths``, with layers that cannot be split, or that refuse vertices without in-edges where the
            graph has some.
    """
    name = type(model).__name__
    if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        raise InputError(f"the model {name} has lazy layers, whose widths nobody knows yet; give them their widths")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"the model {name} has no parameter to train")
    prepared = prepare(copied(model))
    depth = layers if isinstance(prepared, Adapter) else getattr(model, "num_layers", layers)
    if depth != layers:
        raise InputError(f"the model {name} has {depth} layers, but --fan-out has {layers} numbers")
    if hasattr(model, "forward_layer") and len(getattr(model, "level_widths", ())) != layers + 1:
        raise InputError(f"the model {name} has forward_layer, so it needs level_widths: {layers + 1} widths")
    if not isinstance(prepared, Adapter) and "blocks" not in inspect.signature(model.forward).parameters:
        raise InputError(
            f"the model {name} has no convolution of PyG or DGL and no forward(blocks, x), so it cannot see the graph"
        )
    lonely = int((np.diff(graph.indptr) == 0).sum())
    for path, layer in model.named_modules():
        if lonely and getattr(layer, "_allow_zero_in_degree", True) is False:  # DGL's flag
            raise InputError(
                f"the model's {path} is a {type(layer).__name__} that refuses vertices without in-edges, and the "
                f"graph has {lonely:,}; construct it with allow_zero_in_degree=True, or import the graph with "
                "--self-loops add"
            )


def copied(model: nn.Module) -> nn.Module:
    """The model as trainers will have it; raises what :func:`pickled` does."""
    copy_: nn.Module = pickle.loads(pickled(model))
    return copy_


def pickled(model: nn.Module) -> bytes:
    """The model in bytes, for the trainers.

    Raises:
        InputError: where its class, or what it holds, cannot be found by name in another process.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(copy.deepcopy(model).cpu())
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        raise InputError(
            f"the model {type(model).__name__} cannot be sent to the trainers ({error}); define its class at the top "
            "of a module that can be imported"
        ) from None
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Classes and functions travel by name; those of a prompt or a notebook no trainer finds."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | FunctionType) and value.__module__ == "__main__" and not finds_main():
            raise pickle.PicklingError(
                f"trainers find nothing that is defined in a notebook or at a prompt, as {value.__qualname__} is"
            )
        return NotImplemented


def _shapes(model: nn.Module) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
