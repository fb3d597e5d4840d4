"""The one place that looks for flags without effect.

Such a flag is refused where it says what is computed (the model, what it is trained on and by, its scores), for else
another training than the one that was asked for would end well; one that is given for the sake of time or memory is
warned of.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from gsplit.config.fields import flag_of
from gsplit.config.train import TrainConfig
from gsplit.engine.run import Run
from gsplit.errors import InputError
from gsplit.models.registry import BUILT_IN
from gsplit.runs.folder import PREDICTIONS

FOR_TIME_OR_MEMORY = (
    *("samplers", "slots", "order", "prefetch", "bulk", "sampler_memory", "sampler_threads", "max_sampler_restarts"),
    *("cache", "cache_size", "loader", "exchange", "exchange_dtype", "permutation", "row_blocks"),
    "check_model",
)
"""Flags that are warned of where they have no effect; every other one says what is computed."""

logger = logging.getLogger(__name__)


class Useless(NamedTuple):
    """A flag that was given and has no effect."""

    name: str
    """Name of its field."""
    line: str
    """What is said of it."""


def refuse_unused(run: Run, before: TrainConfig | None = None) -> None:
    """Refuse a flag that says what is computed and has no effect in a run.

    Args:
        run: as decided.
        before: what was asked for when a run that goes on was last at work: what stands as it did then was not given
            now, and is warned of. Without it nothing is refused of such a run.

    Raises:
        InputError: for the first one.
    """
    if run.resumes and before is None:
        return
    for name, line in _unused(run):
        value = getattr(run.asked, name)
        given = before is None or value != getattr(before, name)
        asks_for_nothing = name == "dropout" and value == 0
        if given and name not in FOR_TIME_OR_MEMORY and not asks_for_nothing:
            raise InputError(f"{line}; drop it")


def warn_of_unused(run: Run) -> None:
    """Name each flag that has no effect in a run and was not refused, and a warm-up that is none."""
    for line in (*(each.line for each in _unused(run)), *_never_warm(run.asked)):
        logger.warning(line)


def warn_of_unused_when_finished(run: Run) -> None:
    """Name the flags that do nothing where a run that goes on has nothing left to do."""
    if run.asked.save_predictions != "no" and not (run.folder / PREDICTIONS).exists():
        logger.warning("--save-predictions has no effect; gsplit predict writes predictions")


def _unused(run: Run) -> Iterator[Useless]:
    asked, defaults = run.asked, TrainConfig()
    name = asked.model
    if run.pickled_model is not None:
        name = f"{run.signature['class'].rpartition('.')[2]} that was handed over"
    for setting in run.unused:
        if getattr(asked, setting) != getattr(defaults, setting):
            yield Useless(setting, f"{_shown(asked, setting)} has no effect on the model {name}")
    if asked.check_model is False and run.signature["model"] in BUILT_IN:
        what = f"--no-check-model has no effect on the model {name}, which is GSplit's own"
        yield Useless("check_model", what)
    if asked.strategy == "data" and asked.split_group not in (None, 1):
        yield Useless("split_group", f"{_shown(asked, 'split_group')} is ignored with --strategy data")
    if asked.exchange_dtype != "model" and run.config.split_group == 1:
        yield Useless(
            "exchange_dtype", f"{_shown(asked, 'exchange_dtype')} has no effect where no rows are exchanged"
        )
    if asked.strategy != "full" and asked.exchange == "auto":
        why = ""
        if run.config.exchange == "rows" and run.config.sampling not in ("neighbours", "clusters"):
            why = f"with --sampling {run.config.sampling}: sums have no scales"
        elif run.config.exchange == "rows":
            why = f"on the model {name}, which needs the rows of all sources"
        elif run.config.split_group == 1:
            why = "where no rows are exchanged"
        if why:
            yield Useless("exchange", f"--exchange auto has no effect {why}")
    yield from _unused_by_strategy(asked, defaults)
    if asked.strategy == "full":
        yield from _unused_by_plan(run, defaults)
    yield from _unused_by_recipe(asked, defaults)
    yield from _unused_by_evaluation(asked, defaults)
    if asked.cache == "none" and asked.cache_size is not None:
        yield Useless("cache_size", f"{_shown(asked, 'cache_size')} is ignored with --cache none")
    by_trainers = run.samplers == 0 and asked.strategy != "full"
    if by_trainers and (asked.order != "sequence" or asked.slots is not None or asked.sampler_threads != 1):
        yield Useless("order", "--order, --slots and --sampler-threads have no effect with --samplers 0")
    if by_trainers and asked.bulk != "1":
        yield Useless("bulk", f"{_shown(asked, 'bulk')} has no effect with --samplers 0")


def _shown(asked: TrainConfig, name: str) -> str:
    """A flag as it may have been given."""
    value = getattr(asked, name)
    if isinstance(value, bool):
        return flag_of(name) if value else f"--no-{flag_of(name)[2:]}"
    return f"{flag_of(name)} {','.join(map(str, value)) if isinstance(value, tuple) else value}"


def _unused_by_evaluation(asked: TrainConfig, defaults: TrainConfig) -> Iterator[Useless]:
    for name in ("validate_every", "validate_every_batches", "validate_vertices"):
        if asked.evaluate == "none" and getattr(asked, name) not in (0, getattr(defaults, name)):
            yield Useless(name, f"{_shown(asked, name)} has no effect with --evaluate none")
    if asked.evaluate != "sampled" and asked.validate_fan_out is not None:
        name = "validate_fan_out"
        yield Useless(name, f"{_shown(asked, name)} has no effect with --evaluate {asked.evaluate}")
    if asked.evaluate != "none" and asked.validate_vertices is not None and not asked.validates:
        name = "validate_vertices"
        yield Useless(name, f"{_shown(asked, name)} has no effect where nothing is validated")


RATES = {"lr_step_size": ("step",), "lr_gamma": ("step", "plateau"), "lr_patience": ("plateau",)}
"""Flags of some schedules, with those."""


def _unused_by_recipe(asked: TrainConfig, defaults: TrainConfig) -> Iterator[Useless]:
    if asked.optimizer != "sgd" and asked.momentum:
        yield Useless("momentum", f"{_shown(asked, 'momentum')} has no effect with --optimizer {asked.optimizer}")
    if asked.loss != "huber" and asked.huber_delta != defaults.huber_delta:
        yield Useless("huber_delta", f"{_shown(asked, 'huber_delta')} has no effect without --loss huber")
    for name, schedules in RATES.items():
        if asked.lr_schedule not in schedules and getattr(asked, name) != getattr(defaults, name):
            yield Useless(name, f"{_shown(asked, name)} has no effect with --lr-schedule {asked.lr_schedule}")


def _never_warm(asked: TrainConfig) -> Iterator[str]:
    """What is said of a warm-up that does what it says, though nobody can want it."""
    if asked.warmup > asked.epochs > 0:
        yield f"--warmup {asked.warmup} lasts longer than --epochs {asked.epochs}: the rate never gets to --lr"
    if asked.strategy == "full" and asked.warmup and round(asked.warmup) < 2:
        yield f"--warmup {asked.warmup} has no effect with --strategy full, where an epoch is one step"


ROTATED_ONLY = ("permutation", "row_blocks")
"""Flags of one algorithm; a new run with another is refused before, as it is with a type that it does not send."""


def _unused_by_plan(run: Run, defaults: TrainConfig) -> Iterator[Useless]:
    algorithm = run.config.algorithm
    useless = [] if algorithm == "rotate" else list(ROTATED_ONLY)
    if algorithm not in ("1d", "1d-sparse"):
        useless.append("exchange_dtype")
    for name in useless:
        if getattr(run.asked, name) != getattr(defaults, name):
            yield Useless(name, f"{_shown(run.asked, name)} has no effect with --algorithm {algorithm}")


SAMPLED_ONLY = (
    *("sampling", "batch_size", "split_group", "accumulate", "layer_sizes", "subgraph", "clusters", "estimate"),
    *("importance", "draw", "validate_every_batches", "samplers", "slots", "order", "prefetch", "sampler_memory"),
    *("sampler_threads", "max_sampler_restarts", "cache", "cache_size", "loader", "exchange", "bulk"),
)
"""Flags of samples and of rows that are loaded for each; a new run with some of them is refused before."""
WHOLE_ONLY = ("algorithm", "grid", "replication", "permutation", "row_blocks")
"""Flags of the whole graph."""


def _unused_by_strategy(asked: TrainConfig, defaults: TrainConfig) -> Iterator[Useless]:
    whole = asked.strategy == "full"
    if not whole and ":" in asked.strategy:
        return  # an engine of the user's may read any
    for name in SAMPLED_ONLY if whole else WHOLE_ONLY:
        value = getattr(asked, name)
        if value != getattr(defaults, name) and (name, value) not in (("samplers", 0), ("cache", "none")):
            yield Useless(name, f"{_shown(asked, name)} has no effect with --strategy {asked.strategy}")
