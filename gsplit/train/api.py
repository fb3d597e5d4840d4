"""``gsplit.train``: resolve what was asked for, hold the run's folder, launch the trainers."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from torch import nn

from gsplit.callbacks import Callback
from gsplit.config.parallel import SAMPLED
from gsplit.config.rules import Not, refuse_useless
from gsplit.config.sampling import RULES
from gsplit.config.train import TrainConfig, save_configurations
from gsplit.data.memory.temporary import Temporary
from gsplit.data.opened import OpenFolder
from gsplit.engine.objectives.own_loss import LossFunction
from gsplit.engine.whole.plan_table import plan_table
from gsplit.errors import InputError
from gsplit.files import as_path
from gsplit.host import ending_tidily
from gsplit.hosts import Place, place_of
from gsplit.launch.effects import warn
from gsplit.launch.placed import check_carried, follow, lead, met
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import Resumed, resume_config
from gsplit.launch.start import launch
from gsplit.models.prepared import in_bytes
from gsplit.parallel.meeting import Meeting
from gsplit.processes import check_script
from gsplit.processes.scripts import TRAINING
from gsplit.runs.folder import held_run
from gsplit.supply.tickets import Position
from gsplit.train.check import check_model
from gsplit.train.going_on import goes_on, starter_at, tell_seen
from gsplit.train.loop import live, trained
from gsplit.train.own_loop import Handed, Loop
from gsplit.train.plan_trials import by_plan, with_plan_before, with_plan_chosen
from gsplit.train.store_layout import is_store_of_run, laid_out
from gsplit.train.summary import Trained


def train(
    layout: str | os.PathLike[str] | None = None,
    config: TrainConfig | None = None,
    *,
    model: nn.Module | None = None,
    loss: LossFunction | None = None,
    loop: Callable[[Loop], object] | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Train on a layout with one process per part; returns the summary (docs/formats.md, "Run").

    The summary is a dictionary, and stands for the run: :func:`gsplit.predict.api.predict`,
    :func:`gsplit.models.saved.load` and :meth:`TrainConfig.resuming` take it in place of the folder. With
    ``config.check_model`` nothing is trained: the result is ``{"check": ...}``, a line that says how well two
    trainers agree with one. With ``config.dry_run`` it is ``{"plans": ...}``, a table of what plans take.

    Processes are spawned, so a script that calls this needs ``if __name__ == "__main__":``.

    Args:
        layout: what ``gsplit.partition`` returned, or the folder; by default ``config.layout``. With
            ``strategy="full"`` it may be a graph store, whose vertices are dealt out to the trainers, in a layout
            inside the run's folder.
        config: the run. Where ``out`` is not set, the run is kept in a temporary folder, which goes with the summary:
            when that is closed, at the end of a ``with``, when nobody holds it any more, or at exit. This wants a
            layout that ``gsplit.partition`` or ``gsplit.data.open_layout`` returned; with a folder ``out`` must be
            set. To resume, :meth:`TrainConfig.resuming`.
        model: written for PyG or DGL (docs/bring_your_own_model.md), or a module with ``forward(blocks, x)``, from
            features of the inputs [n_0, D] to logits of the targets [n_L, C], that calls ``block.mean(x)``, its like,
            or ``block.exchange(x)`` in each layer. With ``forward_layer(l, block, x)`` and ``level_widths`` it is
            evaluated level by level. By default the model that ``config.model`` names.
        loss: a function of logits [n, C] and labels (int64 [n] classes, or [n, C] in the type of the logits) that
            gives a value for each target [n], or for each of its outputs [n, C], or the sum of all; the engine
            divides by what counts on all trainers (docs/bring_your_own_model.md). By default the loss that
            ``config.loss`` names.
        loop: a function that each trainer calls with a :class:`gsplit.train.own_loop.Loop` in the place of the
            engine's own loop: ``for batch in run``, ``run.backward(loss_sum)``, ``run.step()``
            (docs/bring_your_own_model.md). It takes sampled mini-batches, not the whole graph.
        callbacks: notified of epochs, validations and the end of the run (:class:`gsplit.callbacks.Callback`).

    Raises:
        InputError: for whatever is wrong with the input; nothing is left of a run that saved nothing.
        gsplit.errors.ProcessDied: where a trainer fails; no process is left then.
        KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM; what was trained is in a checkpoint.

    Examples:
        >>> config = gsplit.TrainConfig(fan_out=(3, 3), hidden=8, epochs=2, out="trained", device="cpu")
        >>> summary = gsplit.train("layout", config)
        >>> summary["epochs"], 0 <= summary["test_accuracy"] <= 1
        (2, True)
    """
    check_script(TRAINING)
    place = place_of()
    config = TrainConfig() if config is None else config
    if not isinstance(config, TrainConfig):
        raise InputError(f"gsplit.train takes a gsplit.TrainConfig, not a {type(config).__name__}")
    if layout is not None:
        wanted = "what gsplit.partition returned, or the folder of a layout"
        config = replace(config, layout=as_path(layout, "gsplit.train", wanted))
    makes_a_run = not (config.out or config.resume or config.check_model or config.dry_run)
    temporary = Temporary() if makes_a_run and place is None and isinstance(layout, OpenFolder) else None
    try:
        if temporary is not None:
            config = replace(config, out=temporary.path / "run")
        if place is None:
            summary = _train(config, model, loss, loop, callbacks)
        else:
            summary = _train_at(place, config, model, loss, loop, callbacks)
    except BaseException:
        if temporary is not None:
            temporary.close()  # not when the traceback goes, which notebooks keep
        raise
    return Trained(summary, config.resume or config.out if "run" in summary else None, config.layout)


def _train(
    config: TrainConfig,
    model: nn.Module | None,
    loss: LossFunction | None,
    loop: Callable[[Loop], object] | None,
    callbacks: Sequence[Callback],
    meeting: Meeting | None = None,
) -> dict[str, Any]:
    """Do what :func:`train` says, with a layout and a folder that have names.

    Args:
        config, model, loss, loop, callbacks: as there.
        meeting: with the other trainers, where this is trainer 0 of those that somebody else has started.
    """
    handed = _handed(config, loss, loop, callbacks)
    starter = None if meeting is None else starter_at(meeting, config)
    config = goes_on(config, starter)
    config, before = resume_config(config)
    if meeting is not None:
        config = replace(config, gpus=meeting.place.world)
    with ending_tidily(), ExitStack() as held:
        if begins_from_store := before is None and is_store_of_run(config):
            if meeting is not None:
                raise InputError(
                    f"{config.layout} is a graph store, to be laid out in the run's folder, which trainer 0 alone "
                    "has; make a layout with gsplit partition"
                )
            held.enter_context(held_run(config.out, overwrite=config.overwrite, starter=starter))
            config = held.enter_context(laid_out(config))
        hosts = 1 if meeting is None else meeting.place.hosts
        resolved = functools.partial(
            resolve, model=model, loss=loss, before=None if before is None else before.config, hosts=hosts
        )
        run = resolved(config)
        if run.config.check_model:
            return {"check": check_model(run)}
        if run.config.dry_run:
            plans = {"plans": plan_table(run)}
            if meeting is not None:
                meeting.tell("decided", plans)
            return plans
        if not begins_from_store:
            held.enter_context(
                held_run(run.config.out, resumes=run.resumes, overwrite=run.config.overwrite, starter=starter)
            )
        named, position = functools.partial(by_plan, resolved, run.asked), Position()
        if before is not None:
            resumed = Resumed.checked(run, before)
            if (summary := resumed.finished()) is not None:
                if meeting is not None:
                    meeting.tell("decided", summary)
                return summary
            if loop is None and (name := resumed.checkpoint.get("given_loop")):
                raise InputError(
                    f"the run in {run.folder} trained by a loop that was handed over, {name}; resume it from Python, "
                    "with gsplit.train(config=gsplit.TrainConfig.resuming(...), loop=...)"
                )
            resumed.warn_of_changes()
            run = with_plan_before(run, before.config, named)
            position = resumed.position
        elif meeting is None:
            run = with_plan_chosen(run, named)
        warn(run)
        save_configurations(run.folder, run.asked, run.config, run.unused)
        if meeting is None:
            return launch(run, functools.partial(live, handed=handed), position)
        meeting.note_begun(run.folder)
        return lead(meeting, run, functools.partial(trained, handed=handed), position)


def _train_at(
    place: Place,
    config: TrainConfig,
    model: nn.Module | None,
    loss: LossFunction | None,
    loop: Callable[[Loop], object] | None,
    callbacks: Sequence[Callback],
) -> dict[str, Any]:
    """Do what :func:`train` says as one trainer of those that somebody else has started; all return the summary."""
    with ending_tidily(), met(place, config.silence) as meeting:
        check_carried(config, place)
        if place.rank == 0:
            return _train(config, model, loss, loop, callbacks, meeting)
        tell_seen(meeting, config)
        return follow(meeting, config.layout)


def _handed(
    config: TrainConfig,
    loss: LossFunction | None,
    loop: Callable[[Loop], object] | None,
    callbacks: Sequence[Callback],
) -> Handed:
    """A loop and callbacks as trainers get them."""
    if loop is not None and (loss is not None or config.loss is not None):
        raise InputError("a loop of one's own has its own loss; drop the other one")
    if loop is not None and config.strategy not in SAMPLED:
        raise InputError(f"a loop of one's own takes sampled mini-batches, not --strategy {config.strategy}")
    if loop is not None and config.algorithm == "rotate" and config.grid is not None:
        raise InputError("a loop of one's own calls the model on blocks, and --algorithm rotate has none; use 3d")
    if loop is not None and RULES[config.sampling].draws_targets:
        raise InputError(
            f"a loop of one's own does not know what targets of --sampling {config.sampling} count; use another rule"
        )
    if loop is not None and not callable(loop):
        raise InputError(f"a loop is a function of the run, not {loop!r}")
    if loop is not None:
        refuse_useless(config, {"built_in_loss": Not("on a loop of one's own, which has its own loss")})
    try:
        callbacks = list(callbacks)
    except TypeError:
        raise InputError(f"callbacks takes a list of gsplit.callbacks.Callback, not {callbacks!r}") from None
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InputError(f"callbacks has a {type(callback).__name__}, which is no gsplit.callbacks.Callback")
    return Handed(
        loop=None if loop is None else in_bytes(loop, f"the loop {getattr(loop, '__qualname__', loop)}"),
        loop_name=None if loop is None else getattr(loop, "__qualname__", type(loop).__qualname__),
        callbacks=in_bytes(callbacks, "a callback") if callbacks else None,
    )
