"""``launch(run)``: the processes of a run, from the first to the last."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from gsplit.data import open_layout
from gsplit.device.seen import described
from gsplit.engine.engines import engine_of
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.engine.shares import shares
from gsplit.parallel import rendezvous
from gsplit.processes import environment, start
from gsplit.processes.environment import PASSIVE
from gsplit.supply.pipes import Supply
from gsplit.supply.tickets import Position

logger = logging.getLogger(__name__)

QUIET = {"KINETO_LOG_LEVEL": "99"}
"""Environment of trainers that are profiled: the profiler reads it when PyTorch is loaded, and has much to say."""


class _Attended:
    """The supply, attended to; who asks the trainers to stop asks those that evaluate, too."""

    def __init__(self, supply: Supply, shared: Shared) -> None:
        self.files, self.ready = supply.files, supply.ready
        self._supply, self._shared = supply, shared

    def stop(self) -> bool:
        """Ask the trainers to stop. False where nothing was trained that they could save."""
        begun = self._supply.stop()
        if begun:
            self._shared.ask_to_stop()
        return begun


def launch(run: Run, trainer: Callable[..., dict[str, Any] | None], position: Position) -> dict[str, Any]:
    """Start the trainers and what supplies them, and wait until all have ended.

    Args:
        run: whose folder this process holds.
        trainer: the life of one trainer, ``trainer(rank, run, port, shared, end)``; trainer 0 returns the summary, or
            None where the run was asked to stop.
        position: where the run stands.

    Raises:
        InputError: where memory or files do not suffice.
        gsplit.errors.ProcessDied: where a trainer fails; no process is left then.
        KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM; what was trained is in a checkpoint.
    """
    with ExitStack() as held:
        trainers = "1 trainer" if run.trainers == 1 else f"{run.trainers} trainers"
        logger.info("%s on %s", trainers, described(run.config.device, run.trainers))
        layout = open_layout(run.layout, trusted=True, typed=True)
        if (line := shares(run, layout)) is not None:
            logger.info(line)
        shared = held.enter_context(closing(Shared.create(run.trainers)))
        port = held.enter_context(rendezvous(run.trainers))
        engine = engine_of(run.config)
        supply = held.enter_context(engine.supply(run, layout, position))
        variables = {name: value for name, value in PASSIVE.items() if name not in os.environ}
        with environment(variables | QUIET if run.config.profile else variables):
            children = start(trainer, run.trainers, run, port, shared, own=supply.ends)
            held.callback(children.end)  # before the folder is given back, whatever comes
        supply.close_ends()
        summary: dict[str, Any] | None = children.join(_Attended(supply, shared))[0]
        if summary is None:  # the run was asked to stop, and did
            assert children.stopped_by is not None
            raise children.stopped_by
        return summary
