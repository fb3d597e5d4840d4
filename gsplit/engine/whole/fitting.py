"""Whether a plan fits into memory: the host's, before any trainer is started, or that of devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import nn

from gsplit.data import Layout
from gsplit.device import accelerator
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.run import Run
from gsplit.engine.whole.device_memory import MOST_OVER, device_peak
from gsplit.engine.whole.machine_prices import MachinePrices
from gsplit.engine.whole.plan_prices import numbers_of
from gsplit.engine.whole.plan_table import Priced, priced_plans
from gsplit.engine.whole.private_memory import shared_bytes
from gsplit.engine.whole.step_memory import private_peak
from gsplit.engine.whole.work import Work
from gsplit.errors import InputError
from gsplit.features.room import floor_bytes, sharers_of
from gsplit.full import GridPlan
from gsplit.full.plans import OF_ALL_SOURCES
from gsplit.limits import host_memory
from gsplit.nn import GAT, GCN, SAGE
from gsplit.units import binary

KNOWN = (SAGE, GCN, GAT)
"""Models whose rows have widths that are known before they run."""


def check_plan_fits(run: Run, layout: Layout, plan: GridPlan) -> None:
    """Refuse a plan that does not fit into the memory of the host, where trainers compute on the CPU.

    Raises:
        InputError: with a plan that fits, if there is one.
    """
    if run.config.device != accelerator.HOST:
        return
    if (tight := why_tight(run, layout, plan, bytes_there(run))) is not None:
        raise InputError(tight.line)


class Tight(NamedTuple):
    """The message about a plan that takes more memory than there is."""

    line: str
    """Why, and what to take instead."""
    surely: bool
    """Whether it does not fit in any case; else it may, for the figure of a device is a bound from above."""


def why_tight(run: Run, layout: Layout, plan: GridPlan, there: int) -> Tight | None:
    """Why a plan does not fit, or may not, with what to take instead; None where it does, or nobody knows.

    Where not even a bound from above leaves doubt, no edge is read.

    Args:
        run, layout: of the training.
        plan: of the run.
        there: bytes, of the host for all trainers, or of a device for one.
    """
    model, on_host = run.new_model(), run.config.device == accelerator.HOST
    if type(model) not in KNOWN or _bound(run, layout, plan, model) <= there:
        return None

    def taken(price: Priced) -> int:
        return price.host_bytes if on_host else price.device_bytes

    priced = priced_plans(run)
    chosen = chosen_of(priced, plan)
    if taken(chosen) <= there:
        return None
    surely = on_host or taken(chosen) > MOST_OVER * there
    least = min(priced, key=taken)
    if taken(least) <= there:
        instead = f"use {least.flags}, which takes {binary(taken(least))}"
    elif not on_host and taken(least) <= MOST_OVER * there:
        instead = f"{least.flags} takes least, {binary(taken(least))} at most, and may fit"
    else:
        instead = f"no plan fits, and {least.flags} takes least, {binary(taken(least))}"
    if on_host:
        if taken(least) > there and run.trainers > 1:
            instead += "; fewer --gpus may take less"
        return Tight(
            f"{chosen.flags} takes {binary(chosen.host_bytes)} of memory, {binary(chosen.private_bytes)} for each of "
            f"{run.config.trainers_here} trainers and {binary(chosen.shared_bytes)} for all, but {binary(there)} are "
            f"free; {instead}",
            surely,
        )
    if taken(least) > there:
        instead += "; more --gpus or a smaller --hidden may take less, and --strategy split takes mini-batches"
    takes = "takes" if surely else "may not fit: it takes up to"
    where = f"of memory on each device, but {run.config.device} has {binary(there)} for a trainer"
    return Tight(f"{chosen.flags} {takes} {binary(taken(chosen))} {where}; {instead}", surely)


def quickest(run: Run) -> Priced | None:
    """Price the plan that sends in the least time, of those that surely fit into memory; reads the edges.

    ``rotate`` is not among them, for it drops other values of rows than all other plans. None for a model whose rows
    have widths that nobody knows before it runs.
    """
    if type(run.new_model()) not in KNOWN:
        return None
    priced = priced_plans(run, rotating=False)
    return next(_fitting(run, priced), priced[0])


def fitting_plans(run: Run, by: MachinePrices | None = None) -> list[Priced]:
    """All plans but those of ``rotate`` that surely fit into memory, quickest first; reads the edges.

    Args:
        run: that they are for.
        by: what work takes on this machine; None: what sends in the least time is the quickest.
    """
    return list(_fitting(run, priced_plans(run, rotating=False, by=by)))


def _fitting(run: Run, priced: Iterable[Priced]) -> Iterator[Priced]:
    """Those of some plans that surely fit."""
    on_host, there = run.config.device == accelerator.HOST, bytes_there(run)
    return (price for price in priced if (price.host_bytes if on_host else price.device_bytes) <= there)


def bytes_there(run: Run) -> int:
    """Bytes of this host that are free for all trainers, or all that a device has for one."""
    if (kind := run.config.device) == accelerator.HOST:
        return host_memory().available_bytes
    total = accelerator.smallest_bytes(kind)
    return (total - floor_bytes(total)) // sharers_of(kind, run.config.trainers_here)


def chosen_of(priced: list[Priced], plan: GridPlan) -> Priced:
    """The price of a plan: grids go by their sizes, whatever their name."""
    named = (*OF_ALL_SOURCES, "rotate")
    return next(
        price
        for price in priced
        if price.plan.sizes == plan.sizes
        and (price.plan.algorithm == plan.algorithm or not {price.plan.algorithm, plan.algorithm} & set(named))
    )


def _bound(run: Run, layout: Layout, plan: GridPlan, model: nn.Module) -> int:
    """Bytes that a plan takes at most, if every vertex were in every level and every row needed.

    Of a host for its trainers, or of a device for one.
    """
    bounds, layers, trainers = bounds_of(layout, run.trainers), run.config.layers, run.trainers
    own_P, edges_P = np.diff(bounds), np.diff(layout.graph.indptr[bounds])
    everything = np.broadcast_to(own_P[:, None], (trainers, layers + 1))
    needed_PP = np.broadcast_to(own_P, (trainers, trainers))
    work: Work = replace(
        numbers_of(run, layout, model),
        sizes=np.ascontiguousarray(everything),
        by_owner=np.broadcast_to(edges_P[:, None], (layers, trainers, trainers)),
        needed=dict.fromkeys(range(1, layers + 1), needed_PP),
    )

    def of_all(plan: GridPlan, work: Work) -> int:
        on_host, here = run.config.device == accelerator.HOST, run.config.trainers_here
        return _of_a_host(plan, work, here) if on_host else _of_a_device(plan, work)

    if plan.algorithm == "rotate":  # rows of all along an axis, factors of vertices, six blocks of all edges
        rows = of_all(GridPlan(algorithm="1d", sizes=(trainers, 1, 1)), work)
        of_each = int(100 * own_P.sum() + 6 * (8 + 2 * work.itemsize) * edges_P.sum())
        return 2 * max(plan.sizes) * rows + trainers * of_each
    return of_all(plan, work)


def _of_a_host(plan: GridPlan, work: Work, trainers: int) -> int:
    """Bytes that so many trainers take."""
    peaks = [private_peak(plan, work, rank) for rank in range(work.trainers)]
    return trainers * max(peaks) + shared_bytes(plan, work)


def _of_a_device(plan: GridPlan, work: Work) -> int:
    return max(device_peak(plan, work, rank) for rank in range(work.trainers))
