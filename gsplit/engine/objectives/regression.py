"""Numbers to be predicted, one or several of a vertex, of which some may not be known.

An entry of the labels that is NaN counts nothing: it has no loss, no share in what losses are divided by, and none
in scores. Legend: n vertices, C outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class Regression:
    """Mean squared, absolute or Huber error over the known entries, as PyTorch's; labels float32 [n, C].

    The score is the root of the mean squared error (RMSE) of each output, and the mean of these, as scikit-learn's
    (``multioutput="uniform_average"``); the loss is one mean over all known entries.

    Args:
        loss: ``mse``, ``mae`` or ``huber``.
        delta: of ``huber``: where the loss goes from squared to absolute.
        outputs: C.
        dtype: in which known entries are counted; exact up to 2**53 in float64, 2**24 in float32.
    """

    name = "rmse"

    def __init__(
        self, loss: str = "mse", *, delta: float = 1.0, outputs: int = 1, dtype: torch.dtype = torch.float64
    ) -> None:
        self._loss, self._delta, self._outputs, self._dtype = loss, delta, outputs, dtype
        self.num_counts = 2 * outputs

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] sums over the known entries."""
        errors = _errors(logits, labels)
        if self._loss == "mse":
            each = errors.square()
        elif self._loss == "mae":
            each = errors.abs()
        else:
            each = F.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=self._delta)
        return each.sum(dim=1)

    def weights(self, labels: Tensor) -> Tensor:
        """[n] numbers of known entries."""
        return (~labels.isnan()).sum(dim=1, dtype=self._dtype)

    def counts(self, logits: Tensor, labels: Tensor) -> list[float]:
        """[2 C] sums of squared errors, and numbers of known entries, of each output."""
        errors = _errors(logits.double(), labels)
        return [*errors.square().sum(dim=0).tolist(), *(~labels.isnan()).sum(dim=0).tolist()]

    def score(self, counts: Sequence[float]) -> float:
        """RMSE, the mean over the outputs of which something is known; not a number where nothing is."""
        squares, known = counts[: self._outputs], counts[self._outputs :]
        roots = [math.sqrt(total / number) for total, number in zip(squares, known, strict=True) if number]
        return sum(roots) / len(roots) if roots else math.nan

    def predict(self, logits: Tensor) -> Tensor:
        """The numbers themselves, [n, C]; NaN for all of a vertex where one is not finite."""
        return missing_where_not_finite(logits)


def missing_where_not_finite(rows: Tensor) -> Tensor:
    """Rows [n, D] as they are, but NaN throughout where a value of a row is NaN or infinite."""
    finite = rows.isfinite().all(dim=-1, keepdim=True)
    return rows if finite.all() else rows.masked_fill(~finite, math.nan)


def _errors(logits: Tensor, labels: Tensor) -> Tensor:
    """[n, C] what is predicted minus what is known; 0, without a slope, where nothing is."""
    return torch.where(labels.isnan(), 0, logits - labels)
