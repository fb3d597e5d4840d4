"""``gsplit.train``: resolve what was asked for, hold the run's folder, launch the trainers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from gsplit.config.train import TrainConfig, save_configurations
from gsplit.engine.objectives.own_loss import LossFunction
from gsplit.engine.whole.plan_table import plan_table
from gsplit.errors import InputError
from gsplit.host import ending_tidily
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import Resumed, taken_up
from gsplit.launch.start import launch
from gsplit.launch.unused import warn_of_unused
from gsplit.processes import check_script
from gsplit.runs.folder import held_run
from gsplit.supply.tickets import Position
from gsplit.train.check import check_model
from gsplit.train.loop import live
from gsplit.train.store_layout import is_store_of_run, laid_out


def train(
    layout: Path | str | None = None,
    config: TrainConfig | None = None,
    *,
    model: nn.Module | None = None,
    loss: LossFunction | None = None,
) -> dict[str, Any]:
    """Train on a layout with one process per part; returns the summary (docs/formats.md, "Run").

    With ``config.check_model`` nothing is trained: the result is ``{"check": ...}``, a line that says how well two
    trainers agree with one. With ``config.dry_run`` it is ``{"plans": ...}``, a table of what plans take.

    Processes are spawned, so a script that calls this needs ``if __name__ == "__main__":``.

    Args:
        layout: the folder; by default ``config.layout``. With ``strategy="full"`` it may be a graph store, whose
            vertices are dealt out to the trainers, in a layout inside the run's folder.
        config: the run; ``out`` must be set. To resume, :meth:`TrainConfig.resuming`.
        model: written for PyG or DGL (docs/bring_your_own_model.md), or a module with ``forward(blocks, x)``, from
            features of the inputs [n_0, D] to logits of the targets [n_L, C], that calls ``block.mean(x)``, its like,
            or ``block.exchange(x)`` in each layer. With ``forward_layer(l, block, x)`` and ``level_widths`` it is
            evaluated level by level. By default the model that ``config.model`` names.
        loss: a function of logits [n, C] and labels (int64 [n] classes, or [n, C] in the type of the logits) that
            gives a value for each target [n], or for each of its outputs [n, C], or the sum of all; the engine
            divides by what counts on all trainers (docs/bring_your_own_model.md). By default the loss that
            ``config.loss`` names.

    Raises:
        InputError: for whatever is wrong with the input; nothing is left of a run that saved nothing.
        gsplit.processes.ProcessDied: where a trainer fails; no process is left then.
        KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM; what was trained is in a checkpoint.
    """
    check_script("gsplit.train")
    _check_launcher()
    config = config or TrainConfig()
    if layout is not None:
        config = replace(config, layout=Path(layout))
    config, before = taken_up(config)
    if before is None and is_store_of_run(config):
        with ending_tidily(), held_run(config.out, overwrite=config.overwrite), laid_out(config) as config:
            run = resolve(config, model, loss)
            warn_of_unused(run)
            save_configurations(run.folder, run.asked, run.config, run.unused)
            return launch(run, live, Position())
    run = resolve(config, model, loss)
    if run.config.check_model:
        return {"check": check_model(run)}
    if run.config.dry_run:
        return {"plans": plan_table(run)}
    warn_of_unused(run)
    folder = held_run(run.config.out, resumes=run.resumes, overwrite=run.config.overwrite)
    with ending_tidily(), folder:
        position = Position()
        if before is not None:
            resumed = Resumed.checked(run, before)
            if (summary := resumed.finished()) is not None:
                return summary
            resumed.warn_of_changes()
            position = resumed.position
        save_configurations(run.folder, run.asked, run.config, run.unused)
        return launch(run, live, position)


def _check_launcher() -> None:
    """Refuse to be started once for each trainer."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and "LOCAL_RANK" in os.environ:
        raise InputError(
            "torchrun is not needed: gsplit starts its trainers itself, one a part of the layout; run gsplit "
            "train LAYOUT"
        )
