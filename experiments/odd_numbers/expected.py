"""What is right, by NumPy and scikit-learn: features as stored, logits by dense algebra, losses and metrics.

Nothing of gsplit is imported. Legend: n vertices, C classes, labels or outputs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def score(name: str, logits: Floats, labels: NDArray[Any], task: str) -> float | None:
    """A metric of some vertices; None where it is not defined, or a logit is not finite."""
    if not len(logits) or not np.isfinite(logits).all():
        return None
    if task == "regression":
        return _error(name, logits, labels)
    if name in ("auroc", "ap"):
        return _ranked(name, logits, labels, task)
    if task == "labels":
        said, true = logits > 0, labels > 0.5
        if name == "accuracy":
            return float((said == true).all(axis=1).mean())
        hits, all_of = (said & true).sum(axis=0), said.sum(axis=0) + true.sum(axis=0)
    else:
        said, true = logits.argmax(axis=1), labels.astype(np.int64)
        if name in ("accuracy", "micro-f1"):  # every vertex has one class, and is said to have one
            return float((said == true).mean())
        there = np.union1d(said, true)
        hits = np.array([((said == c) & (true == c)).sum() for c in there])
        all_of = np.array([(said == c).sum() + (true == c).sum() for c in there])
    if name == "macro-f1":
        return float(np.mean([2 * hit / total if total else 0.0 for hit, total in zip(hits, all_of, strict=True)]))
    return float(2 * hits.sum() / all_of.sum()) if all_of.sum() else 0.0


def bounds(name: str, logits: Floats, labels: NDArray[Any], task: str, rounding: float) -> tuple[float, float]:
    """The least and the most that a metric of classes or labels may be where logits differ by rounding."""
    right = labels > 0.5 if task == "labels" else labels.astype(np.int64)[:, None] == np.arange(logits.shape[1])
    gap = rounding * np.abs(logits).max(axis=1, keepdims=True).max(initial=0.0) * np.where(right, 1, -1)
    scores = [score(name, logits + sign * gap, labels, task) for sign in (-1, 0, 1)]
    numbers = [number for number in scores if number is not None]
    return min(numbers), max(numbers)


def _error(name: str, logits: Floats, labels: Floats) -> float | None:
    """The mean over the outputs of which something is known."""
    with np.errstate(over="ignore"):
        gaps = [(said - true)[~np.isnan(true)] for said, true in zip(logits.T, labels.T, strict=True)]
        each = [np.abs(gap).mean() if name == "mae" else np.sqrt(np.square(gap).mean()) for gap in gaps if len(gap)]
    return float(np.mean(each)) if each else None


def _ranked(name: str, logits: Floats, labels: NDArray[Any], task: str) -> float | None:
    from sklearn import metrics

    if task == "labels":
        members, scores = labels > 0.5, logits
    else:
        members = labels.astype(np.int64)[:, None] == np.arange(logits.shape[1])
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
        if logits.shape[1] == 2:
            members, scores = members[:, 1:], scores[:, 1:]
    metric = metrics.roc_auc_score if name == "auroc" else metrics.average_precision_score
    defined = [c for c in range(members.shape[1]) if 0 < members[:, c].sum() < len(members)]
    return float(np.mean([metric(members[:, c], scores[:, c]) for c in defined])) if defined else None


def loss(logits: Floats, labels: NDArray[Any], task: str, flags: dict[str, Any]) -> float:
    """The loss of some targets, as the flags ask for it; NaN or infinite where it is."""
    with np.errstate(all="ignore"):
        if task == "regression":
            return _of_numbers(logits, labels, flags)
        gamma = flags.get("focal_gamma", 0.0)
        if task == "labels":
            weight = flags.get("pos_weight", np.ones(logits.shape[1]))
            each = weight * labels * np.logaddexp(0, -logits) + (1 - labels) * np.logaddexp(0, logits)
            wrong = np.where(labels > 0.5, _sigmoid(-logits), _sigmoid(logits))
            return float((each * wrong**gamma if gamma else each).mean(axis=1).mean())
        weight, smoothing = flags.get("class_weights", np.ones(logits.shape[1])), flags.get("label_smoothing", 0.0)
        labels = labels.astype(np.int64)
        high = logits.max(axis=1, keepdims=True)
        logs = logits - high - np.log(np.exp(logits - high).sum(axis=1, keepdims=True))
        right = logs[np.arange(len(labels)), labels]
        each = -(1 - smoothing) * weight[labels] * right
        if smoothing:
            each = each - smoothing * (weight * logs).mean(axis=1)
        if gamma:
            each = each * (-np.expm1(right)) ** gamma
        whole = weight[labels].sum()
        return float(each.sum() / whole) if math.isfinite(whole) else math.nan


def _of_numbers(logits: Floats, labels: Floats, flags: dict[str, Any]) -> float:
    gaps = np.abs(logits - labels)[~np.isnan(labels)]
    kind, delta = flags.get("loss", "mse"), flags.get("huber_delta", 1.0)
    if kind == "huber":
        gaps = np.where(gaps <= delta, 0.5 * gaps**2, delta * (gaps - 0.5 * delta))
    return float((gaps**2 if kind == "mse" else gaps).mean()) if len(gaps) else math.nan


def _sigmoid(x: Floats) -> Floats:
    return np.exp(-np.logaddexp(0, -x))


def standardized(x: Floats, training: NDArray[np.int64]) -> Floats:
    """Columns with mean 0 and standard deviation 1 over the training vertices; NaN of those that do not vary."""
    rows = x[training] if len(training) else x
    scale = np.nanmax(np.abs(rows), axis=0)
    scale = np.where(scale > 0, scale, 1.0)  # or squares of what is huge would overflow
    rows, x = rows / scale, x / scale
    means, deviations = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    varies = deviations > 1e-5 * np.maximum(np.abs(means), 1e-300)
    with np.errstate(all="ignore"):
        return np.where(varies, (x - means) / deviations, np.nan)


def dense_logits(
    model: str, state: dict[str, Floats], x: Floats, edges: NDArray[np.int64], weight: Floats | None, eps: float
) -> tuple[Floats, Floats]:
    """Logits [n, C] of two layers of ``sage`` or ``gcn``, and [n, C] what rounding may make of each at most.

    Args:
        model: without norms and skip connections.
        state: its parameters by name.
        x: the features as the model gets them.
        edges: [2, E] from, to.
        weight: of the edges.
        eps: of the type in which the model computes.
    """
    n, (sources, destinations) = len(x), edges
    sums = np.zeros((n, n))
    np.add.at(sums, (destinations, sources), 1.0 if model == "sage" or weight is None else weight)
    with np.errstate(all="ignore"):
        if model == "sage":
            sums /= np.maximum(sums.sum(axis=1, keepdims=True), 1)
        else:
            whole = sums + np.eye(n)
            factor = 1 / np.sqrt(whole.sum(axis=1))
            sums = factor[:, None] * whole * factor
        h, size = x, np.abs(x)
        for layer in range(2):
            if model == "sage":
                own, bias, other = (
                    state[f"convs.{layer}.{k}"] for k in ("lin_self.weight", "lin_self.bias", "lin_neigh.weight")
                )
                size = size @ abs(own).T + abs(bias) + (abs(sums) @ size) @ abs(other).T
                h = h @ own.T + bias + (sums @ h) @ other.T
            else:
                lin, bias = state[f"convs.{layer}.lin.weight"], state[f"convs.{layer}.bias"]
                size = (abs(sums) @ size) @ abs(lin).T + abs(bias)
                h = (sums @ h) @ lin.T + bias
            h = np.maximum(h, 0) if layer == 0 else h
    return h, 100 * eps * size
