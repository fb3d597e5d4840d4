"""Columns of features that give the label away are found, those that do so by luck or nearly are not.

Each is looked for twice: where all vertices are among those that are compared first, and where one is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.graphs import random_graph, regression_graph
from unit.data.test_looking import concerns_of, features_of

from gsplit.data.inspect import feature_columns
from gsplit.data.inspect import leaks as leaks_module
from gsplit.data.inspect.label_counts import label_counts
from gsplit.data.inspect.leaks import leaks_of

N = 240


@pytest.fixture(autouse=True, params=[1 << 13, 1], ids=["all-at-first", "few-at-first"])
def looked_at_first(request, monkeypatch):
    monkeypatch.setattr(leaks_module, "SOME", request.param)
    monkeypatch.setattr(feature_columns, "VALUES_AT_ONCE", 500)


def leaks(graph, categories=()):
    found = leaks_of(graph, features_of(graph), label_counts(graph), categories)
    assert found.left_out == ""
    return [(each.column, each.kind, each.target) for each in found.found]


def with_columns(graph, *columns, dtype=np.float32):
    """The graph with columns beside its own 5, which are noise: they have the numbers 5, 6, ..."""
    more = np.stack(columns, axis=1)
    return replace(graph, features=np.concatenate([graph.features, more], axis=1).astype(dtype))


def classes(count=4, n=N, unlabelled=20, seed=0):
    graph = random_graph(n, 2, classes=count, seed=seed)
    graph.labels[graph.test_idx[:unlabelled]] = -1
    return replace(graph, test_idx=graph.test_idx[unlabelled:])


@pytest.mark.parametrize("seed", range(5))
def test_noise_gives_nothing_away(seed):
    assert leaks(classes(seed=seed)) == []
    assert leaks(random_graph(N, 2, classes=4, seed=seed, multi_label=True)) == []
    assert leaks(regression_graph(N, 2, seed=seed)) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_columns_of_classes(dtype):
    graph = classes()
    noise = np.random.default_rng(1).random(N)
    of = np.where(graph.labels < 0, 17, graph.labels)  # what the others hold is not looked at
    graph = with_columns(
        graph,
        of,
        [5, -3, 40, 8][0] + 0 * of,  # constant
        np.take([5, -3, 40, 8, 1] + [0] * 20, of),  # another number for each class
        np.take([30.0, 10, 20, 0] + [9] * 14, of) + 9 * noise,  # ranges that do not overlap
        of == 2,
        np.where(of == 1, -5 - noise, noise),
        np.take([0, 1, 0, 1] + [0] * 14, of) + 2 * (noise > 0.5) * np.take([1, 1, 0, 0] + [0] * 14, of),
        dtype=dtype,
    )
    assert leaks(graph) == [
        (5, "is the class", None),
        (7, "tells the class", None),
        (8, "tells the class", None),
        (9, "is a class", 2),
        (10, "marks a class", 1),
    ]


@pytest.mark.parametrize("column", [5, 6, 7, 8])
@pytest.mark.parametrize("other", [1, 3])
def test_one_vertex_among_all_is_enough_to_give_nothing_away(column, other):
    """The last one of its class gets the value of one in class 2."""
    graph = classes()
    of, noise = graph.labels, np.random.default_rng(1).random(N)
    graph = with_columns(graph, of, of == 2, np.where(of == 2, -5 - noise, noise), np.take([7, 3, 5, 1, 0], of))
    assert leaks(graph) == [
        *((5, "is the class", None), (6, "is a class", 2), (7, "marks a class", 2), (8, "tells the class", None))
    ]
    graph.features[np.flatnonzero(of == other)[-1], column] = graph.features[np.flatnonzero(of == 2)[0], column]
    found = [(kind, target) for found, kind, target in leaks(graph) if found == column]
    # Of classes in a row, those at its ends are found all the same, but for the one that has the vertex.
    ends = [("marks a class", 0), *([("marks a class", 3)] if other == 1 else [])]
    assert found == (ends if column in (5, 8) else [])


def test_codes_of_classes_whose_ranges_overlap():
    graph = classes(3)
    random = np.random.default_rng(0)
    codes = np.array([[0, 4], [1, 3], [2, 5]])[np.maximum(graph.labels, 0), random.integers(0, 2, N)]
    many = np.arange(N)  # each number once: no vertex tells anything of another
    found = with_columns(graph, codes, codes - 1000, codes / 10, many)
    assert leaks(found) == [(5, "tells the class", None), (6, "tells the class", None)]
    # One of two features is 1 for each category, and three categories are two classes.
    graph = classes(2)
    city = np.where(graph.labels == 0, 1, random.choice([0, 2], N))
    found = with_columns(graph, *(city == each for each in range(3)))
    assert leaks(found) == [(6, "tells the class", None)]
    graph = classes(3)
    city = np.array([[0, 4], [1, 3], [2, 5]])[np.maximum(graph.labels, 0), random.integers(0, 2, N)]
    found = with_columns(graph, *(city == each for each in range(6)))
    assert leaks(found) == []
    assert leaks(found, [(5, 11)]) == [(5, "tells the class", None)]
    assert leaks(found, [(4, 11)]) == []  # column 4 is noise
    wrong = found.features.copy()
    wrong[np.flatnonzero(graph.labels == 0)[-1], 5:] = np.eye(6)[1]
    assert leaks(replace(found, features=wrong), [(5, 11)]) == []


def test_classes_of_few_vertices_are_told_by_luck():
    few = random_graph(4, 1, classes=2)
    few.labels[:] = [0, 0, 1, 1]
    few = replace(few, features=np.arange(8, dtype=np.float32).reshape(4, 2))
    assert leaks(few) == []
    graph = classes()
    graph.labels[graph.labels == 3] = 2
    graph.labels[np.flatnonzero(graph.labels == 2)[:4]] = 3  # 4 vertices
    found = with_columns(graph, graph.labels == 3, graph.labels == 2)
    assert leaks(found) == [(6, "is a class", 2)]


def test_labels_that_a_vertex_has_several_of():
    graph = random_graph(N, 2, classes=4, multi_label=True)
    graph.labels[:9] = np.nan
    graph = replace(
        graph,
        **{name: np.setdiff1d(getattr(graph, name), range(9)) for name in ("train_idx", "test_idx", "valid_idx")},
    )
    own, noise = np.nan_to_num(graph.labels, nan=5), np.random.default_rng(1).random(N)
    nearly = own[:, 0].copy()
    nearly[200] = 1 - nearly[200]
    graph = with_columns(graph, own[:, 1], 3 - own[:, 2] - 0.9 * noise, nearly)
    assert leaks(graph) == [(5, "is a class", 1), (6, "marks a class", 2)]


def test_outputs():
    graph = regression_graph(N, 2, outputs=2, unknown=0.3)
    y, noise = np.nan_to_num(graph.labels), np.random.default_rng(1).standard_normal(N)
    graph = with_columns(graph, y[:, 0], 1000 - 3 * y[:, 1], y[:, 0] + 0.05 * noise, y[:, 0] ** 3)
    assert leaks(graph) == [(5, "follows an output", 0), (6, "follows an output", 1)]
    few = np.full((N, 1), np.nan, np.float32)
    few[:9, 0] = np.arange(9)
    graph = replace(
        graph,
        labels=few,
        num_classes=1,
        train_idx=np.arange(9),
        valid_idx=few[:0, 0].astype(int),
        test_idx=few[:0, 0].astype(int),
    )
    assert leaks(with_columns(graph, few[:, 0])) == []
    few[:12, 0] = np.arange(12) == 3  # 1 of 12: one of 12 columns with a single 1 is the same
    assert leaks(with_columns(graph, np.nan_to_num(few[:, 0]))) == []


def test_columns_that_are_not_finite_are_left_out_and_too_many_are_said(monkeypatch):
    graph = classes()
    graph = with_columns(graph, graph.labels)
    x = graph.features.copy()
    x[0, 5] = np.nan
    assert leaks(graph)
    assert leaks(replace(graph, features=x)) == []
    monkeypatch.setattr(leaks_module, "LARGEST_TABLE", 23)
    found = leaks_of(graph, features_of(graph), label_counts(graph))
    assert (found.found, found.left_out) == ((), "4 classes times 6 columns are too many to compare")


def test_lines_about_leaks():
    graph = classes()
    names = tuple(f"name {at}" for at in range(4))
    of = graph.labels
    graph = replace(with_columns(graph, of, of * 3, of == 1, of == 0), classes=names)
    found = concerns_of(graph)
    assert "feature 5 is the class itself" in found["leak: is the class"]
    assert "feature 6 alone tells the class" in found["leak: tells the class"]
    assert "features 7 (class 1 (name 1)), 8 (class 0 (name 0)) are classes" in found["leak: is a class"]
    assert all("known beforehand?" in text for kind, text in found.items() if "leak" in kind)


def test_chances():
    """Against counting all orders, or drawing many."""
    assert np.exp(leaks_module.chance_of_order([2, 3])) == pytest.approx(1 / 10)
    assert np.exp(leaks_module.chance_of_groups([2, 3])) == pytest.approx(2 / 10)
    random = np.random.default_rng(0)
    drawn = random.choice(2, (100_000, 5), p=[0.25, 0.75])
    pure = (drawn[:, 0] == drawn[:, 1]) & (drawn[:, 2:4].min(axis=1) == drawn[:, 2:4].max(axis=1))
    assert np.exp(leaks_module.chance_of_pure_values(np.array([2, 2, 1, 0]), np.array([1, 3]))) == pytest.approx(
        pure.mean(), rel=0.02
    )
