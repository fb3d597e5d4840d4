"""``--dry-run``: what every plan would send and hold, counted on the graph, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from torch import nn

from gsplit.config.rules import given
from gsplit.data import Layout, open_layout
from gsplit.device import accelerator
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.run import Run
from gsplit.engine.whole.device_memory import device_peak
from gsplit.engine.whole.machine_prices import OF_A_GPU, MachinePrices, machine_prices
from gsplit.engine.whole.plan_prices import work_of
from gsplit.engine.whole.private_memory import edge_bytes, exchanges, shared_bytes
from gsplit.engine.whole.rotated_prices import prices_of_turns, why_not_rotated
from gsplit.engine.whole.seconds import crowded, seconds_of_chain, seconds_of_turns
from gsplit.engine.whole.step_memory import private_peak
from gsplit.engine.whole.whole_batch import needs_all_rows, sums_features
from gsplit.engine.whole.work import Work
from gsplit.errors import InputError
from gsplit.full import GridPlan, levels_of
from gsplit.full.moves import MOVES, OF_EDGES
from gsplit.full.plans import OF_ALL_SOURCES, SENDS_ROWS, grids_of
from gsplit.full.volumes import BETWEEN, Widths, sent_bytes, volumes, widths_of_sums
from gsplit.nn import GAT, GCN, SAGE
from gsplit.units import binary

EDGE_BYTES = 8
"""Bytes of an edge: A and A', int32 without values."""
BETWEEN_BYTES_PER_S = 2.5e9
"""Rate at which a host sends to others: Ethernet of 25 Gbit/s, of which TCP reaches 0.8."""
WITHIN_BYTES_PER_S = {"cpu": 2e9, "accelerator": 5e10}
"""Rate at which a trainer sends to those of its host: a core by loopback, a GPU over NVLink or its like. Where there
are several hosts plans are ordered by these rates, whatever theirs are: only what one is to the other counts."""


@dataclass(frozen=True, kw_only=True)
class Priced:
    """The price of one plan: what it takes of the busiest trainer."""

    plan: GridPlan
    """The plan."""
    sent: dict[str, int]
    """Bytes and messages in an epoch, of the trainer that sends most, by the names of the counters."""
    held_bytes: int
    """Bytes of edges, of the trainer that holds most."""
    private_bytes: int
    """Private memory at most, of the trainer that takes most."""
    device_bytes: int
    """Memory of a device at most, of the trainer that takes most; where it computes on the CPU, of one it had."""
    shared_bytes: int
    """Memory that all trainers of a host map, together."""
    hosts: int = 1
    """Number of hosts."""
    between_bytes: int = 0
    """Bytes that go to other hosts in an epoch, of the host that sends most."""
    seconds: float
    """What plans are ordered by: seconds of an epoch, predicted from what work takes; or, over several hosts, those
    that sending takes, between hosts and within them, by rates of either."""

    @property
    def host_bytes(self) -> int:
        """Memory of a host at most."""
        return self.plan.grid.world // self.hosts * self.private_bytes + self.shared_bytes

    @property
    def flags(self) -> str:
        """Flags that ask for the plan."""
        return " ".join(given(name, value) for name, value in self.plan.fields.items())


SECONDS = attrgetter("seconds")
TRIED = " (a run that is long enough tries the first three)"


def plan_table(run: Run) -> str:
    """The lines of the table, least sent first; reads the edges and starts nothing.

    Raises:
        InputError: for a model whose rows have widths that nobody knows before it runs.
    """
    layout = open_layout(run.layout, trusted=True)
    model = run.new_model()
    levels = levels_of(layout.graph, bounds_of(layout, run.trainers), run.config.layers, whole=needs_all_rows(model))
    trained = run.config.train_features is not None
    first = moved_widths(model, epoch=0)[0].forward if sums_features(model) and not trained else 0
    work = work_of(run, layout, levels, model)
    by, hosts = prices_for(run), run.config.hosts
    priced = sorted(prices(run, layout, work, model, by), key=SECONDS)
    chosen = plan_of_run(run)
    moves = [move for move in MOVES if move not in OF_EDGES or any(price.plan.graph_moves for price in priced)]
    named = [
        "plan",
        *(move.replace("_", " ") for move in moves),
        "all moves",
        "messages",
        *(["between hosts"] if hosts > 1 else []),
        "edges held",
        "private",
        "all",
        "seconds",
    ]
    lines = [named, *(_line(price, moves) for price in priced)]
    wide = [max(len(line[i]) for line in lines) for i in range(len(named))]
    text = ["  ".join([line[0].ljust(wide[0]), *map(str.rjust, line[1:], wide[1:])]) for line in lines]
    rows = levels.sizes.sum(axis=0)
    edges = int(work.by_owner.sum())
    return "\n".join(
        [
            f"{layout.path} on {run.trainers} trainers{f' of {hosts} hosts' if hosts > 1 else ''}, what the busiest "
            "sends in an epoch, holds of the edges and takes of private memory, and what all "
            + ("of a host send to other hosts, and take of its; " if hosts > 1 else "take of the host's; ")
            + ("seconds of an epoch, predicted:" if by else "seconds that sending takes:"),
            *text,
            f"chosen: {chosen}{TRIED if open_to_trials(run) else ''}; "
            f"rows of the levels 0 .. {run.config.layers}: {', '.join(f'{n:,}' for n in rows)}; "
            f"{edges:,} edges in all layers",
            *([f"the first epoch also moves rows {first} wide, whose sums are kept"] if first else []),
        ]
    )


def open_to_trials(run: Run) -> bool:
    """Whether a run leaves it open by which plan it trains, of several, on one host."""
    asked = run.asked
    left_open = asked.strategy == "full" and asked.algorithm == "auto" and asked.grid is None
    return left_open and run.config.hosts == 1 and run.trainers > 1


def prices_for(run: Run) -> MachinePrices | None:
    """What work takes where a run trains, measured on a CPU of which it is not known; None for several hosts."""
    if run.config.hosts > 1:
        return None
    return machine_prices(run.config.threads) if run.config.device == accelerator.HOST else OF_A_GPU


def priced_plans(run: Run, *, rotating: bool = True, by: MachinePrices | None = None) -> list[Priced]:
    """All plans that a run could have, quickest first; reads the edges.

    Args:
        run: that they are for.
        rotating: whether those of ``rotate`` are wanted, too.
        by: what work takes; None: the plan that sends in the least time is taken for the quickest.

    Raises:
        InputError: for a model whose rows have widths that nobody knows before it runs.
    """
    layout, model = open_layout(run.layout, trusted=True), run.new_model()
    levels = levels_of(layout.graph, bounds_of(layout, run.trainers), run.config.layers, whole=needs_all_rows(model))
    work = work_of(run, layout, levels, model)
    return sorted((prices if rotating else prices_of_chains)(run, layout, work, model, by), key=SECONDS)


def prices(
    run: Run, layout: Layout, work: Work, model: nn.Module, by: MachinePrices | None = None
) -> Iterator[Priced]:
    """All plans that a run could have."""
    yield from prices_of_chains(run, layout, work, model, by)
    yield from _prices_of_rotating(run, layout, work, model, by)


def prices_of_chains(
    run: Run, layout: Layout, work: Work, model: nn.Module, by: MachinePrices | None = None
) -> Iterator[Priced]:
    """All plans but those of ``rotate``."""
    trained, hosts = run.config.train_features is not None, run.config.hosts
    itemsize = run.dtype.itemsize
    widths = moved_widths(model, epoch=1, trained=trained, recomputes=run.config.recompute, in_slices=work.in_slices)
    hidden = run.precision.products.itemsize
    as_they_are = isinstance(model, SAGE | GCN) and not work.projection and widths[0].forward == work.widths[0]
    itemsizes = [itemsize if as_they_are else hidden, hidden]
    slow = crowded(run.config)
    for plan in _plans(run, layout, model):
        travels = run.exchange_dtype if plan.algorithm in SENDS_ROWS else run.moves_dtype
        travels = None if plan.algorithm == "shared" else travels
        wires = itemsizes if travels is None else [travels.itemsize] * 2
        if travels is None and plan.algorithm in SENDS_ROWS and type(model) is SAGE:
            wires = [hidden] * 2  # its rows are rounded before they are sent
        sent = [sent_in_types(plan, work, widths, wires, rank, hosts, itemsize) for rank in range(run.trainers)]
        yield Priced(
            plan=plan,
            **_sending(sent, run),
            seconds=_seconds(sent, run) if by is None else slow * seconds_of_chain(plan, work, widths, sent, by),
            held_bytes=max(sum(edge_bytes(plan, work, rank)) for rank in range(run.trainers)),
            private_bytes=max(private_peak(plan, work, rank) for rank in range(run.trainers)),
            device_bytes=max(device_peak(plan, work, rank) for rank in range(run.trainers)),
            shared_bytes=shared_bytes(plan, work),
        )


def _prices_of_rotating(
    run: Run, layout: Layout, work: Work, model: nn.Module, by: MachinePrices | None
) -> Iterator[Priced]:
    if why_not_rotated(run.signature) is not None or run.trainers == 1:
        return
    assert isinstance(model, GCN)
    kept = sums_features(model) and run.config.train_features is None
    each = EDGE_BYTES + 2 * (run.dtype.itemsize if work.weights else 0)
    slow, edges = crowded(run.config), len(layout.graph.indices)
    widths = moved_widths(model, epoch=1, trained=run.config.train_features is not None)
    for plan, sent, held, private, on_device in prices_of_turns(
        run, layout, work, model, loops=bool(run.signature["loops"]), kept=kept, each=each
    ):
        yield Priced(
            plan=plan,
            **_sending(sent, run),
            seconds=_seconds(sent, run) if by is None else slow * seconds_of_turns(work, edges, widths, sent, by),
            held_bytes=held,
            private_bytes=private,
            device_bytes=on_device,
            shared_bytes=shared_bytes(plan, work),
        )


def sent_in_types(
    plan: GridPlan,
    work: Work,
    widths: Sequence[Widths],
    itemsizes: Sequence[int],
    rank: int,
    hosts: int = 1,
    score_itemsize: int | None = None,
) -> dict[str, int]:
    """Bytes and messages that a trainer sends in an epoch (:func:`gsplit.full.volumes.volumes`).

    Args:
        plan, work: that are priced.
        widths: [L] of what moves.
        itemsizes: bytes of a number before the first layer, and before the others.
        rank: of the trainer.
        hosts: that the trainers are on.
        score_itemsize: bytes of a number of attention's scores; None: as of rows.
    """
    needed = work.needed if exchanges(plan, work) else None
    none = Widths(0, 0)
    apart = [widths[0], *(none for _ in widths[1:])], [none, *widths[1:]]
    edges, weight_itemsize = (work.by_owner, work.itemsize * work.weights) if plan.graph_moves else (None, 0)
    parts = [
        volumes(
            plan,
            work.sizes,
            of_layers,
            itemsize,
            rank,
            needed,
            hosts=hosts,
            score_itemsize=score_itemsize,
            edges=edges,
            weight_itemsize=weight_itemsize,
        )
        for of_layers, itemsize in zip(apart, itemsizes, strict=True)
    ]
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def _sending(sent: Sequence[dict[str, int]], run: Run) -> dict[str, Any]:
    """What a price says of sending, of what each trainer sends."""
    hosts = run.config.hosts
    return {"sent": max(sent, key=sent_bytes), "hosts": hosts, "between_bytes": _between(sent, hosts)}


def _between(sent: Sequence[dict[str, int]], hosts: int) -> int:
    """Bytes to other hosts of the host whose trainers send most there, of what each trainer sends."""
    if hosts == 1:
        return 0
    return int(np.array([counts[BETWEEN] for counts in sent]).reshape(hosts, -1).sum(axis=1).max())


def _seconds(sent: Sequence[dict[str, int]], run: Run) -> float:
    """Seconds of the host that sends most to others, and of the trainer that sends most within its host."""
    hosts, device = run.config.hosts, run.config.device
    within = max(sent_bytes(counts) - counts.get(BETWEEN, 0) for counts in sent)
    rate = WITHIN_BYTES_PER_S["cpu" if device == accelerator.HOST else "accelerator"]
    return _between(sent, hosts) / BETWEEN_BYTES_PER_S + within / rate


def _plans(run: Run, layout: Layout, model: nn.Module) -> Iterator[GridPlan]:
    for algorithm in OF_ALL_SOURCES:
        fits = run.config.device == "cpu" if algorithm == "shared" else True
        if fits and (algorithm != "1d-sparse" or layout.parts >= run.trainers):
            yield GridPlan(algorithm=algorithm, sizes=(run.trainers, 1, 1))  # type: ignore[arg-type]
    asked = tuple(run.config.grid or ())
    of_rows = run.config.algorithm not in (*OF_ALL_SOURCES, "rotate") and asked[1:] == (1, 1)
    for sizes in grids_of(run.trainers):
        moves = run.config.graph == "move" and sizes[2] > 1
        there = type(model) in (SAGE, GCN) or (type(model) is GAT and not moves)
        if there and (sizes[1:] != (1, 1) or of_rows) and undivided(run, sizes[2]) is None:
            yield GridPlan(algorithm="3d", sizes=sizes, graph_moves=moves)


def plan_of_run(run: Run) -> GridPlan:
    """The plan that was decided."""
    config = run.config
    assert config.grid is not None
    rows, columns, features = config.grid
    moves = config.graph == "move" and features > 1 and config.algorithm != "rotate"
    return GridPlan(algorithm=config.algorithm, sizes=(rows, columns, features), graph_moves=moves)


def undivided(run: Run, trainers: int) -> str | None:
    """Return the first flag of attention's heads whose number these do not divide; None where there is none."""
    if run.signature["model"] != "gat":
        return None
    flags = ("heads", "out_heads") if run.config.layers > 1 else ("out_heads",)
    return next((flag for flag in flags if run.signature[flag] % trainers), None)


def _line(price: Priced, moves: Sequence[str]) -> list[str]:
    messages = price.sent["exchange_forward_messages"] + price.sent["exchange_backward_messages"]
    named = price.plan.of_all_sources or price.plan.algorithm == "rotate"
    name = str(price.plan) if named else price.flags.removeprefix("--")
    moved = [binary(sent_bytes(price.sent, move)) for move in (*moves, "exchange")]
    between = [price.between_bytes] if price.hosts > 1 else []
    sizes = (*between, price.held_bytes, price.private_bytes, price.host_bytes)
    return [name, *moved, str(messages), *map(binary, sizes), f"{price.seconds:.2g}"]


def moved_widths(
    model: nn.Module, epoch: int, *, trained: bool = False, recomputes: bool = False, in_slices: bool = False
) -> list[Widths]:
    """[L] widths of what a model moves in an epoch, counted from the start of the run.

    Args:
        model: a built-in one.
        epoch: from 0.
        trained: whether its features are.
        recomputes: whether all layers but the last are computed again in backward.
        in_slices: whether sums on grids are taken in slices (:attr:`gsplit.engine.whole.work.Work.in_slices`).

    Raises:
        InputError: for a model whose rows have widths that nobody knows before it runs.
    """
    if type(model) is GAT:
        projected = [(int(conv.lin.out_features), int(conv.heads)) for conv in model.convs]  # type: ignore[union-attr, arg-type]
        return _forwards([Widths(width, width, heads) for width, heads in projected], 0, recomputes=recomputes)
    if not isinstance(model, SAGE | GCN):
        raise InputError("--dry-run knows the widths of sage, gcn and gat, not those of this model")
    projection = model.projection
    inputs = [model.level_widths[0] if projection is None else projection.out_features, *model.level_widths[1:-1]]
    last = model.level_widths[-1] if model.head is None else model.head.in_features
    kept = sums_features(model) and not trained
    widths = widths_of_sums(
        list(zip(inputs, [*model.level_widths[1:-1], last], strict=True)),
        first_kept=kept,
        first_returns=projection is not None or trained,
        epoch=epoch,
    )
    widths = [width._replace(in_slices=in_slices) for width in widths]
    return _forwards(widths, int(kept), recomputes=recomputes)


def _forwards(widths: list[Widths], once: int, *, recomputes: bool) -> list[Widths]:
    """The widths of layers that are computed again in backward: all but the last, and but the first ``once``."""
    again = range(once, len(widths) - 1) if recomputes else ()
    return [width._replace(forwards=2) if layer in again else width for layer, width in enumerate(widths)]
