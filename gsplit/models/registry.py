"""The models that ``--model`` names, and how they are described in a run, so that they can be built again."""

from __future__ import annotations

from typing import Any, TypedDict

from torch import nn

from gsplit.config.model import MODELS, ModelConfig
from gsplit.config.train import OF_MODEL
from gsplit.data import GraphArrays
from gsplit.errors import InputError
from gsplit.models import custom
from gsplit.models.arguments import settings_taken
from gsplit.nn import GAT, GCN, SAGE

BUILT_IN: dict[str, type[nn.Module]] = dict(zip(MODELS, (SAGE, GAT, GCN), strict=True))
SHAPE = ("in_features", "hidden", "out_features", "num_layers")
COMMON = ("norm", "residual", "input_projection")
OPTIONS = {
    "sage": COMMON,
    "gat": (*COMMON, "heads", "out_heads", "negative_slope", "loops"),
    "gcn": (*COMMON, "normalization", "loops"),
}
"""What else of the configuration decides what a model computes; a custom model takes none of it."""
FLAGS = {"loops": "self_loops"}
"""The option's name in the configuration, where it is another."""


def signature(config: ModelConfig, graph: GraphArrays, model: nn.Module | None) -> dict[str, Any]:
    """What must agree for weights to fit: name, widths and depth; for a custom model its parameters' shapes.

    Raises:
        InputError: for a ``config.model`` that names no class.
    """
    if model is not None:
        return {**custom.signature(model), "dtype": config.dtype}
    if ":" in config.model:
        return {**custom.signature_of_class(config, graph), "dtype": config.dtype}
    return {
        "model": config.model,
        "in_features": graph.num_features,
        "hidden": config.hidden,
        "out_features": graph.num_classes,
        "num_layers": config.num_layers,
        **{name: getattr(config, FLAGS.get(name, name)) for name in OPTIONS[config.model]},
        "dtype": config.dtype,
    }


def unused_settings(config: ModelConfig, model: nn.Module | None) -> list[str]:
    """The fields of a configuration that a model takes nothing of.

    Args:
        config: of the run.
        model: that was handed over as an object, which takes nothing of it; None for the one that ``config`` names.
    """
    if model is not None:
        return list(OF_MODEL)
    if ":" in config.model:
        used = {"model", "model_args", *settings_taken(config)}
    else:
        used = {"model", "hidden", "dropout", "input_dropout"}
        used |= {FLAGS.get(name, name) for name in OPTIONS[config.model]}
        used |= {"attention_dropout"} if config.model == "gat" else set()
    return [name for name in OF_MODEL if name not in used]


class Needs(TypedDict):
    """The named arguments of :class:`gsplit.features.EdgeLoader`."""

    weights: bool
    degrees: bool


def needs(model: nn.Module) -> Needs:
    """What a model wants of its blocks; one that does not say gets the weights, where the graph has any."""
    return {
        "weights": bool(getattr(model, "uses_edge_weight", True)),
        "degrees": bool(getattr(model, "uses_degrees", False)),
    }


def build(described: dict[str, Any], config: ModelConfig | None = None) -> nn.Module:
    """The model of a signature, freshly initialised from torch's generator, in float32.

    Args:
        described: the signature.
        config: for the dropouts of a built-in model, which no signature holds; without it there are none.
    """
    try:
        name = described["model"]
        if name in BUILT_IN:
            wanted = {key: described[key] for key in (*SHAPE, *OPTIONS[name])}
            if config is not None:
                wanted |= {"dropout": config.dropout, "input_dropout": config.input_dropout}
                if name == "gat":
                    wanted["attention_dropout"] = config.attention_dropout
            return BUILT_IN[name](**wanted)
        if ":" in name:
            return custom.build(name, described["arguments"], 0.0 if config is None else config.dropout)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the signature of the model is damaged: {error!r}") from None
    raise InputError(f"unknown model {name!r}; this release knows {', '.join(BUILT_IN)} and package.module:Class")
