"""Vertex sets by time: what came before a bound is trained on, what came after is predicted."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS
from gsplit.data.labels.replaced_sets import replaced_sets
from gsplit.errors import InputError

SECONDS_A_DAY = 86_400.0

logger = logging.getLogger(__name__)


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
        bounds: as given.
        times: that they part.
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
        some: whether a vertex is labelled that has some of its [C] labels and lacks others.
        kept: the sets of the store, where one grows.

    Raises:
        InputError: for bounds that are none, or that leave nothing to train on, and without labels.
    """
    first, second = check_bounds(bounds, times)
    lacks = np.isnan(labels).all if some else np.isnan(labels).any
    labelled = labels >= 0 if labels.ndim == 1 else ~lacks(axis=1)
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
