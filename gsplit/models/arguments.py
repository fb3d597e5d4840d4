"""The arguments that the class of a user's model is constructed with."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from torch import nn

from gsplit.config.model import ModelConfig
from gsplit.config.names import object_named
from gsplit.errors import InputError

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


def class_named(path: str) -> type[nn.Module]:
    """The class that package.module:Class names.

    Raises:
        InputError: where there is none, or it is no torch.nn.Module.
    """
    found = object_named(path, "--model")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        module_name, _, class_name = path.partition(":")
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


def settings_taken(config: ModelConfig) -> list[str]:
    """Which of ``hidden`` and ``dropout`` reach the constructor of the class that ``config.model`` names."""
    parameters = inspect.signature(class_named(config.model)).parameters
    given = parse_arguments(config.model_args)
    names = {"hidden": ARGUMENT_NAMES["hidden"], "dropout": (DROPOUT,)}
    return [what for what, known in names.items() if any(name in parameters and name not in given for name in known)]
