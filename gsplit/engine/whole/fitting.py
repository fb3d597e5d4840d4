"""Whether a plan fits into the memory that is free: asked before any trainer is started, on the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from gsplit.data import Layout
from gsplit.engine.evaluation import bounds_of
from gsplit.engine.run import Run
from gsplit.engine.whole.plan_prices import numbers_of
from gsplit.engine.whole.plan_table import Priced, priced_plans
from gsplit.engine.whole.private_memory import Work, private_peak, shared_bytes
from gsplit.errors import InputError
from gsplit.full import Plan
from gsplit.full.plans import OF_ALL_SOURCES
from gsplit.limits import host_memory
from gsplit.nn import GAT, GCN, SAGE
from gsplit.units import binary

KNOWN = (SAGE, GCN, GAT)
"""Models whose rows have widths that are known before they run."""


def check_fits(run: Run, layout: Layout, plan: Plan) -> None:
    """Refuse a plan that does not fit; where not even a bound from above leaves doubt, no edge is read.

    Raises:
        InputError: with a plan that fits, if there is one.
    """
    model = run.new_model()
    if run.config.device != "cpu" or type(model) not in KNOWN:
        return
    free = host_memory().available_bytes
    if _bound(run, layout, plan, model) <= free:
        return
    priced = priced_plans(run)
    chosen = chosen_of(priced, plan)
    if chosen.host_bytes <= free:
        return
    others = [price for price in priced if price.host_bytes <= free]
    if others:
        other = min(others, key=lambda price: price.host_bytes)
        instead = f"use {other.flags}, which takes {binary(other.host_bytes)}"
    else:
        least = min(priced, key=lambda price: price.host_bytes)
        instead = f"no plan fits, and {least.flags} takes least, {binary(least.host_bytes)}"
        if run.trainers > 1:
            instead += "; fewer --gpus may take less"
    raise InputError(
        f"{chosen.flags} takes {binary(chosen.host_bytes)} of memory, {binary(chosen.private_bytes)} for each of "
        f"{run.trainers} trainers and {binary(chosen.shared_bytes)} for all, but {binary(free)} are free; {instead}"
    )


def chosen_of(priced: list[Priced], plan: Plan) -> Priced:
    """The price of a plan: grids go by their sizes, whatever their name."""
    named = (*OF_ALL_SOURCES, "rotate")
    return next(
        price
        for price in priced
        if price.plan.sizes == plan.sizes
        and (price.plan.algorithm == plan.algorithm or not {price.plan.algorithm, plan.algorithm} & set(named))
    )


def _bound(run: Run, layout: Layout, plan: Plan, model: nn.Module) -> int:
    """Bytes of the host that a plan takes at most, if every vertex were in every level and every row needed."""
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
    if plan.algorithm == "rotate":  # rows twice, orders and factors of all vertices, six blocks of all edges
        rows = _of_all(Plan(algorithm="1d", sizes=(trainers, 1, 1)), work)
        return 2 * rows + trainers * int(100 * own_P.sum() + 6 * (8 + 2 * work.itemsize) * edges_P.sum())
    return _of_all(plan, work)


def _of_all(plan: Plan, work: Work) -> int:
    peaks = [private_peak(plan, work, rank) for rank in range(work.trainers)]
    return work.trainers * max(peaks) + shared_bytes(plan, work)
