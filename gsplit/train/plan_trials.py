"""``--algorithm auto``: the plan of the whole graph, by price and by trial, where a run is long enough.

The plans that fit are ordered by the seconds of an epoch that are predicted for them, and the first :data:`TRIED` are
tried: trainers are started that train by one plan after the other, by the engine's own steps, and forget it all. They
are processes of their own and write nothing, so training begins as if the plan had been named. What was found is in
``plans.json`` of the run's folder.

Trials are to take a tenth (1 / :data:`WORTH`) of a run: a run is tried where it is predicted to take so many times
longer, and no plan is tried after those that were, where by their seconds the run will not. The first one is tried in
any case. All other runs keep the plan for which nothing has to be measured.
"""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf, prod
from typing import Any

from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.device import accelerator
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.engine.whole.fitting import KNOWN, fitting_plans
from gsplit.engine.whole.plan_table import Priced, moved_widths, open_to_trials, prices_for
from gsplit.errors import InputError, ProcessDied
from gsplit.files import read_json, replacing
from gsplit.full import GridPlan
from gsplit.full.volumes import sent_bytes
from gsplit.launch.start import launch
from gsplit.parallel import Member, max_over_trainers
from gsplit.parallel.join import joined
from gsplit.runs.folder import PLANS, RESOLVED
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.tickets import Position
from gsplit.train.loop import step
from gsplit.train.trainer import Trainer

TRIED = 3
"""Plans that are tried."""
WORTH = 10
"""How many times longer than its trials a run is."""
START_S = 5.0
"""Seconds until trainers have started, about."""
EPOCHS = 6
"""Epochs that a plan's two trials take, about: in each one to load, the first, and one that is timed."""
MOST_EPOCHS, ENOUGH_S = 100, 0.5
"""Epochs of a plan that are timed: one, and more until there are so many or they have taken so long. What all but
the quickest quarter take at least counts: others may use the machine."""
NUMBERS_PER_S = {"cpu": 1e9, "accelerator": 1e11}
"""Numbers that a trainer adds up in a second, about: where a run is short by these, no price is looked at."""
MULTIPLIED = 10
"""Rows that a weight is multiplied by, forward and backward, in the time of a number that is added up."""

logger = logging.getLogger(__name__)


def by_plan(resolved: Callable[[TrainConfig], Run], asked: TrainConfig, plan: GridPlan) -> Run:
    """The run as it is where a plan is named; what was asked for stays what it was.

    Args:
        resolved: makes a run of what is asked for.
        asked: what was asked for, with the plan left open.
        plan: that is named.
    """
    with _untold():
        return replace(resolved(replace(asked, **plan.fields)), asked=asked)


@contextmanager
def _untold() -> Iterator[None]:
    """Log nothing but errors: what a run is told of its plan is said before trials, or where training begins."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def with_plan_chosen(run: Run, named: Callable[[GridPlan], Run]) -> Run:
    """The run by the plan that is quickest, where it leaves that open and is long enough; writes ``plans.json``.

    Args:
        run: whose folder this process holds.
        named: gives the run as it is where a plan is named.

    Raises:
        KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM; nothing is left of the trials.
    """
    if not open_to_trials(run) or not _may_be_long(run):
        return run
    start_s = time.monotonic()
    priced = fitting_plans(run, prices_for(run))
    best = priced[:TRIED]
    trials_s = START_S + EPOCHS * sum(price.seconds for price in best)
    if len(best) < 2 or epochs_of(run) * best[0].seconds < WORTH * trials_s:
        return run
    logger.info("--algorithm auto tries %s", ", ".join(str(price.plan) for price in best))
    try:
        runs = [named(price.plan) for price in best]
    except InputError as error:
        logger.warning("no plan is tried, but the default taken: %s", error)
        return run
    try:
        seconds = seconds_of(runs, start_s)
    except (ProcessDied, InputError) as error:
        first, *_, last = *str(error).splitlines(), ""
        logger.warning(
            "the trial of plans failed, and the one is taken that is predicted first: %s", f"{first} {last}"
        )
        seconds = []
    at = seconds.index(min(seconds)) if seconds else 0
    logger.info("--algorithm auto takes %s", best[at].flags)
    _write(run, priced, best[at], seconds)
    return runs[at]


def with_plan_before(run: Run, before: TrainConfig, named: Callable[[GridPlan], Run]) -> Run:
    """A run that goes on, with the plan that was chosen before, if it leaves that open and is laid out as before.

    Args:
        run: that goes on.
        before: what was asked for before.
        named: gives the run as it is where a plan is named.
    """
    if not (open_to_trials(run) and (before.strategy, before.algorithm, before.grid) == ("full", "auto", None)):
        return run
    path = run.folder / RESOLVED
    try:
        was = read_json(path)
        rows, columns, features = map(int, was["grid"])
        plan = GridPlan(algorithm=was["algorithm"], sizes=(rows, columns, features))
        as_before = (was["gpus"], was["device"], prod(plan.sizes)) == (run.trainers, run.config.device, was["gpus"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s does not say by which plan the run has trained (%s); it goes on by another", path, error)
        return run
    return named(plan) if as_before and was["algorithm"] != run.config.algorithm else run


def seconds_of(runs: Sequence[Run], start_s: float) -> list[float]:
    """Seconds of an epoch of each run, measured by trainers that are started for it and write nothing.

    Args:
        runs: the same run by several plans.
        start_s: when trials began, by the monotonic clock; where they would take more than a tenth of the run by the
            seconds that were measured, those of the last runs are left out.

    Raises:
        gsplit.errors.ProcessDied, gsplit.errors.InputError: where one of the trainers fails.
    """
    most_epochs = epochs_of(runs[0]) / WORTH
    runs = [replace(run, config=replace(run.config, epochs=1 + MOST_EPOCHS, profile=False)) for run in runs]
    trainer = partial(tried, runs=runs, start_s=start_s, most_epochs=most_epochs)
    with _untold():
        seconds: list[float] = launch(runs[0], trainer, Position())["seconds"]
    return seconds


def tried(
    rank: int,
    run: Run,
    port: int,
    shared: Shared,
    end: TrainerEnd,
    *,
    runs: Sequence[Run],
    start_s: float,
    most_epochs: float,
) -> dict[str, Any]:
    """The life of a trainer that tries some runs, one after the other and back; trainer 0 returns their seconds.

    The quicker of the two trials of a run counts: what else the machine does in a moment is not the plan's.

    Args:
        rank, run, port, shared, end: as every trainer has them.
        runs: that are tried.
        start_s: when trials began, by the monotonic clock.
        most_epochs: that trials may take, of the quickest run so far.
    """
    config, seconds = run.config, dict[int, float]()
    with _untold(), joined(rank, run.trainers, port, config.device, config.threads) as member:
        for number in (*range(len(runs)), *reversed(range(len(runs)))):
            began_s = time.monotonic()
            seconds[number] = min(_seconds_of(member, runs[number], shared), seconds.get(number, inf))
            gc.collect()  # before others take memory
            now_s = time.monotonic()
            until_next_s = now_s - start_s + now_s - began_s
            if max_over_trainers(int(until_next_s > most_epochs * min(seconds.values())), member):
                break
    return {"seconds": [seconds[number] for number in sorted(seconds)]}


def _seconds_of(member: Member, run: Run, shared: Shared) -> float:
    trainer = Trainer(member, run, shared)
    trainer.begin()
    seconds: list[float] = []
    for number, mini_batch in enumerate(trainer.feed):
        trainer.member.barrier()
        start_s = time.perf_counter()
        step(trainer, mini_batch)
        accelerator.synchronize(member.device)
        taken_s = max_over_trainers(int(1e9 * (time.perf_counter() - start_s)), member) / 1e9
        seconds += [taken_s] * (number > 0)
        if sum(seconds) > ENOUGH_S:
            break
    trainer.close()
    return sorted(seconds)[len(seconds) // 4]


def epochs_of(run: Run) -> int:
    """The epochs that a run surely has."""
    config = run.config
    if not config.early_stop:
        return config.epochs
    return min(config.epochs, config.early_stop * max(1, config.validate_every))


def _may_be_long(run: Run) -> bool:
    """Whether a run may be long enough for trials; False for a model whose widths nobody knows."""
    model = run.new_model()
    if type(model) not in KNOWN:
        return False
    widths = moved_widths(model, 1, trained=run.config.train_features is not None)
    columns = sum(width.forward + width.backward for width in widths)
    graph = open_layout(run.layout, trusted=True).graph
    parameters = sum(parameter.numel() for parameter in model.parameters())
    numbers = len(graph.indices) * columns + graph.num_vertices * parameters / MULTIPLIED
    rate = NUMBERS_PER_S["cpu" if run.config.device == accelerator.HOST else "accelerator"]
    return epochs_of(run) * numbers / (rate * run.trainers) >= WORTH * START_S


def _write(run: Run, priced: Sequence[Priced], chosen: Priced, seconds: Sequence[float]) -> None:
    measured = [*seconds, *[None] * (len(priced) - len(seconds))]
    plans = [
        {
            "plan": str(price.plan),
            "flags": price.flags,
            "predicted_s": price.seconds,
            "measured_s": measured_s,
            "sent_bytes": sent_bytes(price.sent),
            "private_bytes": price.private_bytes,
            "host_bytes": price.host_bytes,
            "device_bytes": price.device_bytes,
        }
        for price, measured_s in zip(priced, measured, strict=True)
    ]
    about = {"trainers": run.trainers, "device": run.config.device, "chosen": str(chosen.plan)}
    with replacing(run.folder / PLANS) as temporary:
        temporary.write_text(json.dumps({**about, "plans": plans}, indent=1))
