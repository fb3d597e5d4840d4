"""Models that a user names as package.module:Class, and the arguments that the class is constructed with."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from gsplit.config.model import ModelConfig
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


class Constructed(NamedTuple):
    """A model of a class of the user's."""

    model: nn.Module
    arguments: dict[str, Any]
    """What the class was given, as JSON can hold it: enough to construct the model again."""
    call: str
    """How the class was called, in words."""
    settings: set[str]
    """Which of the fields ``hidden`` and ``dropout`` of the configuration the class takes."""


def construct(found: Any, config: ModelConfig, in_features: int, out_features: int) -> Constructed:
    """A model of the class that ``config.model`` names, with the arguments that are known and those that are given.

    Args:
        found: what ``config.model`` names.
        config: of the model, with its number of layers.
        in_features: width of the features.
        out_features: number of classes.

    Raises:
        InputError: for what is no class of models, for arguments that do not fit it, and where it fails.
    """
    cls = model_class(found, config.model)
    given = parse_arguments(config.model_args)
    known = {
        "in_features": in_features,
        "hidden": config.hidden,
        "out_features": out_features,
        "num_layers": config.num_layers,
    }
    arguments = constructor_arguments(cls, known, given)
    names = {"hidden": ARGUMENT_NAMES["hidden"], "dropout": (DROPOUT,)}
    free = inspect.signature(cls).parameters.keys() - given.keys()
    return Constructed(
        model=called(cls, arguments),
        arguments=arguments,
        call=f"{cls.__name__}({shown(arguments)})",
        settings={what for what, known_as in names.items() if not free.isdisjoint(known_as)},
    )


def model_class(found: Any, path: str) -> type[nn.Module]:
    """Return what a user named, if it is a class of models.

    Args:
        found: by that name.
        path: the name, package.module:Class.

    Raises:
        InputError: where there is none, or it is no torch.nn.Module.
    """
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        module_name, _, class_name = path.partition(":")
        raise InputError(f"--model {path}: {module_name} has no class {class_name!r} that is a torch.nn.Module")
    return found


def parse_arguments(text: str, flag: str = "--model-args") -> dict[str, Any]:
    """``heads=4,jk=last`` -> {"heads": 4, "jk": "last"}; values are Python literals, or else words.

    Raises:
        InputError: for anything but NAME=VALUE, and for values that JSON cannot hold.
    """
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise SyntaxError
        given = {
            str(k.arg): k.value.id if isinstance(k.value, ast.Name) else ast.literal_eval(k.value)
            for k in call.keywords
        }
    except (SyntaxError, ValueError, AssertionError):
        raise InputError(f"{flag} {text!r} is not of the form NAME=VALUE,NAME=VALUE") from None
    try:
        arguments: dict[str, Any] = json.loads(json.dumps(given))  # as the description of the run will hold them
    except TypeError as error:
        raise InputError(f"{flag} {text!r}: {error}") from None
    return arguments


def constructor_arguments(
    cls: type[nn.Module],
    known: dict[str, Any],
    given: dict[str, Any],
    known_as: Mapping[str, Sequence[str]] = ARGUMENT_NAMES,
    flag: str = "--model-args",
) -> dict[str, Any]:
    """Return what to construct a class with: what was given, and what we know under the names that the field uses.

    Args:
        cls: the class.
        known: what we know.
        given: by the user.
        known_as: names of arguments for what we know.
        flag: that gives others.

    Raises:
        InputError: for an argument that is needed and not known, or given and not taken.
    """
    parameters = inspect.signature(cls).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in given:
        if name not in parameters and not takes_any:
            raise InputError(f"{cls.__name__} takes no argument {name!r}; it takes {', '.join(parameters)}")
    arguments = {}
    for what, names in known_as.items():
        arguments.update({name: known[what] for name in names if name in parameters})
    arguments.update(given)
    for name, parameter in parameters.items():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.default is parameter.empty and name not in arguments:
            raise InputError(
                f"{cls.__name__} needs an argument {name!r}, of which we know nothing; give {flag} {name}=VALUE"
            )
    return arguments


def called(cls: type[nn.Module], arguments: dict[str, Any], dropout: float | None = 0.0) -> nn.Module:
    """Construct a class; ``dropout`` is for one that takes it and was not given another; None leaves it its own.

    Raises:
        InputError: where it fails.
    """
    if dropout is not None and DROPOUT in inspect.signature(cls).parameters:
        arguments = {DROPOUT: dropout, **arguments}
    try:
        return cls(**arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"{cls.__name__}({shown(arguments)}) fails: {error}") from None


def shown(arguments: dict[str, Any]) -> str:
    """Arguments as they stand in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
