"""What rotating layers take of each trainer, counted on the graph; and which models rotate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gsplit.config.fields import flag_of
from gsplit.config.train import TrainConfig
from gsplit.data import Layout
from gsplit.data.graph import row_ranges
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.run import Run
from gsplit.engine.whole.device_memory import ON_DEVICES, evaluation_on_device
from gsplit.engine.whole.private_memory import COPIES_OF_PARAMETERS, evaluation_bytes
from gsplit.engine.whole.step_memory import UNUSED
from gsplit.engine.whole.work import Work
from gsplit.full import GridPlan
from gsplit.full.plans import grids_of
from gsplit.full.reading import PIECE_EDGES
from gsplit.full.rotation import Planes, Turns, orders_of, resting_rows, roles_of, volumes_of_turns
from gsplit.full.rotation.planes import PlaneOrder
from gsplit.kernels import computed_in
from gsplit.nn import LayeredModel
from gsplit.sampling.plan import fold_key

TURNED_UNUSED = 1.7
"""What the host's allocator has mapped over what is in use in a step: planes come and go in more sizes than rows."""
SECOND_ORDER = 0x4F524452  # keeps the key of the order of odd levels apart from others


def why_not_rotated(signature: Mapping[str, Any]) -> str | None:
    """Why a model cannot be trained with rotating layers, in words; None where it can.

    Args:
        signature: of the model.
    """
    if signature["model"] != "gcn":
        return f"trains --model gcn, not {signature['model']}; use another --algorithm"
    norm = signature.get("norm", "none")
    if norm not in ("none", "rms"):
        return (
            f"has the columns of a row on several trainers and takes no {flag_of('norm')} {norm}; use none or "
            "rms, or another --algorithm"
        )
    return None


def orders_of_run(config: TrainConfig, layout: Layout, trainers: int) -> tuple[PlaneOrder, PlaneOrder]:
    """The orders of even and of odd levels of a run."""
    seed = fold_key(config.seed, SECOND_ORDER)
    return orders_of(bounds_of(layout, trainers), seed, double=config.permutation == "double")


def turns_of(config: TrainConfig, layout: Layout, plan: GridPlan, model: LayeredModel) -> Turns:
    """Return who has what, in numbers.

    Args:
        config: with ``seed``, ``permutation`` and ``row_blocks``.
        layout: that is trained on.
        plan: a ``rotate``.
        model: a GCN.
    """
    trainers, widths = plan.grid.world, widths_of_layers(model)
    orders = orders_of_run(config, layout, trainers)
    train_idx, last = layout.graph.train_idx, orders[(len(widths) - 1) % 2]
    owned = None
    if len(model.skips):
        even, odd = (order.owner_N for order in orders)
        owned = np.bincount(even * trainers + odd, minlength=trainers**2).reshape(trainers, trainers)
    return Turns(
        grid=plan.grid,
        own=(orders[0].sizes, orders[1].sizes),
        targets=[int(np.isin(own, train_idx).sum()) for own in last.vertices],
        widths=widths,
        row_blocks=config.row_blocks,
        normalised=sum(isinstance(norm, nn.RMSNorm) for norm in model.norms),
        owned=owned,
    )


def widths_of_layers(model: LayeredModel) -> list[int]:
    """[L + 1] widths of the rows before the first convolution, and of those that each gives."""
    linears: list[Any] = [conv.lin for conv in model.convs]
    return [linears[0].in_features, *(linear.out_features for linear in linears)]


def prices_of_turns(
    run: Run, layout: Layout, work: Work, model: LayeredModel, *, loops: bool, kept: bool, each: int
) -> Iterator[tuple[GridPlan, list[dict[str, int]], int, int, int]]:
    """All grids, with what each trainer sends in an epoch, and bytes of the busiest.

    These are of edges, of private memory, and of a device.

    Args:
        run: whose plans are shown.
        layout: that is trained on.
        work: what is computed otherwise.
        model: a GCN.
        loops: whether every vertex has an edge to itself beside the graph's.
        kept: whether the sums of the first layer are kept.
        each: bytes of an edge.
    """
    config, trainers, last = run.config, run.trainers, len(model.convs)
    orders = orders_of_run(config, layout, trainers)
    double = orders[0] is not orders[1]
    by_owner = {
        layer % 2: _edges_by_owner(layout, orders, layer, loops=loops) for layer in range(1, min(last, 2) + 1)
    }
    for sizes in grids_of(trainers):
        plan = GridPlan(algorithm="rotate", sizes=sizes)
        turns, moved = turns_of(config, layout, plan, model), run.moves_dtype
        returns = config.train_features is not None or model.projection is not None
        sent = [
            volumes_of_turns(
                turns,
                rank,
                (moved or run.dtype).itemsize,
                product_itemsize=(moved or run.precision.products).itemsize,
                square_itemsize=computed_in(run.dtype).itemsize,
                first_moves=not kept,
                first_returns=returns,
                hosts=config.hosts,
            )
            for rank in range(trainers)
        ]
        held, private, on_device = [], [], []
        for rank in range(trainers):
            planes, edges = Planes(plan.grid, rank, orders), 0
            for layer in range(1, min(last, 6 if double else 3) + 1):
                roles = roles_of(layer)
                blocks = by_owner[layer % 2][planes.peers(roles.rows)][:, planes.peers(roles.columns)]
                edges += int(blocks.sum())
            held.append(edges)
            private.append(_private_peak(work, turns, planes, each * edges, double=double))
            on_device.append(_device_peak(work, turns, planes, each * edges, double=double))
        yield plan, sent, each * max(held), max(private), max(on_device)


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Rows and columns of a layer on one trainer."""

    before: int
    """Rows that are summed."""
    after: int
    """Rows of the sums."""
    into: int
    """Bytes of a row that is summed."""
    out: int
    """Bytes of a row that the layer gives."""
    rested: int
    """Bytes of the rows at rest that a skip takes; 0 without one."""
    projected: int
    """Bytes of these when they are projected; 0 where they are not."""
    normalised: bool
    """Whether its rows are normalised."""


def _blocks(work: Work, turns: Turns, planes: Planes) -> Iterator[_Block]:
    """The blocks of all layers on one trainer."""

    def rows(level: int, axis: str) -> int:
        return sum(turns.own[level % 2][peer] for peer in planes.peers(axis))

    grid, widths = turns.grid, turns.widths
    for layer in range(1, len(widths)):
        roles, resting, wide, out = roles_of(layer), 0, widths[layer - 1], widths[layer]
        if turns.owned is not None:
            places = (grid.coordinate(planes.rank, axis) for axis in (roles.features, roles.columns))
            resting = int(resting_rows(turns, planes.rank, layer)[tuple(places)])
        yield _Block(
            before=rows(layer - 1, roles.columns),
            after=rows(layer, roles.rows),
            into=-(-wide // grid.size(roles.features)) * work.itemsize,
            out=-(-out // grid.size(roles.columns)) * work.itemsize,
            rested=resting * wide * work.itemsize,
            projected=resting * out * work.itemsize * (wide != out),
            normalised=layer <= turns.normalised,
        )


def _private_peak(work: Work, turns: Turns, planes: Planes, edges: int, *, double: bool) -> int:
    """Bytes that a trainer takes at most of private memory; see :mod:`gsplit.engine.whole.private_memory`."""
    item, n, skips = work.itemsize, int(work.own_vertices.sum()), turns.owned is not None
    # The orders, what reading looks places up in, and rows at rest; then pointers of edges and factors of degrees.
    stays = COPIES_OF_PARAMETERS * work.parameters * item + edges + 8 * n * (1 + double)
    stays += turns.own[0][planes.rank] * work.widths[0] * item * (3 if work.trained else 1) + 12 * n
    entering = turns.own[0][planes.rank] * turns.widths[0] * item
    kept = first = most = 0
    step = entering if work.projection else 0
    for layer, block in enumerate(_blocks(work, turns, planes), start=1):
        before, after, into, out = block.before, block.after, block.into, block.out
        stays += 16 * (before + after) + 8 * skips * (before + 2 * after)
        sums = before * into * (1 + work.scales) + 3 * after * into + 2 * block.rested
        behind = (4 + 2 * block.normalised + 3 * skips) * after * out + 2 * (block.rested + block.projected)
        if layer == 1 and work.kept:
            kept, first = after * into + block.rested, sums + entering
            most = behind
        else:
            step += after * into + block.rested * bool(block.projected)
            most = max(most, 5 * (before + after) * into + behind)  # backward adds up both
        step += after * out * (1 + block.normalised)
    steps, evaluation = kept + step + most, kept + evaluation_bytes(work, planes.rank)
    return int(work.process_bytes + stays + max(first, TURNED_UNUSED * steps, UNUSED * evaluation))


def _device_peak(work: Work, turns: Turns, planes: Planes, edges: int, *, double: bool) -> int:
    """Bytes that a trainer takes at most of a device; see :mod:`gsplit.engine.whole.device_memory`.

    What is dropped is a mask as wide as the rows, in their type, that is made by whole numbers. Orders and places are
    the host's, where blocks are turned round, too.
    """
    item, own, skips = work.itemsize, turns.own[0][planes.rank], turns.owned is not None
    entering = own * turns.widths[0] * item
    stays = COPIES_OF_PARAMETERS * work.parameters * item + edges
    stays += own * work.widths[0] * item * (5 if work.trained else 1)
    sums_kept = first = most = 0
    kept = entering * (1 + work.drops) if work.projection else 0
    for layer, block in enumerate(_blocks(work, turns, planes), start=1):
        before, after = block.before, block.after
        stays += item * (before + after)  # factors; pointers are those of the blocks
        stays += (4 * (before + after) + 8 * skips * (before + 2 * after)) * (layer <= (6 if double else 3))
        fresh = before * block.into * (work.drops or layer == 1)
        sums = fresh + before * block.into * work.scales + 3 * after * block.into + 2 * block.rested
        if layer == 1 and work.kept:
            sums_kept, first = after * block.into + block.rested, sums + entering
        else:
            gradients = 2 * after * block.into + 3 * before * block.into
            gradients += skips * after * block.out + 2 * block.rested + block.projected
            most = max(most, kept + sums, kept + gradients)
            kept += after * block.into + block.rested * bool(block.projected)
        product = (3 + skips) * after * block.out + block.rested + block.projected
        most = max(most, kept + fresh + product)
        if layer < len(turns.widths) - 1 or work.head:
            kept += after * block.out * (1 + work.drops + block.normalised)
            most = max(most, kept + fresh + (2 + block.normalised + skips) * after * block.out)
    if work.head:
        most = max(most, kept + turns.targets[planes.rank] * (turns.widths[-1] + 2 * work.widths[-1]) * item)
    step, evaluation = ON_DEVICES * most, evaluation_on_device(work, planes.rank)
    return int(stays + max(first, sums_kept + max(step, evaluation)))


def _edges_by_owner(
    layout: Layout, orders: tuple[PlaneOrder, PlaneOrder], layer: int, *, loops: bool
) -> NDArray[np.int64]:
    """[P, P] edges of a layer, by the trainers that have destination and source."""
    graph, trainers = layout.graph, len(orders[0].sizes)
    into, out = (orders[level % 2].owner_N for level in (layer, layer - 1))
    counts = np.bincount(into * trainers + out, minlength=trainers**2) * int(loops)
    for a, b in row_ranges(graph.indptr, PIECE_EDGES):
        of_rows = np.repeat(into[a:b], np.diff(graph.indptr[a : b + 1]))
        of_sources = out[graph.indices[graph.indptr[a] : graph.indptr[b]]]
        counts += np.bincount(of_rows * trainers + of_sources, minlength=trainers**2)
    return counts.reshape(trainers, trainers)
