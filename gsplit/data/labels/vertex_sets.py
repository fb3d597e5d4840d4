"""Vertex sets that are made: drawn at random, parted by time, and those of a store that grows.

N vertices, C classes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from math import lcm
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS
from gsplit.errors import InputError

SECONDS_A_DAY = 86_400.0

logger = logging.getLogger(__name__)


def labelled_vertices(labels: NDArray[Any], *, some: bool) -> NDArray[np.bool_]:
    """[N] True where a vertex has a label.

    Args:
        labels: as in a store, [N] or [N, C].
        some: whether some of the C labels are enough.
    """
    if labels.ndim == 1:
        return labels >= 0
    there = ~np.isnan(labels)
    return there.any(axis=1) if some else there.all(axis=1)


def random_sets(
    labels: NDArray[Any],
    shares: Sequence[float],
    seed: int,
    where: str,
    *,
    some: bool = False,
    stratify: bool = False,
) -> dict[str, NDArray[np.int64]]:
    """Draw ``train``, ``valid`` and ``test`` from the labelled vertices; ids ascend.

    Args:
        labels: as in a store, [N] or [N, C].
        shares: of train, valid and test among the labelled vertices.
        some: whether some of its [C] labels are enough for a vertex.
        stratify: give each class its share in each set (:func:`counts_by_class`).

    Raises:
        InputError: where no vertex is labelled, or classes are asked for and a vertex may have several.
    """
    if stratify and labels.ndim != 1:
        raise InputError(
            f"{where}: --stratify draws class by class, and a vertex may have several of these labels; drop it"
        )
    labelled = np.flatnonzero(labelled_vertices(labels, some=some))
    if not len(labelled):
        raise InputError(f"{where}: --split needs labels, and no vertex has one; give --labels FILE")
    generator = np.random.Generator(np.random.PCG64(seed))
    order = generator.permutation(labelled)
    if stratify:
        return _by_class(order, labels[order], shares, generator)
    ends = np.minimum(np.rint(np.cumsum(shares) * len(order)), len(order)).astype(np.int64)
    return {key: np.sort(order[a:b]) for key, a, b in zip(VERTEX_SETS, [0, *ends], ends, strict=False)}


def _by_class(
    order: NDArray[np.int64], labels: NDArray[np.int64], shares: Sequence[float], generator: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """The sets out of vertices [n] in random order, with the label of each."""
    by_class = order[np.argsort(labels, kind="stable")]
    _, sizes = np.unique(labels, return_counts=True)
    counts = counts_by_class(sizes.tolist(), shares, generator)
    set_of = np.repeat(np.tile(np.arange(len(VERTEX_SETS) + 1), len(sizes)), counts.ravel())
    return {key: np.sort(by_class[set_of == number]) for number, key in enumerate(VERTEX_SETS)}


def counts_by_class(
    sizes: Sequence[int], shares: Sequence[float], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return how many vertices of each class go to train, valid, test and none of them, int64 [classes, 4].

    Shares are rounded by largest remainder (Hamilton): each set gets the whole part of its share, and what is left of
    the class goes, one vertex each, to those that lack most; of equals chance decides. No count is off by 1 or more.

    Args:
        sizes: labelled vertices of each class.
        generator: decides between equals.
    """
    exact = [Fraction(str(float(share))) for share in shares]  # 0.6 is three fifths, which no float is
    exact.append(max(Fraction(0), 1 - sum(exact, Fraction(0))))
    denominator = lcm(*(share.denominator for share in exact))
    weights = [int(share * denominator) for share in exact]
    total = sum(weights)
    counts = np.zeros((len(sizes), len(weights)), np.int64)
    chances = generator.random(counts.shape).tolist()
    for row, size, chance in zip(counts, sizes, chances, strict=True):
        whole, lacking = zip(*(divmod(size * weight, total) for weight in weights), strict=True)
        row[:] = whole
        first = sorted(range(len(weights)), key=lambda i: (-lacking[i], chance[i]))
        row[first[: size - sum(whole)]] += 1
    return counts


@dataclass(frozen=True, kw_only=True)
class Times:
    """When each vertex was."""

    values: NDArray[np.float64]
    """[N] days since 1970-01-01 UTC, or any numbers; NaN: not known."""
    are_dates: bool
    called: str
    """Name of the column in messages."""
    vertices: NDArray[np.int64] | None = None
    """[rows], the vertex of each row, or -1; None: each vertex has one."""
    old: int | None = None
    """Number of the first vertices, which were there before and without a row stay in their set; None where no store
    grows."""


def check_bounds(
    bounds: Sequence[float | str], times: Times, flag: str = "--split", by: str = "--split-by"
) -> tuple[float, float]:
    """The two bounds as numbers of the kind that the times are.

    Args:
        flag: which gives the bounds, for messages.
        by: which gives the times.

    Raises:
        InputError: for other than two of that kind, the first not above the second.
    """
    if len(bounds) != 2:
        raise InputError(
            f"{by} takes two bounds in {flag}, such as 2024-01-01,2024-07-01 (training before the first, test "
            f"from the second on), not {','.join(map(str, bounds)) or 'none'}"
        )
    first, second = (_number(bound, times, flag) for bound in bounds)
    if first > second:
        raise InputError(f"{flag} {bounds[0]},{bounds[1]}: the second bound of {by} lies before the first")
    return first, second


def _number(bound: float | str, times: Times, flag: str) -> float:
    if not times.are_dates:
        if not isinstance(bound, Real):
            raise InputError(f"{flag} {bound}: {times.called} holds numbers, so its bounds are numbers")
        return float(bound)
    try:
        moment = datetime.fromisoformat(str(bound).strip())
    except ValueError:
        raise InputError(
            f"{flag} {bound}: {times.called} holds dates, so its bounds are such as 2024-07-31"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return moment.timestamp() / SECONDS_A_DAY


def sets_by_time(
    labels: NDArray[Any],
    times: Times,
    bounds: Sequence[float | str],
    *,
    some: bool = False,
    kept: Mapping[str, NDArray[np.int64]] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """The labelled vertices before the first bound train, those from the second on test, between them they validate.

    Args:
        labels: as in a store, [N] or [N, C].
        bounds: as of :func:`check_bounds`.
        some: whether some of its [C] labels are enough for a vertex.
        kept: the sets of the store, where one grows.

    Raises:
        InputError: for bounds that are none, or that leave nothing to train on, and without labels.
    """
    first, second = check_bounds(bounds, times)
    labelled = labelled_vertices(labels, some=some)
    if not labelled.any():
        raise InputError(f"{times.called}: --split-by needs labels, and no vertex has one; give --labels FILE")
    values = times.values
    if len(values) != len(labels):
        raise InputError(
            f"{times.called} has {len(values)} rows; there must be one for each of the {len(labels)} vertices, or a "
            "column of ids (--id-column)"
        )
    if times.old is not None and times.vertices is not None:
        labelled &= np.isin(np.arange(len(labels)), times.vertices)
    unknown = int((labelled & np.isnan(values)).sum())
    if unknown:
        logger.info("%s: %s labelled vertices have no time and are in no set", times.called, f"{unknown:,}")
    masks = (values < first, (values >= first) & (values < second), values >= second)
    sets = {name: np.flatnonzero(labelled & mask) for name, mask in zip(VERTEX_SETS, masks, strict=True)}
    if times.old is not None and times.vertices is not None:
        sets = replaced_sets(kept or {}, sets, times.vertices, times.old, times.called)
    if not len(sets.get("train", ())):
        raise InputError(f"{times.called}: no labelled vertex lies before {bounds[0]}, so none trains; see --split")
    return sets


def replaced_sets(
    kept: Mapping[str, NDArray[np.int64]],
    found: Mapping[str, NDArray[np.int64]],
    named: NDArray[np.int64],
    old: int,
    path: str,
) -> dict[str, NDArray[np.int64]]:
    """Vertex sets: those of a store, and those of files; a vertex that a file names leaves the set it was in.

    Args:
        named: the vertices that have a row in them.
        old: N0.
    """
    nothing = np.empty(0, np.int64)
    sets = {}
    moved = [nothing]
    for name in VERTEX_SETS:
        was, new = kept.get(name, nothing), found.get(name, nothing)
        both = np.concatenate([was[~np.isin(was, named)], new])
        # What ascends stays so: then it does not show in how many steps a store was made.
        sets[name] = np.sort(both) if all((np.diff(part) > 0).all() for part in (was, new)) else both
        moved.append(np.setxor1d(both[both < old], was))
    if count := len(np.unique(np.concatenate(moved))):
        logger.info("%s: %s vertices that were there change their set", path, f"{count:,}")
    return {name: vertices for name, vertices in sets.items() if len(vertices)}
