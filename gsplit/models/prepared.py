"""What is done with every model before it runs: it is checked, sent to the trainers, and fitted to blocks."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from types import FunctionType
from typing import Any, NamedTuple, TypedDict

import numpy as np
from torch import nn
from torch.nn.parameter import UninitializedParameter

from gsplit.data import GraphArrays
from gsplit.errors import InputError
from gsplit.nn import GAT
from gsplit.nn.adapters import Adapter, wrap
from gsplit.nn.adapters.adapter import DEPTH
from gsplit.nn.gcn import Divisor
from gsplit.nn.layered import LayeredModel
from gsplit.nn.norm import convert_batch_norms, follow_comm
from gsplit.nn.rowwise.activation import convert_dropouts
from gsplit.processes import finds_main


class Needs(TypedDict):
    """The named arguments of :class:`gsplit.features.EdgeLoader`."""

    weights: bool
    degrees: bool


class Prepared(NamedTuple):
    """A model that runs on blocks."""

    model: nn.Module
    needs: Needs
    """What it wants of its blocks; one that does not say gets the weights, where the graph has any."""


class CheckedModel(NamedTuple):
    """The facts about a model that has passed :func:`check`."""

    pickled: bytes
    needs: Needs
    takes_sums: bool
    """Whether it asks its blocks for sums and means alone, never for the rows of sources; a model has to say so."""
    estimates: tuple[str, ...]
    """Estimates that it can be trained with where each edge counts by its source: ``ratio``, ``unbiased``; none where
    it is not made of sums, means and attention that blocks compute, and takes no weights of edges."""
    divisors: tuple[Divisor, ...]
    """What it divides by that is made of edge weights."""


def prepare(model: nn.Module) -> Prepared:
    """Make any model run on blocks: PyG's and DGL's convolutions get the exchange, batch normalisation all trainers.

    On the CPU dropout of rows is drawn by the core, which takes less time than a layer's product.

    Raises:
        InputError: for what cannot be split, by name.
    """
    model = wrap(model)
    convert_batch_norms(model)
    if not isinstance(model, LayeredModel):  # whose activation and dropout are one pass
        convert_dropouts(model)
    follow_comm(model)
    weights = bool(getattr(model, "uses_edge_weight", True))
    return Prepared(model, {"weights": weights, "degrees": bool(getattr(model, "uses_degrees", False))})


def check(model: nn.Module, layers: int, graph: GraphArrays) -> CheckedModel:
    """Check what can be known of a model before it runs.

    Args:
        model: stays as it is; a copy is prepared, as trainers will have it.
        layers: of the run.
        graph: to train on.

    Raises:
        InputError: for a model without parameters, of another depth than the fan-outs, with ``forward_layer`` but
            no ``level_widths``, with ``level_widths`` that begin with another number of features, with layers that
            cannot be split, or that refuse vertices without in-edges where the graph has some; and where
            :func:`pickled` does.
    """
    name = type(model).__name__
    if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        raise InputError(f"the model {name} has lazy layers, whose widths nobody knows yet; give them their widths")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"the model {name} has no parameter to train")
    content = pickled(model)
    prepared, needs = prepare(pickle.loads(content))
    depth = layers if isinstance(prepared, Adapter) else getattr(model, "num_layers", layers)
    if depth != layers:
        raise InputError(f"the model {name} has {depth} layers, but mini-batches have {layers}; {DEPTH}")
    if hasattr(model, "forward_layer") and len(getattr(model, "level_widths", ())) != layers + 1:
        raise InputError(f"the model {name} has forward_layer, so it needs level_widths: {layers + 1} widths")
    widths: Any = getattr(model, "level_widths", ())
    typed = graph.schema.is_typed
    if len(widths) and not typed and int(widths[0]) != graph.num_features:
        raise InputError(
            f"the model {name} takes {widths[0]} features (its level_widths[0]), but there are {graph.num_features}"
        )
    if not isinstance(prepared, Adapter) and "blocks" not in inspect.signature(model.forward).parameters:
        raise InputError(
            f"the model {name} has no convolution of PyG or DGL and no forward(blocks, x), so it cannot see the graph"
        )
    lonely = 0 if typed else int((np.diff(graph.indptr) == 0).sum())
    for path, layer in model.named_modules():
        if lonely and getattr(layer, "_allow_zero_in_degree", True) is False:  # DGL's flag
            raise InputError(
                f"the model's {path} is a {type(layer).__name__} that refuses vertices without in-edges, and the "
                f"graph has {lonely:,}; construct it with allow_zero_in_degree=True, or import the graph with "
                "--self-loops add"
            )
    takes_sums = not getattr(prepared, "uses_source_rows", True)
    return CheckedModel(
        content, needs, takes_sums=takes_sums, estimates=_estimates(prepared), divisors=divisors_of(prepared)
    )


def divisors_of(model: nn.Module) -> tuple[Divisor, ...]:
    """List what the convolutions of a prepared model divide by, where that is made of edge weights."""
    found = (getattr(where, "divisor", None) for module in model.modules() for where in (module, module.forward))
    return tuple(dict.fromkeys(divisor for divisor in found if isinstance(divisor, Divisor)))


def _estimates(model: nn.Module) -> tuple[str, ...]:
    if isinstance(model, GAT):
        return ("ratio",)
    sums = not getattr(model, "uses_source_rows", True) or getattr(model, "uses_edge_weight", False)
    taken = model.takes_scales if isinstance(model, Adapter) else bool(sums)
    return ("ratio", "unbiased") if taken else ()


def pickled(model: nn.Module) -> bytes:
    """The model in bytes, for the trainers.

    Raises:
        InputError: where its class, or what it holds, cannot be found by name in another process.
    """
    return in_bytes(model, f"the model {type(model).__name__}")


def in_bytes(value: Any, what: str) -> bytes:
    """A model or a function in bytes; tensors come to lie on the CPU.

    Raises:
        InputError: naming ``what``, where a class or function in it cannot be found by name in another process.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(copy.deepcopy(value).cpu() if isinstance(value, nn.Module) else value)
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        home = "its class" if isinstance(value, nn.Module) else "it"
        raise InputError(
            f"{what} cannot be sent to the trainers ({error}); define {home} at the top of a module that can be "
            "imported"
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
