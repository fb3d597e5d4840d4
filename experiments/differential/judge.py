"""What becomes of a model: the same as in its library, refused in a line, or wrong."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from experiments.differential.draw import Drawn, make_model
from experiments.differential.trainers import Order, TrainerFailed, same_bits
from experiments.differential.whole import Step, layout_of, step_on_whole, targets_of
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.company import check_company
from gsplit.errors import InputError
from gsplit.models import prepared

WORLDS = (2, 3)
EXACT = 1e-9
"""Bound in float64, as a share of what is compared: the order of sums differs, and what was drawn is small."""
ROUNDING = 1e-5
"""The same in float32; or four times what the library's own process is off by there, where that is more."""
CANCELLED = 1e-4
"""Bound in float32 for models that agree in float64: of sums of terms that cancel each other out."""
NEGLIGIBLE = 1e-3
"""What is smaller than this share of the largest gradient is measured by the largest: it may be rounding alone."""
NOTHING = 1e-12
"""A gradient smaller than this share of the largest is 0 but for rounding: of a bias before batch normalisation."""

End = Literal["equal", "refused", "wrong", "impossible"]
ENDS: tuple[End, ...] = ("equal", "refused", "wrong", "impossible")


class Stepping(Protocol):
    """Trainers, as :class:`experiments.differential.trainers.Trainers` has them."""

    def step(self, world: int, order: Order) -> list[Step]:
        """The step of each of ``world`` trainers."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a model."""

    end: End
    """``impossible``: the library itself fails on it, so there is nothing to compare with."""
    why: str = ""


def judge(drawn: Drawn, trainers: Stepping, folder: Path) -> Outcome:
    """Train one model for a step in its library, and split over 2 and over 3 trainers."""
    try:
        model = make_model(drawn)
    except Exception as error:  # whatever a library raises
        return Outcome(end="impossible", why=_line(error))
    return compare(model, drawn, trainers, folder)


def compare(model: nn.Module, drawn: Drawn, trainers: Stepping, folder: Path) -> Outcome:
    """The same of a model that is there; it stays as it is.

    Args:
        model: in float32.
        drawn: says how it is called, and on which graph.
        trainers: to split it over.
        folder: for layouts, which are made once.
    """
    dtype = getattr(torch, drawn.dtype)
    try:
        pickled = check(model, drawn, dtype, folder)
    except InputError as error:
        return Outcome(end="refused", why=str(error))
    try:
        exact = step_on_whole(drawn, model, torch.float64)
        whole = exact if dtype == torch.float64 else step_on_whole(drawn, model, dtype)
    except Exception as error:  # whatever a library raises
        return Outcome(end="impossible", why=_line(error))
    for world in WORLDS:
        order = Order(
            layout=layout_of(drawn, world, folder).path,
            model=pickled,
            targets=targets_of(drawn),
            layers=drawn.layers,
            dtype=dtype,
        )
        try:
            steps = trainers.step(world, order)
            wrong = difference(steps, whole, exact)
            if wrong and whole is not exact and not difference(steps, whole, exact, CANCELLED):
                # Perhaps many roundings of terms that cancel each other out: then there is none in float64.
                wrong = difference(trainers.step(world, replace(order, dtype=torch.float64)), exact, exact)
        except TrainerFailed as error:
            return Outcome(end="wrong", why=f"{world} trainers: {error}")
        if wrong:
            return Outcome(end="wrong", why=f"{world} trainers: {wrong}")
    return Outcome(end="equal")


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"


def check(model: nn.Module, drawn: Drawn, dtype: torch.dtype, folder: Path) -> bytes:
    """What is done before a run: the model in bytes, if it passes.

    Raises:
        InputError: where it is refused.
    """
    layout = layout_of(drawn, WORLDS[0], folder)
    checked = prepared.check(model, drawn.layers, layout.graph)
    check_company(model, layout, layers=drawn.layers, precision=Precision(dtype=dtype))
    return checked.pickled


def difference(steps: list[Step], whole: Step, exact: Step, bound: float = ROUNDING) -> str:
    """What differs between trainers and the library's process, in words; empty for nothing but rounding.

    Args:
        steps: of the trainers.
        whole: of the library's process, in the same type.
        exact: the same in float64.
        bound: of what is rounding in float32.
    """
    first = steps[0]
    for step in steps[1:]:
        if not same_bits(first.state, step.state) or not same_bits(first.gradients, step.gradients):
            return "trainers do not have the same parameters after the step"
    if first.gradients.keys() != whole.gradients.keys() or first.state.keys() != whole.state.keys():
        return "other parameters"
    largest = max((_size(gradient) for gradient in exact.gradients.values()), default=0.0)
    for what, ours, theirs, best in (
        *(("gradient of " + n, g, whole.gradients[n], exact.gradients[n]) for n, g in first.gradients.items()),
        *((f"{n} after the step", s, whole.state[n], exact.state[n]) for n, s in first.state.items()),
        ("logits after the step", first.logits, whole.logits, exact.logits),
    ):
        if ours.shape != theirs.shape:
            return f"{what}: shape {tuple(ours.shape)} for {tuple(theirs.shape)}"
        of_gradients = largest if what.startswith("gradient") else 0.0
        size = max(_size(best), NEGLIGIBLE * of_gradients, 1e-300)
        off, rounding = _gap(ours, theirs) / size, _gap(theirs, best) / size
        if _size(best) < NOTHING * of_gradients:  # what is added up to 0 is as large as the others
            rounding = max(rounding, torch.finfo(torch.float32).eps * of_gradients / size)
        if not off <= (EXACT if theirs.dtype == torch.float64 else max(bound, 4 * rounding)):
            return f"{what}: off by {off:.1e} of its size"
    return ""


def _size(tensor: Tensor) -> float:
    return tensor.double().nan_to_num(posinf=0.0, neginf=0.0).norm().item()


def _gap(one: Tensor, other: Tensor) -> float:
    """The norm of the difference, where not both are NaN or the same infinity; infinite where one alone is."""
    one, other = one.double(), other.double()
    same = (one == other) | (one.isnan() & other.isnan())
    norm = (one - other).masked_fill(same, 0.0).norm().item()
    return math.inf if math.isnan(norm) else norm


def reason(line: str) -> str:
    """Why a model is refused, without what is its own: class of the layer, and reason."""
    line = re.sub(r"^(the model's \S+ is an? |an? )", "", line)
    line = re.sub(
        r"^the model \w+ cannot be split: its logits of \d+ vertices differ .*", "logits differ in company", line
    )
    return re.sub(r"^the model \w+", "the model", line)
