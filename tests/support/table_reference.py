"""The store that NumPy and pandas make of a random case of :mod:`support.random_tables`."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pandas as pd

from support.random_tables import Case, Column

ONE_OF: dict[str, Callable[[list[float]], float]] = {
    "first": lambda weights: weights[0],
    "drop": lambda weights: weights[0],
    "last": lambda weights: weights[-1],
    "sum": math.fsum,
    "mean": lambda weights: math.fsum(weights) / len(weights),
    "max": max,
    "count": len,
}
"""The weight of repeated edges, of theirs."""


def is_weighted(case: Case) -> bool:
    """Return whether the store has weights."""
    return case.weights is not None or case.options["duplicates"] in ("sum", "count")


def adjacency(case: Case) -> list[list[tuple[int, float]]]:
    """The in-neighbours of each vertex, with weights, in their order."""
    options, n = case.options, len(case.ids)
    weights = case.weights or [1.0] * len(case.edges)
    edges = [(u, v, w) for (u, v), w in zip(case.edges, weights, strict=True)]
    if options["self_loops"] == "drop":
        edges = [edge for edge in edges if edge[0] != edge[1]]
    if (rule := options["duplicates"]) != "keep":
        of_pair: dict[tuple[int, int], list[float]] = {}
        for u, v, w in edges:
            of_pair.setdefault((u, v), []).append(w)
        edges = [(u, v, ONE_OF[rule](some)) for (u, v), some in of_pair.items()]
    if options["undirected"]:
        there: dict[tuple[int, int], int] = {}
        for u, v, _ in edges:
            there[u, v] = there.get((u, v), 0) + 1
        met: dict[tuple[int, int], int] = {}
        for u, v, w in list(edges):
            met[u, v] = met.get((u, v), 0) + 1
            if u != v and met[u, v] > there.get((v, u), 0):
                edges.append((v, u, w))
    if options["self_loops"] == "add":
        looped = {u for u, v, _ in edges if u == v}
        edges += [(v, v, 1.0) for v in range(n) if v not in looped]
    return [[(u, w) for u, to, w in edges if to == v] for v in range(n)]


def features_of(case: Case) -> np.ndarray:
    """The features [N, D] as pandas makes them, in the type that is asked for."""
    n, options = len(case.ids), case.options
    training = sorted(v for v, name in case.sets.items() if name == "train") or list(range(n))
    made = []
    for table in case.features:
        for column in table.columns.values():
            if column.kind != "skip":
                values = pd.Series(column.values, index=table.rows, dtype=object)
                made += _features(column, values, training, n, options)
    return np.stack(made, axis=1).astype(options.get("feature_dtype", "float32"))


def _features(column: Column, values: pd.Series, training: list[int], n: int, options: dict) -> list[np.ndarray]:
    there = values.dropna()
    names = sorted(set(there)) if column.kind in ("category", "code") else []
    if column.kind == "category":
        each = [there.map(lambda value, name=name: float(value == name)) for name in names]
    elif column.kind == "code":
        each = [there.map(lambda value: names.index(value) + 1.0)]
    elif column.kind == "time":
        each = [there.map(lambda value: value.timestamp() / 86_400)]
    else:
        each = [there.map(float)]
    made = []
    for some in (series.astype(float).reindex(range(n)) for series in each):
        of_training = some.loc[training].dropna().tolist()
        mean = float(sum(map(Fraction, of_training)) / max(1, len(of_training)))
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in of_training) / max(1, len(of_training)))
        filled = some.fillna(mean if options["missing"] == "mean" and column.kind != "code" else 0.0).to_numpy()
        if options["standardize"] and column.kind in ("number", "time"):
            filled = (filled - mean) / (deviation if deviation > 1e-12 * abs(mean) else 1.0)
        made.append(filled)
    return made


def lacks_moments(case: Case) -> bool:
    """Return whether a mean is wanted of a column without a value among the training vertices."""
    training = {v for v, name in case.sets.items() if name == "train"} or set(range(len(case.ids)))
    options = case.options
    for table in case.features:
        for column in table.columns.values():
            takes = (options["missing"] == "mean" and column.kind not in ("code", "skip")) or (
                options["standardize"] and column.kind in ("number", "time")
            )
            there = {v for v, value in zip(table.rows, column.values, strict=True) if value is not None}
            if takes and not there & training:
                return True
    return False
