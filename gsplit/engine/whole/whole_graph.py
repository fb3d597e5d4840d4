"""The engine of the whole graph: one mini-batch an epoch, of all training vertices with all their neighbours.

Nothing is sampled. Each trainer owns a range of the rows of every level; blocks are made once and kept, and how rows
come to where they are summed is the plan's (:mod:`gsplit.full`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from gsplit.config.resolved import Placed, Resolved
from gsplit.config.train import TrainConfig
from gsplit.data import Layout
from gsplit.engine.components import Components
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.run import Run
from gsplit.engine.whole.fitting import check_plan_fits
from gsplit.engine.whole.plan_table import plan_of_run, undivided
from gsplit.engine.whole.rotated_batch import RotatedBatches
from gsplit.engine.whole.rotated_prices import why_not_rotated
from gsplit.engine.whole.whole_batch import WholeBatches
from gsplit.errors import InputError
from gsplit.full import GridPlan, plan_of
from gsplit.full.levels import MOST_LAYERS
from gsplit.full.plans import OF_ALL_SOURCES
from gsplit.parallel import Grid
from gsplit.supply.order import Order, order_of
from gsplit.supply.pipes import Supply, TrainerEnd
from gsplit.supply.supplied import Supplied
from gsplit.supply.tickets import Position, tickets

logger = logging.getLogger(__name__)

MOST_VERTICES = (1 << 31) - 1
"""Number of vertices at most: rows are int32."""
ON_GRIDS = ("sage", "gcn", "gat")
"""Built-in models, whose layers are sums or attention, which every plan can take."""


class WholeGraph:
    """The strategy ``full``; see :class:`gsplit.engine.engines.Engine`."""

    def resolve(self, config: Placed, layout: Layout) -> Resolved:
        """Decide the plan; nothing is sampled or cached."""
        if layout.graph.num_vertices < config.gpus:
            raise InputError(f"--gpus {config.gpus} is more than the {layout.graph.num_vertices} vertices")
        if config.layers > MOST_LAYERS:
            raise InputError(f"--num-layers is {config.layers}; --strategy full takes at most {MOST_LAYERS}")
        if layout.graph.num_vertices > MOST_VERTICES:
            raise InputError(f"--strategy full takes at most {MOST_VERTICES:,} vertices, and {layout.path} has more")
        algorithm = config.algorithm
        if algorithm == "auto" and config.grid is None:
            algorithm = "shared" if config.device == "cpu" else "1d-sparse"
            if algorithm == "1d-sparse" and layout.parts < config.gpus:
                algorithm = "1d"
        plan = plan_of(algorithm, config.gpus, grid=config.grid, replication=config.replication)
        if plan.algorithm == "shared" and config.device != "cpu":
            raise InputError(
                f"--algorithm shared reads the host's memory, and --device is {config.device}; use 1d-sparse"
            )
        if plan.algorithm == "1d-sparse" and layout.parts < config.gpus:
            raise InputError(
                f"--algorithm 1d-sparse sends rows between parts of a layout, but {layout.path} has {layout.parts} "
                f"for {config.gpus} trainers; make a layout with gsplit partition ... --parts {config.gpus}"
            )
        return config.resolved(
            algorithm=plan.algorithm,
            grid=plan.sizes,
            replication=None,
            split_group=config.gpus,
            cache="none",
            samplers=0,
            slots=None,
        )

    def grid(self, run: Run) -> Grid:
        """The plan's rows x columns x features."""
        plan = plan_of_run(run)
        model = run.signature["model"]
        if plan.algorithm == "rotate" and (why := why_not_rotated(run.signature)) is not None:
            raise InputError(f"--algorithm rotate {why}")
        if model not in ON_GRIDS and not plan.of_all_sources and run.trainers > 1:
            raise InputError(
                f"--algorithm {plan.algorithm} sums in parts, which the model {model} is not made of; use "
                f"{', '.join(OF_ALL_SOURCES)}, which bring it all rows"
            )
        if plan.graph_moves and model == "gat":
            raise InputError(
                "--graph move is for sums: attention keeps a number of every edge and head of its block, which takes "
                "more than the edges; drop it, or use --model sage or gcn"
            )
        if not plan.of_all_sources:
            check_heads(run, plan)
        return plan.grid

    def num_batches(self, run: Run, layout: Layout) -> int:
        """Number of mini-batches of an epoch: the one."""
        return 1

    @contextmanager
    def supply(self, run: Run, layout: Layout, position: Position) -> Iterator[Supply]:
        """Supply what tells the trainers to stop; there are no samplers. A plan that does not fit is refused."""
        supply = self.supplied(run, layout, position, range(run.trainers)).supply()
        try:
            yield supply
        finally:
            supply.end()

    def supplied(self, run: Run, layout: Layout, position: Position, trainers: range) -> Supplied:
        """Return the supply of some trainers, those of a host; raises as :func:`check_plan_fits` does."""
        check_plan_fits(run, layout, plan_of_run(run))
        return Supplied(
            trainers=len(trainers),
            spec=None,
            num_batches=1,
            epochs=run.config.epochs,
            position=position,
            samplers=0,
            slots=1,
            max_restarts=0,
            bulk=None,
        )

    def feed(self, components: Components, position: Position, end: TrainerEnd | None) -> Iterator[MiniBatch]:
        """The same mini-batch for every epoch, made once."""
        run = components.run
        order = order_of(tickets(1, run.config.epochs, position), end, components.member.local, by="sequence")
        plan = plan_of_run(run)
        made_by = RotatedBatches if plan.algorithm == "rotate" else WholeBatches
        return _handed_out(made_by(components, plan), order, end)


def _handed_out(batches: WholeBatches | RotatedBatches, order: Order, end: TrainerEnd | None) -> Iterator[MiniBatch]:
    while (handle := order.next()) is not None:
        if end is not None:
            end.released.send(handle.slot)  # there is no slot, but the launcher learns that training goes on
        yield batches.make(handle)


def check_heads(run: Run, plan: GridPlan) -> None:
    """Refuse attention whose heads cannot be dealt out along the features of a grid.

    Raises:
        InputError: for the first number of heads that cannot.
    """
    size = plan.sizes[2]
    if (flag := undivided(run, size)) is not None:
        number = run.signature[flag]
        raise InputError(
            f"--grid {','.join(map(str, plan.sizes))} deals heads out to {size} trainers, which do not divide "
            f"--{flag.replace('_', '-')} {number}; make it a multiple of {size}, or use another grid"
        )


def without_the_plan_before(config: TrainConfig, before: TrainConfig, trainers: int) -> TrainConfig:
    """Drop flags of the plan before that do not fit the present one from what is asked of a resumed run.

    Args:
        config: as asked for, with a grid or a replication; what was not given is as it was.
        before: what was asked for before.
        trainers: number of trainers from now on.
    """
    grid, replication = config.grid, config.replication
    try:
        plan_of(config.algorithm, trainers, grid=grid, replication=replication)
    except InputError:
        left_out = "%s %s of before does not fit the plan of now, and is left out"
        if grid is not None and grid == before.grid:
            logger.warning(left_out, "--grid", ",".join(map(str, grid)))
            grid = None
        if replication is not None and replication == before.replication:
            logger.warning(left_out, "--replication", replication)
            replication = None
    return replace(config, grid=grid, replication=replication)
