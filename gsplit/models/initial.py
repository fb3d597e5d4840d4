"""Weights that a run begins with, out of another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from gsplit.errors import InputError
from gsplit.models.registry import DECODER
from gsplit.runs import checkpoint

OF_SCHEMA = ("types", "relations", "target")
"""What a signature says of the types that the numbers in names of weights stand for."""


def load_initial(model: nn.Module, run: Path, num_classes: int, signature: Mapping[str, Any]) -> list[str]:
    """Give a model the weights that a run kept, but for those of other classes, which stay as they are.

    A weight may have another shape where that is the number of classes, or as many times it: that of the last layer.
    Those of a decoder are taken where both have the same one, and left out else, so a run on labels can begin with
    what one on links has learned.

    Args:
        model: prepared, as trainers have it.
        run: the folder of the other run.
        num_classes: of the graph that ``model`` is for.
        signature: of ``model``.

    Returns:
        What is not taken, in words: weights that stay as they are, with both shapes, and trained features.

    Raises:
        InputError: where nothing was saved there, it is damaged, or it is of another model.
    """
    about, weights = checkpoint.read_state(run, checkpoint.MODEL)
    theirs = about.get("signature", {})
    if name := next((name for name in OF_SCHEMA if theirs.get(name) != signature.get(name)), None):
        ours = signature.get(name)
        raise InputError(f"--init-from: the model of {run} is for {name} {theirs.get(name)}, and this one for {ours}")
    others = []
    if weights.pop(checkpoint.TRAINED, None) is not None:
        others = [f"the features that were trained with them are those of {run} alone"]
    before = about.get("graph", {}).get("num_classes")
    state = dict(model.state_dict())
    decoders = [
        {name: each[name].shape for name in each if name.startswith(f"{DECODER}.")} for each in (state, weights)
    ]
    if decoders[0] != decoders[1]:
        others.append("the decoder of pairs is not the same in both")
        for name in {**decoders[0], **decoders[1]}:
            state.pop(name, None)
            weights.pop(name, None)
    differing = sorted(state.keys() ^ weights.keys())
    if differing:
        name = differing[0]
        where = f"{run} and not in this one" if name in weights else f"this one and not in {run}"
        raise InputError(f"--init-from: another model was trained there: {name} is a weight in {where}")
    for name, tensor in state.items():
        here, there = list(tensor.shape), list(weights[name].shape)
        if here == there:
            continue
        if not _is_of_classes(here, there, num_classes, before):
            raise InputError(
                f"--init-from: another model was trained in {run}: {name} is {there} there and {here} here; only the "
                "last layer may differ, by its number of classes"
            )
        others.append(f"{name} is {here} here and {there} there")
        weights.pop(name)
    model.load_state_dict(weights, strict=False)
    return others


def _is_of_classes(here: Sequence[int], there: Sequence[int], classes: int, classes_there: int | None) -> bool:
    """Return whether two shapes differ in one dimension alone, and there by the numbers of classes."""
    if len(here) != len(there) or classes_there is None:
        return False
    pairs = [pair for pair in zip(here, there, strict=True) if pair[0] != pair[1]]
    return len(pairs) == 1 and pairs[0][0] * classes_there == pairs[0][1] * classes
