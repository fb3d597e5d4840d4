"""The models that ``--model`` names, and how they are described in a run, so that they can be built again."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from gsplit.config.model import ATTENDING, MODELS, ModelConfig
from gsplit.config.names import object_named
from gsplit.config.resolved import Placed
from gsplit.config.rules import without_effect
from gsplit.data import GraphArrays
from gsplit.device.precision import Precision
from gsplit.errors import InputError
from gsplit.models import custom, typed
from gsplit.models.decoding import decoder_of
from gsplit.models.prepared import Needs, check
from gsplit.nn import GAT, GCN, RGAT, RGCN, SAGE, UntypedSAGE
from gsplit.nn.adapters.adapter import Adapter
from gsplit.nn.decoders import Decoder
from gsplit.nn.gcn import Divisor
from gsplit.nn.layered import LayeredModel

OF_ALL = ("num_layers", "precision", "dtype")
"""Fields that any model takes something of."""
OF_MODEL = tuple(field.name for field in fields(ModelConfig) if field.name not in OF_ALL)
"""What says what a model is, of the configuration; null in ``config.json`` where the model takes nothing of it."""
DECODER = "pair_decoder"
"""Name of a model's part that scores pairs of its vectors; a signature has the same key."""
CUSTOM = "custom"
"""The name of a model that was handed over as an object."""
BUILT_IN: dict[str, type[nn.Module]] = {"sage": SAGE, "gat": GAT, "gcn": GCN}
"""Models of one type of vertices."""
OF_TYPES: dict[str, type[nn.Module]] = {"rgcn": RGCN, "rgat": RGAT, "sage": UntypedSAGE}
"""Models of several types."""
OURS = (*BUILT_IN.values(), *OF_TYPES.values())
"""Classes whose layers are known."""
SHAPE = ("in_features", "hidden", "out_features", "num_layers")
COMMON = ("norm", "residual", "input_projection")
LATER = ("residual_after", "output_projection")
"""Options of all that a signature names only where they are on: those of older runs have none."""
OPTIONS = {
    "sage": COMMON,
    "gat": (*COMMON, "heads", "out_heads", "negative_slope", "loops"),
    "gcn": (*COMMON, "normalization", "loops"),
    "rgcn": (*COMMON, "bases", "edge_weights"),
    "rgat": (*COMMON, "heads", "out_heads", "negative_slope"),
}
"""What else of the configuration decides what a model computes; a custom model takes none of it."""
DROPOUTS_OF_ALL = ("dropout", "input_dropout")
DROPOUTS = dict.fromkeys(MODELS, DROPOUTS_OF_ALL) | dict.fromkeys(ATTENDING, (*DROPOUTS_OF_ALL, "attention_dropout"))
"""What of the configuration decides how a model is trained, and no signature holds."""
FLAGS = {"loops": "self_loops"}
"""The option's name in the configuration, where it is another."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Described:
    """All that a run needs to know of its model, which has passed every check."""

    signature: dict[str, Any]
    """What must agree for weights to fit: name, widths and depth; for a custom model its parameters' shapes."""
    needs: Needs
    """What the model wants of its blocks."""
    takes_sums: bool
    """Whether the model asks its blocks for sums and means alone, and never for the rows of sources."""
    estimates: tuple[str, ...]
    """Estimates that the model can be trained with, where each edge counts by its source."""
    divisors: tuple[Divisor, ...]
    """What the model divides by that is made of edge weights."""
    pickled_model: bytes | None
    """A model that was handed over; None for one that the signature names."""
    unused: tuple[str, ...]
    """Fields of the configuration that the model takes nothing of."""
    layers_known: bool
    """Whether it is one of ours, whose layers can be computed one by one."""
    reads_stored_rows: bool
    """Whether it is one of ours that reads feature rows where they lie on the host."""

    @property
    def name(self) -> str:
        """The model in messages."""
        if self.pickled_model is None:
            return str(self.signature["model"])
        return f"{self.signature['class'].rpartition('.')[2]} that was handed over"


def describe(config: Placed, graph: GraphArrays, model: nn.Module | None) -> Described:
    """The model of a run, constructed once and checked.

    Args:
        config: of the run.
        graph: to train on.
        model: that was handed over as an object, which takes nothing of ``config``; None for the one that
            ``config.model`` names.

    Raises:
        InputError: for a ``config.model`` that names no class, and for a model that cannot be trained like this.
    """
    signature: dict[str, Any]
    call, used = None, set[str]()
    if model is not None:
        signature = {"model": CUSTOM, "class": type(model).__qualname__}
        candidate = model
    elif config.model in MODELS:
        options = {name: FLAGS.get(name, name) for name in OPTIONS[config.model]}
        signature = {
            "model": config.model,
            **(typed.described(config, graph) if graph.schema.is_typed else {"in_features": graph.num_features}),
            "hidden": config.hidden,
            "out_features": graph.num_classes,
            "num_layers": config.num_layers,
            **{name: getattr(config, flag) for name, flag in options.items()},
            **{name: True for name in LATER if getattr(config, name)},
        }
        facts = {"model": config.model}
        used = {name for name in OF_MODEL if without_effect(ModelConfig, name, facts) is None} - {"model_args"}
        candidate = _built_in(signature)
    else:
        named = object_named(config.model, "--model")
        made = custom.construct(named, config, graph.num_features, graph.num_classes)
        signature = {"model": config.model, "arguments": made.arguments}
        candidate, call, used = made.model, made.call, {"model", "model_args", *made.settings}
    checked = check(candidate, config.num_layers, graph)
    if call is not None:
        logger.info("the model is %s", call)
    if signature["model"] not in MODELS:
        signature["shapes"] = {name: list(tensor.shape) for name, tensor in candidate.state_dict().items()}
    return Described(
        signature={**signature, "dtype": str(Precision.named(config.precision).dtype).removeprefix("torch.")},
        needs=checked.needs,
        takes_sums=checked.takes_sums,
        estimates=checked.estimates,
        divisors=checked.divisors,
        pickled_model=None if model is None else checked.pickled,
        unused=tuple(name for name in OF_MODEL if name not in used),
        layers_known=type(candidate) in OURS,
        reads_stored_rows=isinstance(candidate, LayeredModel)
        and type(candidate) in OURS
        and candidate.reads_stored_rows
        and not config.input_dropout,
    )


def build(described: dict[str, Any], config: ModelConfig | None = None) -> nn.Module:
    """The model of a signature, freshly initialised from torch's generator, in float32.

    Args:
        described: the signature.
        config: for the dropouts of a built-in model, which no signature holds; without it there are none.
    """
    try:
        name = described["model"]
        if name in MODELS:
            return _built_in(described, config)
        if ":" in name:
            cls = custom.model_class(object_named(name, "--model"), name)
            return custom.called(cls, described["arguments"], 0.0 if config is None else config.share_dropped)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the signature of the model is damaged: {error!r}") from None
    raise InputError(f"unknown model {name!r}; this release knows {', '.join(MODELS)} and package.module:Class")


def with_decoder(model: nn.Module, described: dict[str, Any]) -> nn.Module:
    """A model with the decoder of a signature as one of its parts, where that has one.

    Raises:
        InputError: for a decoder that is none.
    """
    if DECODER in described:
        if hasattr(model, DECODER):
            raise InputError(f"the model {type(model).__name__} has a {DECODER} of its own; rename it")
        model.add_module(DECODER, decoder_of(**described[DECODER]))
    return model


def decoder_in(model: nn.Module) -> Decoder | None:
    """What scores pairs of a model's vectors, which is one of its parts; None where it has none."""
    home = model.module if isinstance(model, Adapter) else model
    found = getattr(home, DECODER, None)
    return found if isinstance(found, Decoder) else None


def _built_in(signature: dict[str, Any], config: ModelConfig | None = None) -> nn.Module:
    name = signature["model"]
    wanted = {key: signature[key] for key in (*SHAPE, *OPTIONS[name], *(key for key in LATER if key in signature))}
    if config is not None:
        wanted |= {key: getattr(config, key) for key in DROPOUTS[name]} | {"dropout": config.share_dropped}
    try:
        if typed.is_of_types(signature):
            return OF_TYPES[name](**typed.with_reach(wanted, signature))
        return BUILT_IN[name](**wanted)
    except ValueError as error:
        raise InputError(f"--model {name}: {error}") from None
    except (RuntimeError, MemoryError, OverflowError) as error:  # what PyTorch raises where it gets no memory
        widest = max(signature["in_features"]) if typed.is_of_types(signature) else signature["in_features"]
        widths = f"{widest:,} features and hidden layers {signature['hidden']:,} wide"
        raise InputError(f"no {name} of {widths} can be made: {str(error).splitlines()[0]}") from None
