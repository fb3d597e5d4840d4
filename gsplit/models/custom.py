"""Models of the user's: named as package.module:Class, or handed over as an object."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import io
import json
import pickle
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from torch import nn
from torch.nn.parameter import UninitializedParameter

from gsplit.config.train import TrainConfig
from gsplit.data import GraphArrays
from gsplit.errors import InputError
from gsplit.nn.adapters import Adapter, wrap
from gsplit.nn.norm import convert_batch_norms, follow_chain
from gsplit.processes import finds_main

CUSTOM = "custom"
"""The name of a model that was handed over as an object."""
ARGUMENT_NAMES = {
    "in_features": (
        "in_features",
        "in_channels",
        "in_feats",
        "in_size",
        "in_dim",
        "input_dim",
        "num_features",
        "nfeat",
    ),
    "hidden": (
        "hidden",
        "hidden_channels",
        "hidden_features",
        "hidden_size",
        "hid_size",
        "hidden_dim",
        "hid_feats",
        "h_feats",
        "n_hidden",
        "num_hidden",
        "nhid",
    ),
    "out_features": (
        "out_features",
        "out_channels",
        "out_feats",
        "out_size",
        "out_dim",
        "output_dim",
        "num_classes",
        "n_classes",
        "nclass",
    ),
    "num_layers": ("num_layers", "n_layers"),
}
"""What PyG's and DGL's models and examples call the arguments of their constructors."""
DROPOUT = "dropout"
"""What all of them call that one."""


def signature(model: nn.Module) -> dict[str, Any]:
    """Of a model handed over as an object."""
    return {"model": CUSTOM, "class": type(model).__qualname__, "shapes": _shapes(model)}


def signature_of_class(config: TrainConfig, graph: GraphArrays) -> dict[str, Any]:
    """Of a model named as package.module:Class, with the arguments to build it again."""
    known = {
        "in_features": graph.num_features,
        "hidden": config.hidden,
        "out_features": graph.num_classes,
        "num_layers": config.layers,
    }
    arguments = constructor_arguments(class_named(config.model), known, parse_arguments(config.model_args))
    try:
        arguments = json.loads(json.dumps(arguments))  # as the description of the run will hold them
    except TypeError as error:
        raise InputError(f"--model-args {config.model_args!r}: {error}") from None
    shapes = _shapes(build(config.model, arguments))
    return {"model": config.model, "arguments": arguments, "shapes": shapes}


def class_named(path: str) -> type[nn.Module]:
    """The class that package.module:Class names; looked for in the working directory too.

    Raises:
        InputError: where there is none, or it is no torch.nn.Module.
    """
    module_name, _, class_name = path.partition(":")
    if module_name.endswith(".py"):
        raise InputError(f"--model {path}: a module is named without .py: --model {module_name[:-3]}:{class_name}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(f"--model {path}: there is no module {error.name!r} to import") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"--model {path} is no package.module:Class: {error}") from None
    for name in class_name.split("."):
        found = getattr(found, name, None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise InputError(f"--model {path}: {module_name} has no class {class_name!r} that is a torch.nn.Module")
    return found


def parse_arguments(text: str) -> dict[str, Any]:
    """``heads=4,jk=last`` -> {"heads": 4, "jk": "last"}; values are Python literals, or else words.

    Raises:
        InputError: for anything but NAME=VALUE.
    """
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise SyntaxError
        return {
            str(k.arg): k.value.id if isinstance(k.value, ast.Name) else ast.literal_eval(k.value)
            for k in call.keywords
        }
    except (SyntaxError, ValueError, AssertionError):
        raise InputError(f"--model-args {text!r} is not of the form NAME=VALUE,NAME=VALUE") from None


def constructor_arguments(cls: type[nn.Module], known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What to construct a class with: what was given, and what we know under the names that the field uses.

    Raises:
        InputError: for an argument that is needed and not known, or given and not taken.
    """
    parameters = inspect.signature(cls).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in given:
        if name not in parameters and not takes_any:
            raise InputError(f"{cls.__name__} takes no argument {name!r}; it takes {', '.join(parameters)}")
    arguments = {}
    for what, names in ARGUMENT_NAMES.items():
        arguments.update({name: known[what] for name in names if name in parameters})
    arguments.update(given)
    for name, parameter in parameters.items():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.default is parameter.empty and name not in arguments:
            raise InputError(
                f"{cls.__name__} needs an argument {name!r}, of which we know nothing; give --model-args {name}=VALUE"
            )
    return arguments


def settings_taken(config: TrainConfig) -> list[str]:
    """Which of ``hidden`` and ``dropout`` reach the constructor of the class that ``config.model`` names."""
    parameters = inspect.signature(class_named(config.model)).parameters
    given = parse_arguments(config.model_args)
    names = {"hidden": ARGUMENT_NAMES["hidden"], "dropout": (DROPOUT,)}
    return [what for what, known in names.items() if any(name in parameters and name not in given for name in known)]


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
    """As they stand in a call."""
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
    prepared = prepare(pickle.loads(pickled(model)))
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
