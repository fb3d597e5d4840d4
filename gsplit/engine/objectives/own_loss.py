"""A loss of the user's: a function of logits and labels that gives a value for each target, or their sum.

What it gives is found out once, on a few training vertices, before a run begins: its shape says which of the three it
is, and that values of some targets do not change with others beside them says that trainers may add theirs up. The
engine divides by what counts on all trainers. Legend: n targets, C classes or outputs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gsplit.config.names import object_named
from gsplit.config.rules import Not
from gsplit.data import GraphArrays
from gsplit.errors import InputError
from gsplit.models.prepared import in_bytes

if TYPE_CHECKING:
    from gsplit.engine.objective import Objective

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""From logits [n, C] and labels, int64 [n] classes or [n, C] numbers in the type of the logits, to a value for each
target [n], or for each of its outputs [n, C], or the sum of all []."""
Returns = Literal["values of targets", "values of entries", "a sum"]
FEW = 6
"""Targets that a function is tried on."""
ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-9}
"""Differences that are none, relative to the largest value."""
ADVICE = (
    "return a value for each target (as reduction='none' gives), or their sum (reduction='sum'), no mean and nothing "
    "that depends on other targets or on chance: the engine divides by the targets of all trainers"
)


@dataclass(frozen=True, kw_only=True)
class OwnFunction:
    """A function of the user's, as trainers get it."""

    name: str
    """Name of the form package.module:function, or what an object that was handed over is called."""
    pickled: bytes | None
    """A function that was handed over; None for one that the name finds."""

    def function(self) -> Callable[..., Tensor]:
        """The function itself."""
        found: Any = object_named(self.name, "--loss") if self.pickled is None else pickle.loads(self.pickled)
        return found


@dataclass(frozen=True, kw_only=True)
class OwnLoss(OwnFunction):
    """A loss of targets."""

    returns: Returns
    """What the function gives."""


def is_built_in(own: OwnFunction | None) -> bool | Not:
    """Return whether a loss is GSplit's, in the words that rules of flags want (:mod:`gsplit.config.rules`)."""
    return own is None or Not(f"on {own.name}, a loss of one's own")


def own_loss(named: str | None, given: LossFunction | None, graph: GraphArrays, dtype: torch.dtype) -> OwnLoss | None:
    """The loss that a user names or hands over, tried on a few training vertices; None where there is none.

    Args:
        named: ``config.loss``.
        given: that was handed over.
        graph: of the run, with labels of its training vertices.
        dtype: in which the model computes.

    Raises:
        InputError: for what is no such function, or gives no values or sums that trainers could add up.
    """
    found = own_function(named, given, "logits and labels")
    if found is None:
        return None
    name = found.name
    with torch.random.fork_rng(devices=[]):
        return OwnLoss(name=name, returns=_recognised(found.function(), name, graph, dtype), pickled=found.pickled)


def own_function(named: str | None, given: Callable[..., Tensor] | None, of: str) -> OwnFunction | None:
    """The function that a user names or hands over as a loss, not yet called; None where there is none.

    Args:
        named: ``config.loss``.
        given: that was handed over.
        of: what it is a function of, in words.

    Raises:
        InputError: for what is no function, or has parameters to train.
    """
    if given is not None and named is not None:
        raise InputError(f"--loss {named} names a loss, and another one was handed over; give one of them")
    if given is not None:
        found = OwnFunction(name=_name_of(given), pickled=in_bytes(given, f"the loss {_name_of(given)}"))
    elif named is not None and ":" in named:
        found = OwnFunction(name=named, pickled=None)
    else:
        return None
    function = found.function()
    if not callable(function) or isinstance(function, type):
        module, _, what = found.name.partition(":")
        raise InputError(f"--loss {found.name}: {module} has no function {what!r} of {of}")
    if isinstance(function, nn.Module) and any(p.requires_grad for p in function.parameters()):
        raise InputError(
            f"the loss {found.name} has parameters to train, and only those of the model are; move them there"
        )
    return found


def _name_of(function: Callable[..., Tensor]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _recognised(function: LossFunction, name: str, graph: GraphArrays, dtype: torch.dtype) -> Returns:
    labels, draws = _few_labels(graph), torch.Generator().manual_seed(0)
    logits = torch.randn(len(labels), graph.num_classes, generator=draws, dtype=dtype).requires_grad_()
    cut = -(-len(labels) // 3)
    pieces = [slice(0, len(labels)), slice(0, cut), slice(cut, len(labels))]
    whole, *parts = (called(function, name, logits[piece], labels[piece]) for piece in pieces if len(labels[piece]))
    returns = returned(whole, name, logits)
    if not whole.requires_grad:
        raise InputError(f"the loss {name} does not depend on the logits")
    unknown = labels.isnan() if graph.regression else torch.zeros(labels.shape, dtype=torch.bool)
    counted = whole[~unknown] if returns == "values of entries" and graph.regression else whole
    if not counted.isfinite().all():
        gaps = "; a label that is not known is NaN: leave it out" if unknown.any() else ""
        raise InputError(f"the loss {name} is not finite on logits around 0 and labels of training vertices{gaps}")
    together = sum(part.sum() for part in parts) if returns == "a sum" else torch.cat(parts)
    assert isinstance(together, Tensor)
    same = together.shape == whole.shape
    if same and returns == "values of entries" and graph.regression:  # others may be NaN, and count nothing
        together, whole = together[~unknown], whole[~unknown]
    if not same or not (together - whole).abs().max() <= ROUNDING[dtype] * (1 + whole.abs().max()):
        what = f"of {cut} targets and of {len(labels) - cut} others it is not what it is of all together"
        raise InputError(f"the loss {name} is no sum over targets: {what}; {ADVICE}")
    return returns


def _few_labels(graph: GraphArrays) -> Tensor:
    """Labels of some training vertices; of a regression those that lack most come first, and none without any."""
    own = graph.labels[graph.train_idx]
    if graph.regression:
        lacking = np.isnan(own).sum(axis=1)
        own = own[np.argsort(-lacking, kind="stable")]
        own = own[~np.isnan(own).all(axis=1)]
    at = np.unique(np.linspace(0, len(own) - 1, FEW).astype(np.int64))
    return torch.from_numpy(np.array(own[at]))


def called(function: LossFunction, name: str, logits: Tensor, labels: Tensor) -> Tensor:
    """Return what a function gives, with numbers in the type of the logits.

    Raises:
        InputError: where it fails, or gives something else than a tensor.
    """
    try:
        value = function(logits, labels.to(logits.dtype) if labels.ndim == 2 else labels)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"the loss {name} fails on logits {list(logits.shape)} ({logits.dtype}) and labels {list(labels.shape)}: "
            f"{type(error).__name__}: {reason}"
        ) from error
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise InputError(f"the loss {name} gives {type(value).__name__}, not a tensor of numbers")
    return value


def returned(value: Tensor, name: str, logits: Tensor) -> Returns:
    """Return what a value is, by its shape.

    Raises:
        InputError: for any other shape.
    """
    if value.shape == logits.shape:
        return "values of entries"
    if value.shape == logits.shape[:1]:
        return "values of targets"
    if value.ndim == 0:
        return "a sum"
    raise InputError(
        f"the loss {name} gives a tensor of shape {list(value.shape)} for logits {list(logits.shape)}; {ADVICE}"
    )


class WithOwnLoss:
    """An objective with the loss of a user's in the place of its own.

    Targets of a regression of which nothing is known are not shown to the function. Of a target that lacks some
    numbers it sees NaN: entries that it gives for them are left out, with their slopes; one that gives values of
    targets or a sum has to leave them out itself.

    Args:
        objective: what scores and predicts.
        own: the loss.
        graph: of the run.
        device, dtype: where a loss that is a module is put; None: as it is.
    """

    def __init__(
        self,
        objective: Objective,
        own: OwnLoss,
        graph: GraphArrays,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.name, self.num_counts = objective.name, objective.num_counts
        self.counts, self.score, self.predict = objective.counts, objective.score, objective.predict
        function = own.function()
        self._function = function.to(device, dtype) if isinstance(function, nn.Module) else function
        self._own, self._regression = own, graph.regression
        self._gaps = graph.regression and bool(np.isnan(graph.labels[graph.train_idx]).all(axis=1).any())

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] values of targets, or [] their sum."""
        if not self._gaps:
            return self._of_known(logits, labels)
        rows = ~labels.isnan().all(dim=1)
        if not rows.any():
            return logits.sum() * 0
        values = self._of_known(logits[rows], labels[rows])
        return values if values.ndim == 0 else values.new_zeros(len(rows)).masked_scatter(rows, values)

    def _of_known(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Losses [n] of targets of which something is known, or their sum."""
        seen = torch.where(labels.isnan(), logits.detach(), logits) if self._regression else logits
        values = called(self._function, self._own.name, seen, labels)
        returns = returned(values, self._own.name, logits)
        if returns != self._own.returns:
            raise InputError(f"the loss {self._own.name} gave {self._own.returns} at first, and now {returns}")
        if returns != "values of entries":
            return values
        if self._regression:
            return torch.where(labels.isnan(), 0, values).sum(dim=1)
        return values.mean(dim=1)

    def weights(self, labels: Tensor) -> Tensor | None:
        """[n] numbers of known entries, or of known targets; None where all of them count 1."""
        if self._regression and self._own.returns == "values of entries":
            return (~labels.isnan()).sum(dim=1)
        return (~labels.isnan()).any(dim=1).long() if self._gaps else None
