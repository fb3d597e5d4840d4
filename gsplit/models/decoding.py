"""The decoders that ``--score`` names, and what a decoder of the user's must be like to be split.

A trainer scores the pairs whose sources it owns, so a score must depend on its two rows alone, not on how many others
stand beside it. That is found out before a run, on a few rows.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gsplit.config.names import object_named
from gsplit.errors import InputError
from gsplit.models.custom import called, constructor_arguments
from gsplit.nn.decoders import MLP, Cosine, Decoder, DistMult, Dot, OwnDecoder

DECODERS: dict[str, type[Decoder]] = {"dot": Dot, "cosine": Cosine, "distmult": DistMult, "mlp": MLP}
ARGUMENT_NAMES = {
    "width": (
        *("width", "in_features", "in_channels", "in_feats", "in_size", "in_dim", "input_dim"),
        *("embedding_dim", "embed_dim", "dim", "hidden_channels", "hidden_dim", "h_feats"),
    )
}
"""What decoders of PyG's and DGL's examples call the width of the rows."""
FEW = 6
"""Pairs that a decoder is tried on."""
TOLERANCE = 1e-4
"""Difference that may be rounding, as a share of the largest score."""
NOISE = 0.1
"""How far parameters are moved once, for some begin at zero and hide what they multiply."""


def decoder_of(name: str, width: int, arguments: Mapping[str, Any]) -> Decoder:
    """The decoder of a name, freshly initialised from torch's generator; one of the user's has passed its trial.

    Args:
        name: dot, cosine, distmult, mlp, or package.module:Class.
        width: D, columns of the rows.
        arguments: of ``--score-args``, for the constructor.

    Raises:
        InputError: for a name that there is not, arguments that do not fit, and a decoder that cannot be split.
    """
    cls = DECODERS.get(name)
    if cls is None:
        if ":" not in name:
            raise InputError(
                f"--score {name!r} is no decoder: it is one of {', '.join(DECODERS)}, or package.module:Class"
            )
        cls = object_named(name, "--score")
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
            module, _, what = name.partition(":")
            raise InputError(f"--score {name}: {module} has no class {what!r} that is a torch.nn.Module")
    taken = [argument for argument in inspect.signature(cls).parameters if argument != "width"]
    if name in DECODERS and (other := arguments.keys() - taken):
        raise InputError(f"--score-args {min(other)}: --score {name} takes {' and '.join(taken) or 'no arguments'}")
    known = constructor_arguments(cls, {"width": width}, dict(arguments), ARGUMENT_NAMES, "--score-args")
    made = called(cls, known, None)
    return made if name in DECODERS else own_decoder(made, name, width)  # type: ignore[return-value]


def own_decoder(module: nn.Module, name: str, width: int) -> Decoder:
    """A module of the user's as a decoder, tried on a few rows.

    Args:
        module: with ``forward(source [n, D], destination [n, D]) -> [n]``, in float32.
        name: for messages.
        width: D.

    Raises:
        InputError: for one that has a batch normalisation, that gives other than [n], or whose scores depend on other
            rows, on their number or on chance.
    """
    for where, part in module.named_modules():
        if isinstance(part, _BatchNorm):
            raise InputError(
                f"the decoder {name} has a batch normalisation ({where or 'itself'}), which would see pairs in the "
                "place of vertices; use nn.LayerNorm, or put it into the model"
            )
    decoder = module if isinstance(module, Decoder) else OwnDecoder(module)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tried = copy.deepcopy(decoder).eval()
        _try(tried, name, width)
        for parameter in tried.parameters():
            parameter.data += NOISE * torch.randn_like(parameter)
        _try(tried, name, width)
    return decoder


def _try(decoder: Decoder, name: str, width: int) -> None:
    """Compare scores of some pairs together with those of each alone, of none, again, and of other ways to score."""
    source, destination = torch.randn(2, FEW, width)
    together = _scores(decoder, name, source.requires_grad_(), destination)
    if not together.requires_grad:
        raise InputError(f"the scores of the decoder {name} do not depend on its rows; compute them with PyTorch")
    if not together.isfinite().all():
        raise InputError(f"the decoder {name} gives scores that are not finite for rows around 0")
    bound = TOLERANCE * float(together.detach().abs().max())
    with torch.no_grad():
        if not _same(_scores(decoder, name, source, destination), together, bound):
            raise InputError(f"the decoder {name} gives other scores each time; only dropout may depend on chance")
        _scores(decoder, name, source[:0], destination[:0])
        alone = [_scores(decoder, name, source[i : i + 1], destination[i : i + 1]) for i in range(FEW)]
        if not _same(torch.cat(alone), together, bound):
            raise InputError(
                f"the decoder {name} cannot be split: scores of {FEW} pairs together are not those of each alone; a "
                "score must depend on its two rows alone"
            )
        of_each = torch.stack([destination, destination.flip(0)], dim=1)
        for method, *ends in (
            ("matrix", source, destination),
            ("groups", source, of_each),
            ("groups_of_sources", source, of_each),
        ):
            found, wanted = getattr(decoder, method)(*ends), getattr(Decoder, method)(decoder, *ends)
            if found.shape != wanted.shape or not _same(found, wanted, bound):
                raise InputError(
                    f"{method} of the decoder {name} gives other scores than its forward; it must be "
                    f"[{'destinations' if method == 'groups_of_sources' else 'sources'}, candidates]"
                )


def _same(one: Tensor, other: Tensor, bound: float) -> bool:
    return bool((one - other).abs().max() <= bound)


def _scores(decoder: Decoder, name: str, source: Tensor, destination: Tensor) -> Tensor:
    """What the decoder gives, of the right shape."""
    shape = list(source.shape)
    try:
        scores: Any = decoder(source, destination)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"the decoder {name} fails on sources and destinations {shape}: {type(error).__name__}: {reason}"
        ) from error
    if not isinstance(scores, Tensor) or scores.shape != (len(source),):
        given = f"shape {list(scores.shape)}" if isinstance(scores, Tensor) else f"type {type(scores).__name__}"
        raise InputError(
            f"the decoder {name} gives scores of {given} for sources and destinations {shape}; it must give one "
            f"for each pair, [{len(source)}]"
        )
    return scores
