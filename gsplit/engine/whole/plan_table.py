"""``--dry-run``: what every plan would send and hold, counted on the graph, before anything is started."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gsplit.data import Layout, open_layout
from gsplit.data.graph import row_ranges
from gsplit.engine.evaluation import bounds_of
from gsplit.engine.run import Run
from gsplit.engine.whole.rotated_prices import prices_of_turns, why_not_rotated
from gsplit.engine.whole.whole_batch import needs_all_rows, sums_features
from gsplit.errors import InputError
from gsplit.full import COLUMNS, ROWS, Levels, Plan, levels_of
from gsplit.full.levels import PIECE_EDGES
from gsplit.full.moves import MOVES
from gsplit.full.plans import OF_ALL_SOURCES, grids_of
from gsplit.full.routes import remote_sources
from gsplit.full.volumes import Widths, volumes, widths_of_sums
from gsplit.models import prepared, registry
from gsplit.nn import GAT, GCN, SAGE
from gsplit.units import binary

EDGE_BYTES = 8
"""Bytes of an edge: A and A', int32 without values."""
ORDER_BYTES = 4
"""Bytes of an edge more where a layer weighs edges by itself: the place in A of each edge of A'."""


@dataclass(frozen=True, kw_only=True)
class Priced:
    """What one plan takes of the busiest trainer."""

    plan: Plan
    """The plan."""
    sent: dict[str, int]
    """Bytes and messages in an epoch, of the trainer that sends most, by the names of the counters."""
    held_bytes: int
    """Bytes of edges, of the trainer that holds most."""


def plan_table(run: Run) -> str:
    """The lines of the table, least sent first; reads the edges and starts nothing.

    Raises:
        InputError: for a model whose rows have widths that nobody knows before it runs.
    """
    layout = open_layout(run.layout, trusted=True)
    model = _model_of(run)
    levels = levels_of(layout.graph, bounds_of(layout, run.trainers), run.config.layers, whole=needs_all_rows(model))
    trained = run.config.train_features is not None
    first = moved_widths(model, epoch=0)[0].forward if sums_features(model) and not trained else 0
    priced = sorted(prices(run, layout, levels, model), key=lambda price: sent_bytes(price.sent))
    chosen = Plan(algorithm=run.config.algorithm, sizes=tuple(run.config.grid or ()))  # type: ignore[arg-type]
    named = ["plan", *(move.replace("_", " ") for move in MOVES), "all moves", "messages", "edges held"]
    lines = [named, *(_line(price) for price in priced)]
    wide = [max(len(line[i]) for line in lines) for i in range(len(named))]
    text = ["  ".join([line[0].ljust(wide[0]), *map(str.rjust, line[1:], wide[1:])]) for line in lines]
    rows = levels.sizes.sum(axis=0)
    edges = int(_edges_by_owner(layout, levels).sum())
    return "\n".join(
        [
            f"{layout.path} on {run.trainers} trainers, what the busiest sends in an epoch and holds of the edges:",
            *text,
            f"chosen: {chosen}; rows of the levels 0 .. {run.config.layers}: {', '.join(f'{n:,}' for n in rows)}; "
            f"{edges:,} edges in all layers",
            *([f"the first epoch also moves rows {first} wide, whose sums are kept"] if first else []),
        ]
    )


def sent_bytes(counts: dict[str, int], move: str = "exchange") -> int:
    """Bytes that a move, or all of them, sent forward and backward."""
    return counts[f"{move}_forward_bytes"] + counts[f"{move}_backward_bytes"]


def prices(run: Run, layout: Layout, levels: Levels, model: nn.Module) -> Iterator[Priced]:
    """All plans that a run could have."""
    trained = run.config.train_features is not None
    widths, itemsize = moved_widths(model, epoch=1, trained=trained), run.dtype.itemsize
    by_owner = _edges_by_owner(layout, levels)
    needed = {layer: _needed(layout, levels, layer) for layer in range(1, levels.num_layers + 1)}
    weights = itemsize if layout.graph.edge_weight is not None and run.needs["weights"] else 0
    for plan in _plans(run, layout, model):
        sent = [volumes(plan, levels.sizes, widths, itemsize, rank, needed) for rank in range(run.trainers)]
        busiest = max(sent, key=sent_bytes)
        turned = plan.algorithm == "shared" and type(model) is not GAT
        each = EDGE_BYTES + 2 * weights
        if plan.of_all_sources and not turned and (type(model) is GAT or weights):
            each = EDGE_BYTES + ORDER_BYTES + weights
        held = max(_held(plan, by_owner, rank, each, turned=turned) for rank in range(run.trainers))
        yield Priced(plan=plan, sent=busiest, held_bytes=held)
    if why_not_rotated(run.signature) is None and run.trainers > 1:
        assert isinstance(model, GCN)
        kept = sums_features(model) and not trained
        widths_of_levels = list(model.level_widths)
        loops = bool(run.signature["loops"])
        for plan, sent, held in prices_of_turns(
            run, layout, widths_of_levels, loops=loops, kept=kept, each=EDGE_BYTES + 2 * weights
        ):
            yield Priced(plan=plan, sent=max(sent, key=sent_bytes), held_bytes=held)


def _plans(run: Run, layout: Layout, model: nn.Module) -> Iterator[Plan]:
    for algorithm in OF_ALL_SOURCES:
        fits = run.config.device == "cpu" if algorithm == "shared" else True
        if fits and (algorithm != "1d-sparse" or layout.parts % run.trainers == 0):
            yield Plan(algorithm=algorithm, sizes=(run.trainers, 1, 1))  # type: ignore[arg-type]
    for sizes in grids_of(run.trainers):
        if type(model) in (SAGE, GCN) and sizes[1:] != (1, 1):
            yield Plan(algorithm="3d", sizes=sizes)


def _line(price: Priced) -> list[str]:
    messages = price.sent["exchange_forward_messages"] + price.sent["exchange_backward_messages"]
    named = price.plan.of_all_sources or price.plan.algorithm == "rotate"
    name = str(price.plan) if named else f"grid {','.join(map(str, price.plan.sizes))}"
    moved = [binary(sent_bytes(price.sent, move)) for move in (*MOVES, "exchange")]
    return [name, *moved, str(messages), binary(price.held_bytes)]


def _model_of(run: Run) -> nn.Module:
    model: nn.Module = (
        registry.build(run.signature, run.config) if run.pickled_model is None else pickle.loads(run.pickled_model)
    )
    return prepared.prepare(model).model


def moved_widths(model: nn.Module, epoch: int, *, trained: bool = False) -> list[Widths]:
    """[L] widths of what a model moves in an epoch, counted from the start of the run.

    Args:
        model: a built-in one.
        epoch: from 0.
        trained: whether its features are.

    Raises:
        InputError: for a model whose rows have widths that nobody knows before it runs.
    """
    if type(model) is GAT:
        projected = [int(conv.lin.out_features) for conv in model.convs]  # type: ignore[union-attr, arg-type]
        return [Widths(width, width) for width in projected]
    if not isinstance(model, SAGE | GCN):
        raise InputError("--dry-run knows the widths of sage, gcn and gat, not those of this model")
    projection = model.projection
    inputs = [model.level_widths[0] if projection is None else projection.out_features, *model.level_widths[1:-1]]
    return widths_of_sums(
        list(zip(inputs, model.level_widths[1:], strict=True)),
        first_kept=sums_features(model) and not trained,
        first_returns=projection is not None or trained,
        epoch=epoch,
    )


def _edges_by_owner(layout: Layout, levels: Levels) -> NDArray[np.int64]:
    """[L, P, P] edges of each layer, by the owners of destination and source."""
    graph, trainers = layout.graph, len(levels.sizes)
    counts = np.zeros((levels.num_layers, trainers, trainers), np.int64)
    for a, b in row_ranges(graph.indptr, PIECE_EDGES):
        degrees = np.diff(graph.indptr[a : b + 1])
        owner = np.searchsorted(levels.bounds, np.arange(a, b), side="right") - 1
        of_source = np.searchsorted(levels.bounds, graph.indices[graph.indptr[a] : graph.indptr[b]], side="right") - 1
        pair = np.repeat(owner, degrees) * trainers + of_source
        for layer in range(1, levels.num_layers + 1):
            row = levels.row_N[a:b]
            there = np.repeat((row >= 0) & (row < levels.sizes[owner, layer]), degrees)
            counts[layer - 1] += np.bincount(pair[there], minlength=trainers**2).reshape(trainers, trainers)
    return counts


def _needed(layout: Layout, levels: Levels, layer: int) -> NDArray[np.int64]:
    """[P, P] rows that each trainer needs of each other."""
    trainers = len(levels.sizes)
    of_trainers = [remote_sources(layout.graph, levels, layer, rank) for rank in range(trainers)]
    owners = [np.searchsorted(levels.bounds, vertices, side="right") - 1 for vertices in of_trainers]
    return np.stack([np.bincount(owner, minlength=trainers) for owner in owners])


def _held(plan: Plan, by_owner: NDArray[np.int64], rank: int, each: int, *, turned: bool) -> int:
    """Bytes of the edges that a trainer holds, forward and backward, without the pointers of rows."""

    def peers(axis: str) -> Sequence[int]:
        own = plan.grid.coordinate(rank, axis)
        return [peer for peer in range(plan.grid.world) if plan.grid.coordinate(peer, axis) == own]

    if turned:  # the edges out of the own sources are others than those into the own destinations
        into, out = int(by_owner[:, rank].sum()), int(by_owner[:, :, rank].sum())
        return each * (into + out) // 2
    if plan.of_all_sources:
        return each * int(by_owner[:, rank].sum())
    return each * int(by_owner[:, peers(ROWS)][:, :, peers(COLUMNS)].sum())
