"""The model that a run has saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gsplit.errors import InputError
from gsplit.models import registry
from gsplit.runs import checkpoint


def load(run_folder: str | os.PathLike[str], *, model: nn.Module | None = None) -> nn.Module:
    """The best model of a run, on the CPU and in evaluation mode.

    Args:
        run_folder: the folder that training wrote, or what ``gsplit.train`` returned.
        model: for a run of a custom model, one of the same shape to load the weights into.

    Raises:
        InputError: where there is no model, it is damaged, or it is of another shape than ``model``.

    Examples:
        >>> model = gsplit.load("run")
        >>> type(model).__name__, model.num_layers
        ('SAGE', 2)
    """
    return load_described(Path(run_folder), model).model


class Saved(NamedTuple):
    """The model and settings that a run has saved."""

    model: nn.Module
    """The best model, on the CPU and in evaluation mode."""
    about: dict[str, Any]
    """The description that its weights were saved with."""
    trained: Tensor | None
    """[N, D] features that were trained with it, by global id; None where they are the graph's."""


def load_described(run_folder: Path, model: nn.Module | None) -> Saved:
    """The model of :func:`load`, and what was saved with it; raises what that does."""
    about, weights = checkpoint.read_state(run_folder, checkpoint.MODEL)
    trained = weights.pop(checkpoint.TRAINED, None)
    described = about["signature"]
    if model is None:
        if described["model"] == registry.CUSTOM:
            raise InputError(f"{run_folder} holds a custom model, {described['class']}: pass one as model=")
        model = registry.build(described)
    elif described["model"] == registry.CUSTOM:
        shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
        checkpoint.check_same_model(run_folder, {"shapes": described["shapes"]}, {"shapes": shapes})
    model = registry.with_decoder(model, described)
    model = model.to(getattr(torch, described["dtype"]))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(
            f"the weights in {run_folder} do not fit the model {type(model).__name__}: {error}"
        ) from None
    return Saved(model.eval(), about, trained)
