"""Engines: ways to lay training over the trainers, and the one that a run's strategy names.

The loop, the launcher, checkpoints, metrics and evaluation know an engine by the methods of :class:`Engine`
alone. ``split`` and ``data`` are one engine, :class:`gsplit.engine.sampled.engine.Sampled`, ``split`` with a grid is
another, :class:`gsplit.engine.gridded.SubgraphGrids`, and ``full`` a third, :class:`gsplit.engine.whole.WholeGraph`.
A user's own is named as package.module:Class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from gsplit.config.names import object_named
from gsplit.config.parallel import SAMPLED
from gsplit.config.resolved import Placed, Resolved
from gsplit.data import Layout
from gsplit.engine.run import Run
from gsplit.errors import InputError
from gsplit.parallel import Grid
from gsplit.supply.pipes import Supply, TrainerEnd
from gsplit.supply.tickets import Position

if TYPE_CHECKING:
    from gsplit.engine.components import Components
    from gsplit.engine.minibatch import MiniBatch


METHODS = ("resolve", "grid", "num_batches", "supply", "feed")


class Engine(Protocol):
    """A way to lay training over the trainers: what it decides before a run, and does in it."""

    def resolve(self, config: Placed, layout: Layout) -> Resolved:
        """Decide what is the engine's to decide, before any process is started: ``config.resolved(...)``.

        Args:
            config: with the layout, the number of trainers (``gpus``), ``device`` and ``threads`` decided.
            layout: that is trained on.

        Raises:
            InputError: for what cannot be.
        """

    def grid(self, run: Run) -> Grid:
        """Lay the trainers out; along ``split``, or all its axes where it has none, rows are exchanged."""

    def num_batches(self, run: Run, layout: Layout) -> int:
        """Number of mini-batches of an epoch."""

    def supply(self, run: Run, layout: Layout, position: Position) -> AbstractContextManager[Supply]:
        """Return what hands mini-batches to the trainers, in the launcher; its processes end with the block.

        Args:
            run: as decided.
            layout: that is trained on.
            position: where the run stands, of which the first mini-batch is the next.
        """

    def feed(self, components: Components, position: Position, end: TrainerEnd | None) -> Iterator[MiniBatch]:
        """The mini-batches of one trainer, in the order of the run; all trainers make the call.

        Args:
            components: what the trainer is made of so far.
            position: where the run stands, of which the first mini-batch is the next.
            end: this trainer's end of the supply; without one it is alone and gets no messages.
        """


def engine_of(config: Placed | Resolved) -> Engine:
    """The engine that ``--strategy`` names; with ``--grid`` that of mini-batches on grids.

    Raises:
        InputError: where there is none.
    """
    strategy = config.strategy
    if strategy == "split" and config.grid is not None:
        from gsplit.engine.gridded import SubgraphGrids

        return SubgraphGrids()
    if strategy in SAMPLED:
        from gsplit.engine.sampled import Sampled

        return Sampled()
    if strategy == "full":
        from gsplit.engine.whole import WholeGraph

        return WholeGraph()
    found = object_named(strategy, "--strategy")
    if not isinstance(found, type) or not all(callable(getattr(found, method, None)) for method in METHODS):
        raise InputError(f"--strategy {strategy} is no engine: it needs the methods {', '.join(METHODS)}, in a class")
    try:
        engine: Engine = found()
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"--strategy {strategy}: {found.__name__}() fails: {error}") from None
    return engine


def resolved_by_engine(config: Placed, layout: Layout) -> tuple[Engine, Resolved]:
    """The engine that ``config.strategy`` names, and the configuration with what that engine decides.

    Args:
        config: what :meth:`Engine.resolve` is given.
        layout: that is trained on.

    Raises:
        InputError: where there is no such engine, or it, which may be a user's, decides less than a run needs.
    """
    strategy, engine = config.strategy, engine_of(config)
    resolved = engine.resolve(config, layout)
    if not isinstance(resolved, Resolved):
        raise InputError(f"--strategy {strategy}: its resolve gives {resolved!r}, not config.resolved(...)")
    return engine, resolved
