"""Flags that have no effect in a run: which are refused, and which are warned of.

Where a flag has one stands with its field (:mod:`gsplit.config.rules`); the facts about a run are given to the rules
here. A flag is refused where it says what is computed (the model, what it is trained on and by, its scores), for else
another training than the one that was asked for would end well; one that is given for time or memory is warned of.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import gsplit._core as _core
from gsplit.config.rules import COST, Useless, marked, useless
from gsplit.config.train import TrainConfig
from gsplit.device import accelerator
from gsplit.engine.facts import Facts
from gsplit.engine.run import Run
from gsplit.errors import InputError
from gsplit.models.registry import Described

logger = logging.getLogger(__name__)


def flags_without_effect(asked: TrainConfig, facts: Facts, described: Described) -> Iterator[Useless]:
    """The flags that were given and have no effect, by the rules of their fields or of the model.

    Args:
        asked: the configuration as it was asked for.
        facts: of the run.
        described: its model, which may take nothing of some fields.
    """
    return useless(asked, facts, dict.fromkeys(described.unused, f"on the model {described.name}"))


def refuse(found: Iterable[Useless], asked: TrainConfig, before: TrainConfig | None) -> None:
    """Refuse a flag without effect that says what is computed.

    Args:
        found: flags without effect.
        asked: the configuration.
        before: what was asked for when a run that goes on was last trained: a flag that is as it was then was not
            given now, and is only warned of. Without it nothing is refused of such a run.

    Raises:
        InputError: for the first one.
    """
    for name, line in found:
        given_now = asked.resume is None or (before is not None and getattr(asked, name) != getattr(before, name))
        if given_now and name not in marked(type(asked), COST):
            raise InputError(f"{line}; drop it")


def warn(run: Run) -> None:
    """Name each flag that has no effect in a run and was not refused, and those that nobody can want."""
    for line in (*(each.line for each in run.without_effect), *_never_warm(run.asked), *_not_faster(run)):
        logger.warning(line)


def _not_faster(run: Run) -> Iterator[str]:
    """Half precision where it spares no time."""
    if run.precision.autocast is None or run.config.device != accelerator.HOST:
        return
    if run.precision.scales_loss:
        yield "--precision 16-mixed is for GPUs: on the CPU it is no faster than 32; bf16-mixed may be"
    elif not _core.has_tiles():
        yield (
            "--precision bf16-mixed spares memory and bytes here, but no time in products: this CPU has none in "
            "bfloat16 (AMX), so rows are widened for them; 32 is faster where products are most of a step"
        )


def _never_warm(asked: TrainConfig) -> Iterator[str]:
    """A warm-up that does what it says, though nobody can want it."""
    if asked.warmup > asked.epochs > 0:
        yield f"--warmup {asked.warmup} lasts longer than --epochs {asked.epochs}: the rate never gets to --lr"
    if asked.strategy == "full" and asked.warmup and round(asked.warmup) < 2:
        yield f"--warmup {asked.warmup} has no effect with --strategy full, where an epoch is one step"
