"""Going on with a run: what may change, what may not, and what is said about it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsplit.config.train import RESULTS_DEPEND_ON, TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.engine.run import Run
from gsplit.errors import InputError
from gsplit.files import read_json
from gsplit.models import custom
from gsplit.runs import checkpoint
from gsplit.runs.folder import CONFIG
from gsplit.runs.log import SUMMARY
from gsplit.supply.tickets import Position
from gsplit.terminal import say

logger = logging.getLogger(__name__)


def follow_layout(config: TrainConfig) -> TrainConfig:
    """Where a run goes on with another layout, its number of trainers follows, unless a new one is given."""
    if config.resume is None or config.layout is None:
        return config
    before = TrainConfig.from_json(config.resume / CONFIG)
    moved = before.layout is None or config.layout.resolve() != before.layout.resolve()
    return replace(config, gpus=None) if moved and config.gpus == before.gpus else config


def finished(folder: Path, epochs: int) -> dict[str, Any] | None:
    """The summary of a run that has nothing left to do for so many epochs; None where it has, or has none."""
    try:
        summary: dict[str, Any] = read_json(folder / SUMMARY)
        at = checkpoint.describe_state(folder, checkpoint.CHECKPOINT)
        done = at["epoch"]
        if at["batch"] or not done == summary["epochs"] >= epochs:
            return None
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None
    say(f"nothing to train: {done} epochs are done, --epochs is {epochs}; the run stays as it is")
    return summary


def position_of(run: Run) -> Position:
    """Where the trainers will begin: at the first mini-batch, or where the checkpoint says, which they read too."""
    if not run.resumes:
        return Position()
    saved = checkpoint.describe_state(run.folder, checkpoint.CHECKPOINT)
    return Position(epoch=saved["epoch"], batch=saved["batch"], ahead=saved["ahead"])


def _check_same_epoch(
    folder: Path, saved: dict[str, Any], before: TrainConfig, config: TrainConfig, layout: Layout, world: int
) -> None:
    """A checkpoint in mid-epoch counts mini-batches; refuse what would put other targets into the rest of them."""
    stay: dict[str, tuple[Any, Any]] = {
        "--seed": (before.seed, config.seed),
        "--batch-size": (before.batch_size, config.batch_size),
    }
    if "replicated" in (before.cache, config.cache):  # then each trainer has a share of its own, by layout
        stay["--cache"] = (before.cache, config.cache)
        stay["--gpus"] = (saved["trainers"], world)
        if saved["layout_checksum"] != layout.checksum:
            stay["LAYOUT"] = (f"{before.layout}, as it was", layout.path)
    for flag, (old, new) in stay.items():
        if old != new:
            raise InputError(f"the checkpoint in {folder} is in the middle of an epoch, so {flag} must stay {old}")


def check_resumable(config: TrainConfig, run: Run) -> None:
    """Refuse to go on with a run, which this process holds, where it cannot go on like this.

    Args:
        config: of what is to come, as asked for; ``resume`` names the folder.
        run: of what is to come, as decided.

    Raises:
        InputError: where it cannot, or what it saved is damaged.
    """
    folder, signature = run.folder, run.signature
    layout = open_layout(run.layout, trusted=True)
    if config.out is not None and config.out.resolve() != folder.resolve():
        raise InputError(f"--resume {folder} goes on in that folder; drop --out {config.out}")
    before = TrainConfig.from_json(folder / CONFIG)
    saved = checkpoint.describe_state(folder, checkpoint.CHECKPOINT)
    if saved["signature"].get("model") == custom.CUSTOM and signature["model"] != custom.CUSTOM:
        raise InputError(
            f"the run in {folder} trained a custom model, {saved['signature'].get('class')}; resume it from Python, "
            "with gsplit.train(config=gsplit.TrainConfig.resuming(...), model=...)"
        )
    checkpoint.check_same_model(folder, saved["signature"], signature)
    if saved["store_checksum"] != layout.store_checksum:
        raise InputError(f"{layout.path} was made from another store than the one the run in {folder} trained on")
    checkpoint.load_state(folder, checkpoint.CHECKPOINT)  # damaged? then say so before anything starts
    if saved["batch"]:
        _check_same_epoch(folder, saved, before, config, layout, run.trainers)


def warn_of_changes(config: TrainConfig, run: Run) -> None:
    """Say what will be different from now on in a run that goes on, and what of it changes results.

    Args:
        config: of what is to come, as asked for.
        run: of what is to come, as decided.
    """
    folder, world, threads = run.folder, run.trainers, run.config.threads
    before = TrainConfig.from_json(folder / CONFIG)
    saved = checkpoint.describe_state(folder, checkpoint.CHECKPOINT)
    effect = "sums change their order, and results their last digits"
    if run.strategy.micro_batches > 1 and saved["trainers"] != world:
        effect = "mini-batches are cut into other micro-batches, with other samples"
    for what, before_it, now in (("trainers", saved["trainers"], world), ("threads", saved.get("threads"), threads)):
        if before_it != now:
            logger.warning("resuming with %s %s instead of %s: %s", now, what, before_it, effect)
    if before.cache != config.cache and "replicated" in (before.cache, config.cache):
        logger.warning(
            "resuming with --cache %s instead of %s: with replicated each trainer has targets of its own",
            config.cache,
            before.cache,
        )
    for name in RESULTS_DEPEND_ON:
        if getattr(before, name) != getattr(config, name):
            logger.warning("resuming with %s %s instead of %s", name, getattr(config, name), getattr(before, name))
