"""The engine of subgraphs on grids: each group of trainers computes a subgraph as the whole graph is computed.

ScaleGNN (arXiv 2604.02651, section V) lays trainers out in four dimensions: groups, each with a random set of
vertices of its own, and a grid of R x K x F inside each group. A set follows from the seed, so every trainer knows
it without a message, and cuts the edges from its columns to its rows out of the layout. Layers are then those of the
whole graph on the same grid (:mod:`gsplit.full`): rows come to rest with their owners in between, or layers rotate.
Groups follow one another by rank, and in a group the features are the fastest axis: over several hosts whole groups
lie on one, or else their features, and then their columns.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager

from gsplit.config.resolved import Placed, Resolved
from gsplit.config.sampling import SUBGRAPHS
from gsplit.data import Layout
from gsplit.engine.components import Components
from gsplit.engine.feed import Feed
from gsplit.engine.gridded.resting_rows import RestingRows
from gsplit.engine.gridded.turning_planes import TurningPlanes
from gsplit.engine.run import Run
from gsplit.engine.sampled.engine import Sampled
from gsplit.engine.sampled.rules import check_rule
from gsplit.engine.strategy import check_strategy
from gsplit.engine.whole.rotated_prices import why_not_rotated
from gsplit.engine.whole.whole_graph import ON_GRIDS, check_heads
from gsplit.errors import InputError
from gsplit.full import GridPlan
from gsplit.parallel import DATA, Grid
from gsplit.supply.order import order_of
from gsplit.supply.pipes import Supply, TrainerEnd
from gsplit.supply.supplied import Supplied
from gsplit.supply.tickets import Position, tickets


class SubgraphGrids:
    """The strategy ``split`` with a grid; see :class:`gsplit.engine.engines.Engine`."""

    def __init__(self) -> None:
        self._sampled = Sampled()

    def resolve(self, config: Placed, layout: Layout) -> Resolved:
        """Decide the groups; nothing is cached, and trainers cut the subgraphs themselves."""
        grid = ",".join(map(str, config.grid or ()))
        if config.sampling not in SUBGRAPHS:
            raise InputError(
                f"--grid {grid} lays out the whole graph (--strategy full), or subgraphs (--sampling "
                f"{', '.join(SUBGRAPHS)}), and --sampling is {config.sampling}; drop it"
            )
        size = math.prod(config.grid or ())
        if config.gpus % size:
            raise InputError(
                f"--grid {grid} is for groups of {size} trainers, which does not divide the {config.gpus} there are"
            )
        if config.split_group not in (None, size):
            raise InputError(f"--split-group is {config.split_group}, and --grid {grid} is for groups of {size}")
        resolved = config.resolved(
            split_group=size, exchange="rows", cache="none", cache_size=None, samplers=0, slots=None
        )
        check_strategy(resolved, layout)
        check_rule(resolved, layout)
        return resolved

    def grid(self, run: Run) -> Grid:
        """Groups x the rows, columns and features of each of them."""
        model, plan = run.signature["model"], plan_of_groups(run)
        if plan.algorithm == "rotate" and (why := why_not_rotated(run.signature)) is not None:
            raise InputError(f"--algorithm rotate {why}")
        if model not in ON_GRIDS:
            raise InputError(
                f"--grid {','.join(map(str, plan.sizes))} sums in parts, which the model {model} is not made of; "
                f"use --model {', '.join(ON_GRIDS)}, or drop --grid"
            )
        check_heads(run, plan)
        inside = plan.grid
        return Grid((DATA, *inside.axes), (run.strategy.micro_batches, *inside.sizes))

    def num_batches(self, run: Run, layout: Layout) -> int:
        """Number of mini-batches of an epoch, of a set for each group."""
        return self._sampled.num_batches(run, layout)

    def supply(self, run: Run, layout: Layout, position: Position) -> AbstractContextManager[Supply]:
        """Supply what tells the trainers to stop; there are no samplers."""
        return self._sampled.supply(run, layout, position)

    def supplied(self, run: Run, layout: Layout, position: Position, trainers: range) -> Supplied:
        """Return the supply of some trainers, those of a host."""
        return self._sampled.supplied(run, layout, position, trainers)

    def feed(self, components: Components, position: Position, end: TrainerEnd | None) -> Feed:
        """The mini-batches of one trainer, each cut out of the layout ahead of its turn."""
        run, member, config = components.run, components.member, components.run.config
        left = tickets(self.num_batches(run, components.layout), config.epochs, position)
        plan = plan_of_groups(run)
        made_by = TurningPlanes if plan.algorithm == "rotate" else RestingRows
        batches = made_by(components, self._sampled.rule(run), plan, end)
        order = order_of(left, end, member.local, by="sequence")
        return Feed(order, batches, member.device, prefetch=config.prefetch, threads=config.threads)


def plan_of_groups(run: Run) -> GridPlan:
    """The plan of each group: all moves of the grid, of whatever sizes, or layers that rotate on it."""
    assert run.config.grid is not None
    rows, columns, features = run.config.grid
    return GridPlan(algorithm="rotate" if run.config.algorithm == "rotate" else "3d", sizes=(rows, columns, features))
