"""The one place that warns of flags without effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from gsplit.config.fields import flag_of
from gsplit.config.train import TrainConfig
from gsplit.engine.run import Run
from gsplit.models.registry import BUILT_IN
from gsplit.runs.folder import PREDICTIONS

logger = logging.getLogger(__name__)


def warn_of_unused(run: Run) -> None:
    """Name each flag that was given and does nothing in a run."""
    for line in _unused(run):
        logger.warning(line)


def warn_of_unused_when_finished(run: Run) -> None:
    """Name the flags that do nothing where a run that goes on has nothing left to do."""
    if run.asked.save_predictions != "no" and not (run.folder / PREDICTIONS).exists():
        logger.warning("--save-predictions has no effect; gsplit predict writes predictions")


def _unused(run: Run) -> Iterator[str]:
    asked, defaults = run.asked, TrainConfig()
    name = asked.model
    if run.pickled_model is not None:
        name = f"{run.signature['class'].rpartition('.')[2]} that was handed over"
    for setting in run.unused:
        if getattr(asked, setting) != getattr(defaults, setting):
            yield f"{flag_of(setting)} has no effect on the model {name}"
    if asked.check_model is False and run.signature["model"] in BUILT_IN:
        yield f"--no-check-model has no effect on the model {name}, which is GSplit's own"
    if asked.strategy == "data" and asked.split_group not in (None, 1):
        yield f"--split-group {asked.split_group} is ignored with --strategy data"
    if asked.exchange_dtype != "model" and run.config.split_group == 1:
        yield f"--exchange-dtype {asked.exchange_dtype} has no effect where no rows are exchanged"
    if asked.strategy != "full" and asked.exchange == "auto":
        if run.config.exchange == "rows" and run.config.sampling not in ("neighbours", "clusters"):
            yield f"--exchange auto has no effect with --sampling {run.config.sampling}: sums have no scales"
        elif run.config.exchange == "rows":
            yield f"--exchange auto has no effect on the model {name}, which needs the rows of all sources"
        elif run.config.split_group == 1:
            yield "--exchange auto has no effect where no rows are exchanged"
    yield from _unused_by_strategy(asked, defaults)
    if asked.strategy == "full":
        yield from _unused_by_plan(run, defaults)
    yield from _unused_by_recipe(asked, defaults)
    yield from _unused_by_evaluation(asked, defaults)
    if asked.cache == "none" and asked.cache_size is not None:
        yield f"--cache-size {asked.cache_size} is ignored with --cache none"
    by_trainers = run.samplers == 0 and asked.strategy != "full"
    if by_trainers and (asked.order != "sequence" or asked.slots is not None or asked.sampler_threads != 1):
        yield "--order, --slots and --sampler-threads have no effect with --samplers 0"
    if by_trainers and asked.bulk != "1":
        yield f"--bulk {asked.bulk} has no effect with --samplers 0"


def _unused_by_evaluation(asked: TrainConfig, defaults: TrainConfig) -> Iterator[str]:
    for name in ("validate_every", "validate_every_batches", "validate_vertices"):
        value = getattr(asked, name)
        if asked.evaluate == "none" and value not in (0, getattr(defaults, name)):
            yield f"{flag_of(name)} {value} has no effect with --evaluate none"
    if asked.evaluate != "sampled" and asked.validate_fan_out is not None:
        numbers = ",".join(map(str, asked.validate_fan_out))
        yield f"--validate-fan-out {numbers} has no effect with --evaluate {asked.evaluate}"
    if asked.evaluate != "none" and asked.validate_vertices is not None and not asked.validates:
        yield f"--validate-vertices {asked.validate_vertices} has no effect where nothing is validated"


RATES = {"lr_step_size": ("step",), "lr_gamma": ("step", "plateau"), "lr_patience": ("plateau",)}
"""Flags of some schedules, with those."""


def _unused_by_recipe(asked: TrainConfig, defaults: TrainConfig) -> Iterator[str]:
    if asked.optimizer != "sgd" and asked.momentum:
        yield f"--momentum {asked.momentum} has no effect with --optimizer {asked.optimizer}"
    if asked.loss != "huber" and asked.huber_delta != defaults.huber_delta:
        yield f"--huber-delta {asked.huber_delta} has no effect without --loss huber"
    if asked.warmup > asked.epochs > 0:
        yield f"--warmup {asked.warmup} lasts longer than --epochs {asked.epochs}: the rate never gets to --lr"
    if asked.strategy == "full" and asked.warmup and round(asked.warmup) < 2:
        yield f"--warmup {asked.warmup} has no effect with --strategy full, where an epoch is one step"
    for name, schedules in RATES.items():
        value = getattr(asked, name)
        if asked.lr_schedule not in schedules and value != getattr(defaults, name):
            yield f"{flag_of(name)} {value} has no effect with --lr-schedule {asked.lr_schedule}"


ROTATED_ONLY = ("permutation", "row_blocks")
"""Flags of one algorithm; a new run with another is refused before, as it is with a type that it does not send."""


def _unused_by_plan(run: Run, defaults: TrainConfig) -> Iterator[str]:
    algorithm = run.config.algorithm
    useless = [] if algorithm == "rotate" else list(ROTATED_ONLY)
    if algorithm not in ("1d", "1d-sparse"):
        useless.append("exchange_dtype")
    for name in useless:
        value = getattr(run.asked, name)
        if value != getattr(defaults, name):
            yield f"{flag_of(name)} {value} has no effect with --algorithm {algorithm}"


SAMPLED_ONLY = (
    *("batch_size", "split_group", "samplers", "slots", "order", "prefetch", "sampler_memory", "sampler_threads"),
    *("max_sampler_restarts", "cache", "cache_size", "loader", "exchange", "accumulate", "sampling", "bulk"),
    *("layer_sizes", "subgraph", "clusters", "estimate", "importance", "draw", "validate_every_batches"),
)
"""Flags of samples and of rows that are loaded for each; a new run with some of them is refused before."""
WHOLE_ONLY = ("algorithm", "grid", "replication", "permutation", "row_blocks")
"""Flags of the whole graph."""


def _unused_by_strategy(asked: TrainConfig, defaults: TrainConfig) -> Iterator[str]:
    whole = asked.strategy == "full"
    if not whole and ":" in asked.strategy:
        return  # an engine of the user's may read any
    for name in SAMPLED_ONLY if whole else WHOLE_ONLY:
        value = getattr(asked, name)
        if value != getattr(defaults, name) and (name, value) not in (("samplers", 0), ("cache", "none")):
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
            yield f"{flag_of(name)} {shown} has no effect with --strategy {asked.strategy}"
