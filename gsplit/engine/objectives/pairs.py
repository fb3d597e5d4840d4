"""Losses of pairs: a sum over groups, each of a positive pair and the candidates beside it.

=======  =============================================  ==========
loss     of a group with score s and candidates s_k     divided by
=======  =============================================  ==========
bce      log(1 + e^-s) + sum_k log(1 + e^s_k)           scored
softmax  log(e^(s/t) + sum_k e^(s_k/t) / q_k) - s/t     groups
bpr      sum_k log(1 + e^(s_k - s))                     negatives
margin   sum_k max(0, margin - s + s_k)                 negatives
a name   what the function gives                        ``counts``
=======  =============================================  ==========

A trainer adds up over the groups that it owns, and the engine divides once by a number of the whole mini-batch:
``groups``, ``negatives`` (candidates that are not masked) or ``scored``, both together. A masked candidate counts
nothing and gets no gradient, whatever its score. Legend: G groups, C candidates of each; both may be 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gsplit.engine.objectives.own_loss import ROUNDING, OwnFunction, own_function
from gsplit.errors import InputError
from gsplit.kernels import computed_in

Divisor = Literal["groups", "scored", "negatives"]
PairFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From scores of positive pairs [G], scores of candidates [G, C], and a mask [G, C], true where a candidate does not
count, to a value for each group [G], or their sum []."""
Returns = Literal["values of groups", "a sum"]
COUNTS: dict[str, Divisor] = {"groups": "groups", "pairs": "scored", "negatives": "negatives"}
"""What a function of the user's may say in ``counts`` that its sum is divided by; groups, where it says nothing."""
ADVICE = (
    "return a value for each group, or their sum, no mean, and nothing that depends on other groups, on masked "
    "candidates or on chance: the engine divides by what counts on all trainers"
)


class PairLoss(ABC):
    """A loss of groups."""

    name: str
    divisor: Divisor
    """What of the whole mini-batch the sum is divided by."""

    def loss(
        self,
        positive: Tensor,
        negative: Tensor,
        masked: Tensor | None = None,
        log_q: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """The sum [] over the own groups, in float32 or float64.

        Args:
            positive: [G] scores of pairs.
            negative: [G, C] scores of their candidates; or [n] of candidates alone, which bce takes.
            masked: bool [G, C], true where a candidate does not count; None: all count.
            log_q: [C] or [G, C], for softmax: the logarithm of q, how often a candidate is expected to be drawn.
            weight: [G] what each group counts, or [G + n] with the candidates alone; None: 1.

        Raises:
            InputError: for weights, where a function of the user's gives a sum.
        """
        wide = computed_in(positive.dtype)
        values = self._values(positive.to(wide), negative.to(wide), masked, log_q)
        if weight is None:
            return values.sum()
        if values.ndim == 0:
            raise InputError(
                f"the loss {self.name} gives a sum, and pairs have weights; return a value for each group"
            )
        return (values * weight.to(wide)).sum()

    @abstractmethod
    def _values(self, positive: Tensor, negative: Tensor, masked: Tensor | None, log_q: Tensor | None) -> Tensor:
        """Values [G] of groups, or [] their sum; with candidates alone [G + n]."""


class BCE(PairLoss):
    """Binary cross-entropy of each pair by itself: positive ones are 1, candidates 0."""

    name = "bce"
    divisor: Divisor = "scored"

    def _values(self, positive: Tensor, negative: Tensor, masked: Tensor | None, log_q: Tensor | None) -> Tensor:
        if negative.ndim == 1:
            return torch.cat([_softplus(-positive), _softplus(negative)])
        return _softplus(-positive) + _sums(_softplus, negative, masked)


class Softmax(PairLoss):
    """Cross-entropy of the positive pair among all of its group (InfoNCE).

    Args:
        temperature: t, what scores are divided by.
    """

    name = "softmax"
    divisor: Divisor = "groups"

    def __init__(self, temperature: float = 1.0) -> None:
        self._temperature = temperature

    def _values(self, positive: Tensor, negative: Tensor, masked: Tensor | None, log_q: Tensor | None) -> Tensor:
        above = (negative - positive.unsqueeze(1)) / self._temperature
        if log_q is not None:
            above = above - log_q.to(above.dtype)
        if masked is not None:
            above = above.masked_fill(masked, -torch.inf)
        return torch.cat([torch.zeros_like(positive).unsqueeze(1), above], dim=1).logsumexp(dim=1)


class BPR(PairLoss):
    """Bayesian personalised ranking (Rendle et al., UAI 2009): each candidate is to be below the positive pair."""

    name = "bpr"
    divisor: Divisor = "negatives"

    def _values(self, positive: Tensor, negative: Tensor, masked: Tensor | None, log_q: Tensor | None) -> Tensor:
        return _sums(_softplus, negative - positive.unsqueeze(1), masked)


class Margin(PairLoss):
    """Each candidate is to be below the positive pair by a margin.

    Args:
        margin: by how much.
    """

    name = "margin"
    divisor: Divisor = "negatives"

    def __init__(self, margin: float = 1.0) -> None:
        self._margin = margin

    def _values(self, positive: Tensor, negative: Tensor, masked: Tensor | None, log_q: Tensor | None) -> Tensor:
        return _sums(torch.relu, negative - positive.unsqueeze(1) + self._margin, masked)


@dataclass(frozen=True, kw_only=True)
class OwnPairLoss(OwnFunction):
    """A loss of groups of the user's, as trainers get it; :func:`pair_loss` makes a loss of it."""

    returns: Returns
    """What the function gives."""
    divisor: Divisor


class _Own(PairLoss):
    """The loss that a function of the user's gives.

    The function sees masked candidates with the score 0, one of them where there are none; without groups it is not
    called.
    """

    def __init__(self, own: OwnPairLoss, device: torch.device | None) -> None:
        self.name, self.divisor = own.name, own.divisor
        function = own.function()
        self._function = function.to(device) if isinstance(function, nn.Module) else function
        self._returns = own.returns

    def _values(self, positive: Tensor, negative: Tensor, masked: Tensor | None, log_q: Tensor | None) -> Tensor:
        if not len(positive):
            return positive + negative.sum(dim=1)
        values = _called(self._function, self.name, positive, negative, masked)
        if (returns := _returned(values, self.name, positive)) != self._returns:
            raise InputError(f"the loss {self.name} gave {self._returns} at first, and now {returns}")
        return values


def pair_loss(
    loss: str | OwnPairLoss, *, temperature: float = 1.0, margin: float = 1.0, device: torch.device | None = None
) -> PairLoss:
    """The loss of a name, or of the user's.

    Args:
        loss: bce, softmax, bpr, margin; or what :func:`own_pair_loss` gave.
        temperature: of softmax.
        margin: of margin.
        device: where a loss of the user's that is a module is put; None: as it is.
    """
    if isinstance(loss, OwnPairLoss):
        return _Own(loss, device)
    losses: dict[str, PairLoss] = {made.name: made for made in (BCE(), Softmax(temperature), BPR(), Margin(margin))}
    return losses[loss]


def counts_of(divisor: Divisor, masked: Tensor) -> Tensor:
    """How much each group adds to the divisor, int64 [G]; times the weights of groups, where they have some.

    Args:
        divisor: of the loss.
        masked: bool [G, C], true where a candidate does not count.
    """
    negatives = (~masked).sum(dim=1)
    return {"groups": torch.ones_like(negatives), "scored": negatives + 1, "negatives": negatives}[divisor]


def own_pair_loss(named: str | None, given: PairFunction | None, dtype: torch.dtype) -> OwnPairLoss | None:
    """The loss that a user names or hands over, tried on a few groups; None where there is none.

    Args:
        named: ``config.loss``.
        given: that was handed over.
        dtype: in which scores are computed.

    Raises:
        InputError: for what is no such function, or gives no values or sums that trainers could add up.
    """
    found = own_function(named, given, "positive scores, negative scores and a mask")
    if found is None:
        return None
    function = found.function()
    counts = getattr(function, "counts", "groups")
    if counts not in COUNTS:
        raise InputError(f"the loss {found.name} says counts = {counts!r}; it is one of {', '.join(COUNTS)}")
    with torch.random.fork_rng(devices=[]):
        returns = _recognised(function, found.name, computed_in(dtype))
    return OwnPairLoss(name=found.name, pickled=found.pickled, returns=returns, divisor=COUNTS[counts])


def _recognised(function: PairFunction, name: str, dtype: torch.dtype) -> Returns:
    """Return what a function gives; of six groups, of which one has no candidate that counts."""
    draws = torch.Generator().manual_seed(0)
    positive = torch.randn(6, generator=draws, dtype=dtype).requires_grad_()
    negative = torch.randn(6, 3, generator=draws, dtype=dtype).requires_grad_()
    masked = torch.zeros(6, 3, dtype=torch.bool)
    masked[1], masked[2, 1] = True, True

    def values(rows: slice, hidden: float = 0) -> Tensor:
        return _called(function, name, positive[rows], negative[rows], masked[rows], hidden)

    whole = values(slice(6))
    returns = _returned(whole, name, positive)
    if not whole.requires_grad:
        raise InputError(f"the loss {name} does not depend on the scores")
    if not whole.isfinite().all():
        raise InputError(
            f"the loss {name} is not finite on scores around 0, or on a group whose candidates are masked"
        )
    bound = ROUNDING[dtype] * (1 + float(whole.detach().abs().max()))
    parts = [values(rows) for rows in (slice(2), slice(2, 6))]
    together: Any = torch.cat(parts) if returns == "values of groups" else parts[0] + parts[1]
    if together.shape != whole.shape or not (together - whole).abs().max() <= bound:
        raise InputError(
            f"the loss {name} is no sum over groups: of 2 and of 4 others it is not what it is of all; {ADVICE}"
        )
    if not (values(slice(6), hidden=1) - whole).abs().max() <= bound:
        raise InputError(f"the loss {name} depends on masked candidates; leave them out where the mask is true")
    return returns


def _called(
    function: PairFunction, name: str, positive: Tensor, negative: Tensor, masked: Tensor | None, hidden: float = 0
) -> Tensor:
    """What a function of the user's gives; it sees ``hidden`` for the score of a masked candidate."""
    if masked is None:
        masked = torch.zeros_like(negative, dtype=torch.bool)
    if not negative.shape[1]:
        negative, masked = F.pad(negative, (0, 1)), F.pad(masked, (0, 1), value=True)
    try:
        values: Any = function(positive, negative.masked_fill(masked, hidden), masked)
    except Exception as error:
        shapes = f"scores {list(positive.shape)} and {list(negative.shape)} and their mask"
        reason = " ".join(str(error).split())
        raise InputError(f"the loss {name} fails on {shapes}: {type(error).__name__}: {reason}") from error
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise InputError(f"the loss {name} gives {type(values).__name__}, not a tensor of numbers")
    return values


def _returned(values: Tensor, name: str, positive: Tensor) -> Returns:
    """Return what values are, by their shape."""
    if values.shape == positive.shape:
        return "values of groups"
    if values.ndim == 0:
        return "a sum"
    raise InputError(
        f"the loss {name} gives a tensor of shape {list(values.shape)} for {len(positive)} groups; {ADVICE}"
    )


def _softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), exactly also above 20, where PyTorch's softplus is linear."""
    return -F.logsigmoid(-x)


def _sums(f: Callable[[Tensor], Tensor], scores: Tensor, masked: Tensor | None) -> Tensor:
    """Sums [G] of a function of the candidates that count."""
    if masked is None:
        return f(scores).sum(dim=1)
    return f(scores.masked_fill(masked, 0)).masked_fill(masked, 0).sum(dim=1)
