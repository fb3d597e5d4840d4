"""The one place that warns of flags without effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from torch import nn

from gsplit.config.fields import flag_of
from gsplit.config.run import RunConfig
from gsplit.config.train import TrainConfig
from gsplit.engine.run import Run
from gsplit.runs.folder import PREDICTIONS

logger = logging.getLogger(__name__)


def warn_of_unused(asked: TrainConfig, run: Run, model: nn.Module | None) -> None:
    """Name each flag that was given and does nothing in a run.

    Args:
        asked: what the user said.
        run: what was decided.
        model: that was handed over as an object.
    """
    for line in _unused(asked, run, model):
        logger.warning(line)


def warn_of_unused_when_finished(asked: RunConfig, run: Run) -> None:
    """Name the flags that do nothing where a run that goes on has nothing left to do."""
    if asked.save_predictions != "no" and not (run.folder / PREDICTIONS).exists():
        logger.warning("--save-predictions has no effect; python -m gsplit.predict writes predictions")


def _unused(asked: TrainConfig, run: Run, model: nn.Module | None) -> Iterator[str]:
    defaults = TrainConfig()
    name = asked.model if model is None else f"{type(model).__name__} that was handed over"
    for setting in run.unused:
        if getattr(asked, setting) != getattr(defaults, setting):
            yield f"{flag_of(setting)} has no effect on the model {name}"
    if asked.strategy == "data" and asked.split_group not in (None, 1):
        yield f"--split-group {asked.split_group} is ignored with --strategy data"
    if asked.exchange_dtype != "model" and run.config.split_group == 1:
        yield f"--exchange-dtype {asked.exchange_dtype} has no effect where no rows are exchanged"
    if asked.cache == "none" and asked.cache_size is not None:
        yield f"--cache-size {asked.cache_size} is ignored with --cache none"
    if run.samplers == 0 and (asked.order != "sequence" or asked.slots is not None or asked.sampler_threads != 1):
        yield "--order, --slots and --sampler-threads have no effect with --samplers 0"
