"""Metrics of logits that were gathered, by scikit-learn, on one trainer.

Legend: n vertices, C classes, or outputs of a regression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.config.optimisation import ERRORS
from gsplit.errors import InputError

RANKED = ("auroc", "ap")
"""Metrics of how vertices are ranked, each class against the others."""


def check_installed() -> None:
    """Check whether scikit-learn is there.

    Raises:
        InputError: where it is not.
    """
    try:
        import sklearn.metrics  # noqa: F401
    except ImportError as error:
        raise InputError(f"--metrics needs scikit-learn ({error}): pip install 'gsplit[metrics]'") from None


def key_of(name: str) -> str:
    """Return what a metric is called in files: ``macro-f1`` is ``macro_f1``."""
    return name.replace("-", "_")


def is_defined(name: str, labels: NDArray[Any], num_classes: int) -> bool:
    """Return whether a metric of vertices with these labels is defined, whatever a model says of them."""
    if name in ERRORS:
        return not np.isnan(labels).all()
    if name not in RANKED:
        return len(labels) > 0
    return len(_defined(_members(labels, num_classes))) > 0


def values_of(names: Sequence[str], logits: NDArray[Any], labels: NDArray[Any]) -> list[float]:
    """The metrics of some vertices, in the order of their names; NaN where one is not defined.

    No metric is defined where a logit is not finite: such a row, too, has a largest entry, which says nothing.

    ``auroc`` and ``ap`` (average precision) are means over the classes, each against the others, of those that some
    vertices have and others have not; with two classes they are those of the second. ``macro-f1`` is the mean over
    the classes that some vertex has, or is predicted to have; with several labels over all of them, and ``accuracy``
    is the share of vertices all of whose labels are right. ``rmse`` and ``mae`` are means over the outputs, each of
    the vertices whose label of it is known.

    Args:
        names: of :data:`gsplit.config.optimisation.METRICS`.
        logits: float [n, C].
        labels: int [n], or [n, C] above 0.5 where a vertex has a label; of a regression numbers, NaN where unknown.
    """
    if not len(logits) or not np.isfinite(logits).all():
        return [math.nan] * len(names)
    if names[0] in ERRORS:  # so are all of them
        return [_error(name, logits.astype(np.float64), labels.astype(np.float64)) for name in names]
    if labels.ndim == 2:
        predicted, true = logits > 0, labels > 0.5
    else:
        predicted, true = logits.argmax(axis=1), labels.astype(np.int64)
    several = labels.ndim == 2
    ranks = any(name in RANKED for name in names)
    ranked = (_members(labels, logits.shape[1]), _scores(logits, several)) if ranks else ()
    return [_ranked(name, *ranked) if name in RANKED else _counted(name, predicted, true) for name in names]


def _scores(logits: NDArray[Any], multi_label: bool) -> NDArray[np.float64]:
    """Return what vertices are ranked by, float64 [n, C], or [n, 1] for two classes."""
    logits = logits.astype(np.float64)
    if multi_label:
        return logits
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers[:, 1:] if logits.shape[1] == 2 else powers


def _members(labels: NDArray[Any], num_classes: int) -> NDArray[np.bool_]:
    """[n, C] who is of which class, or [n, 1] who is of the second of two."""
    if labels.ndim == 2:
        return labels > 0.5
    members = labels.astype(np.int64)[:, None] == np.arange(num_classes)
    return members[:, 1:] if num_classes == 2 else members


def _defined(members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The classes that some vertices have and others have not."""
    counts = members.sum(axis=0)
    return np.flatnonzero((counts > 0) & (counts < len(members)))


def _counted(name: str, predicted: NDArray[Any], true: NDArray[Any]) -> float:
    from sklearn import metrics

    if name == "accuracy":
        return float(metrics.accuracy_score(true, predicted))
    average = name.removesuffix("-f1")
    if true.ndim == 2 and true.shape[1] == 1:  # one label, which scikit-learn would take for two classes
        true, predicted, average = true[:, 0], predicted[:, 0], "binary"
    return float(metrics.f1_score(true, predicted, average=average, zero_division=0.0))


def _error(name: str, predicted: NDArray[np.float64], true: NDArray[np.float64]) -> float:
    from sklearn import metrics

    of_outputs = []
    for predicted_n, true_n in zip(predicted.T, true.T, strict=True):
        known = ~np.isnan(true_n)
        if not known.any():
            continue
        metric = metrics.mean_absolute_error if name == "mae" else metrics.root_mean_squared_error
        of_outputs.append(float(metric(true_n[known], predicted_n[known])))
    return float(np.mean(of_outputs)) if of_outputs else math.nan


def _ranked(name: str, members: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    from sklearn import metrics

    metric = metrics.roc_auc_score if name == "auroc" else metrics.average_precision_score
    defined = _defined(members)
    if not len(defined):
        return math.nan
    return float(np.mean([metric(members[:, c], scores[:, c]) for c in defined]))
