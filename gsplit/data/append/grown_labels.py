"""Labels of a store that grows: those of before, of which some are replaced, and those of the new vertices.

N vertices in all, of which the first N0 were there before; C classes, or outputs of a regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.append.growth import Growth, bare, say_updated
from gsplit.data.append.named_rows import Noted
from gsplit.data.importers.arrays import check_class_count, clean_labels, numbers_to_regress
from gsplit.data.importers.source import GraphSource
from gsplit.data.importers.vertex_files import VertexFiles, attach
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class GrownLabels:
    """Labels of all N vertices as in a store, or None, and what is known of their classes."""

    labels: NDArray[Any] | None
    num_classes: int | None
    classes: tuple[str, ...] | None


def grown_labels(growth: Growth, files: VertexFiles, in_order: GraphSource | None, task: str) -> GrownLabels:
    """Labels: those there were, of which some are replaced, and those of the new vertices; others are unlabelled.

    Classes keep their numbers, and names of classes that are new come after those there were.

    Args:
        files: with the table of labels, if there is one.
        in_order: that table, where its rows are those of the new vertices.
        task: of the store.

    Raises:
        InputError: for labels of another kind than those of the store.
    """
    graph, path = growth.graph, files.labels
    there = bool(graph.num_classes)
    if path is None:
        if not there:
            return GrownLabels(labels=None, num_classes=None, classes=None)
        labels = _longer(graph.labels, growth.all)
        return GrownLabels(labels=labels, num_classes=graph.num_classes, classes=graph.classes)
    noted = Noted(growth.ids)
    given = attach(bare(growth.where), files.only("labels"), noted) if in_order is None else in_order
    assert given.labels is not None
    if task == "regression" and given.labels_are_names:
        raise InputError(f"{path} holds classes, and the labels of {growth.where} are numbers (--task regression)")
    rows = len(given.labels) if given.labels.ndim else 0
    if in_order is not None:
        growth.check_rows(rows, path)
        noted.named[growth.old :] = True
    listed = given.labels_are_lists
    if listed:  # of one class, too
        new, count = given.labels.astype(np.float32), given.labels.shape[1]
    else:
        new, count = _as_stored(given.labels, rows, task, str(path))
    if there and (new.ndim != graph.labels.ndim or (new.ndim == 2 and not listed and count != graph.num_classes)):
        kinds = [f"{labels.shape[1]} columns" if labels.ndim == 2 else "one class" for labels in (new, graph.labels)]
        raise InputError(f"{path} has labels of {kinds[0]} a vertex, and {growth.where} of {kinds[1]}")
    classes = given.classes
    if there and (new.ndim == 1 or listed):
        numbers, classes = _same_classes(
            count, given.classes, graph.classes, bool((new >= 0).any()), path, growth.where
        )
        if classes is None and new.ndim == 1 and count > graph.num_classes:
            check_class_count(np.concatenate([graph.labels, new]), count, str(path))
        count = max(count, graph.num_classes) if classes is None else len(classes)
        new = np.append(numbers, -1)[new] if new.ndim == 1 else _placed(new, numbers, count)
    elif there:
        classes = graph.classes
    say_updated(path, int(noted.named[: growth.old].sum()), "labels of vertices that were there")
    base = graph.labels if there else np.full((0, *new.shape[1:]), 0, new.dtype)
    if listed and there:
        base = _placed(base, np.arange(base.shape[1]), count)
    labels = _longer(base, growth.all)
    labels[noted.named] = new if in_order is not None else new[noted.named]
    return GrownLabels(labels=labels, num_classes=count, classes=classes)


def _as_stored(labels: NDArray[Any], rows: int, task: str, what: str) -> tuple[NDArray[Any], int]:
    """Labels as in a store, and the number of classes or outputs."""
    return numbers_to_regress(labels, rows, what) if task == "regression" else clean_labels(labels, rows, None, what)


def _longer(labels: NDArray[Any], n: int) -> NDArray[Any]:
    """Labels of n vertices: these, and after them what stands for none."""
    longer = np.full((n, *labels.shape[1:]), -1 if labels.ndim == 1 else np.nan, labels.dtype)
    longer[: len(labels)] = labels
    return longer


def _placed(labels: NDArray[Any], numbers: NDArray[np.int64], count: int) -> NDArray[Any]:
    """Labels of 0 and 1 [n, C] in the columns of these numbers [C] of ``count`` classes; NaN stays for unlabelled."""
    placed = np.zeros((len(labels), count), labels.dtype)
    placed[:, numbers] = labels
    placed[np.isnan(labels).any(axis=1)] = np.nan
    return placed


def _same_classes(
    count: int, names: tuple[str, ...] | None, known: tuple[str, ...] | None, some: bool, path: Path, where: str
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """The numbers that classes 0 .. count - 1 have in the store, and the names of all classes.

    Args:
        names: of these classes.
        known: of those of the store.
        some: whether any vertex has a class.
        path: the file of labels.
        where: the store, for messages.
    """
    if known is None and names is not None:
        raise InputError(f"{path} has names of classes, such as {names[0]!r}, and the classes of {where} have none")
    if known is None or not some:
        return np.arange(count), known
    if names is None:
        raise InputError(
            f"{path} has numbers of classes, and those of {where} have names; begin it with a row whose class is a "
            "name"
        )
    number = {name: at for at, name in enumerate(known)}
    for name in names:
        number.setdefault(name, len(number))
    return np.array([number[name] for name in names], np.int64), tuple(number)
