"""Classes: one of several, or any number of labels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

NO_CLASS, NO_LABELS = -1, 255
"""What stands for the class, and for each of the labels, of a vertex whose logits are not finite."""


class MultiClass:
    """One class of several: cross-entropy and accuracy; labels int64 [n].

    Args:
        weights: [C] what each class counts; None: 1.
        smoothing: the share of each target's loss that all classes have alike.
        gamma: of the focal loss (Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, equation 4); 0 is
            the plain one.
    """

    name = "accuracy"
    num_counts = 2

    def __init__(self, weights: Tensor | None = None, *, smoothing: float = 0.0, gamma: float = 0.0) -> None:
        self._weights, self._smoothing, self._gamma = weights, smoothing, gamma

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] cross-entropies."""
        weights = None if self._weights is None else self._weights.to(logits)
        each = F.cross_entropy(logits, labels, weights, reduction="none", label_smoothing=self._smoothing)
        if not self._gamma:
            return each
        right = F.log_softmax(logits, dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)
        return _powers(-torch.expm1(right), self._gamma) * each

    def weights(self, labels: Tensor) -> Tensor | None:
        """[n] weights of the labels' classes; None without weights."""
        return None if self._weights is None else self._weights.to(labels.device)[labels]

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[right, all] counts of vertices."""
        return [int((logits.argmax(dim=1) == labels).sum()), len(labels)]

    def score(self, counts: Sequence[float]) -> float:
        """Share of vertices whose class is right."""
        right, total = counts
        return right / total if total else 0.0

    def predict(self, logits: Tensor) -> Tensor:
        """Most likely classes, int64 [n]; :data:`NO_CLASS` where a logit is not finite."""
        return torch.where(logits.isfinite().all(dim=1), logits.argmax(dim=1), NO_CLASS)


class MultiLabel:
    """Any number of labels: binary cross-entropy, averaged over the classes, and micro-averaged F1.

    Labels are float32 [n, C].

    Args:
        pos_weight: [C] what having a label counts beside not having it; None: 1.
        gamma: of the focal loss, as for one class of several, label by label.
    """

    name = "f1"
    num_counts = 3

    def __init__(self, pos_weight: Tensor | None = None, *, gamma: float = 0.0) -> None:
        self._pos_weight, self._gamma = pos_weight, gamma

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] means over the classes."""
        labels = labels.to(logits.dtype)
        pos_weight = None if self._pos_weight is None else self._pos_weight.to(logits)
        each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none", pos_weight=pos_weight)
        if self._gamma:
            each = each * _powers((logits * (1 - 2 * labels)).sigmoid(), self._gamma)
        return each.sum(dim=1) / max(1, logits.shape[1])

    def weights(self, labels: Tensor) -> None:
        """Every vertex weighs 1."""

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[true positives, false positives, false negatives] counts of labels."""
        predicted, true = logits > 0, labels > 0.5
        return [int((predicted & true).sum()), int((predicted & ~true).sum()), int((~predicted & true).sum())]

    def score(self, counts: Sequence[float]) -> float:
        """F1 over all labels of all vertices."""
        true_positives, false_positives, false_negatives = counts
        total = 2 * true_positives + false_positives + false_negatives
        return 2 * true_positives / total if total else 0.0

    def predict(self, logits: Tensor) -> Tensor:
        """Labels that are more likely than not, uint8 [n, C]; :data:`NO_LABELS` where a logit is not finite."""
        labels = (logits > 0).to(torch.uint8)
        return labels.masked_fill_(~logits.isfinite().all(dim=1, keepdim=True), NO_LABELS)


def _powers(wrong: Tensor, gamma: float) -> Tensor:
    """Probabilities of what is wrong to a power; at 0 its slope may be infinite, and is taken as 0."""
    return wrong.clamp_min(torch.finfo(wrong.dtype).tiny) ** gamma
