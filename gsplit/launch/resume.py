"""Going on with a run: what may change, what may not, and what is said about it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsplit.config.parallel import STRATEGIES
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


@dataclass(frozen=True, kw_only=True)
class Before:
    """A run as it was when it stopped; whoever holds its folder reads it once."""

    config: TrainConfig
    """The configuration that was asked for then."""
    checkpoint: dict[str, Any]
    """Description of the last checkpoint (docs/formats.md, "Run")."""

    @classmethod
    def read(cls, folder: Path) -> Before:
        """The run in a folder.

        Raises:
            InputError: where there is none, or what it saved is damaged.
        """
        config = TrainConfig.from_json(folder / CONFIG)
        return cls(config=config, checkpoint=checkpoint.describe_state(folder, checkpoint.CHECKPOINT))

    @property
    def position(self) -> Position:
        """Where the trainers begin, which read the same checkpoint."""
        saved = self.checkpoint
        return Position(epoch=saved["epoch"], batch=saved["batch"], ahead=saved["ahead"])

    def check(self, config: TrainConfig, run: Run) -> None:
        """Refuse to go on with the run where it cannot go on like this.

        Args:
            config: of what is to come, as asked for.
            run: of what is to come, as decided.

        Raises:
            InputError: where it cannot, or the checkpoint is damaged.
        """
        folder, saved, layout = run.folder, self.checkpoint, open_layout(run.layout, trusted=True)
        if saved["signature"].get("model") == custom.CUSTOM and run.signature["model"] != custom.CUSTOM:
            raise InputError(
                f"the run in {folder} trained a custom model, {saved['signature'].get('class')}; resume it from "
                "Python, with gsplit.train(config=gsplit.TrainConfig.resuming(...), model=...)"
            )
        checkpoint.check_same_model(folder, saved["signature"], run.signature)
        if saved["store_checksum"] != layout.store_checksum:
            raise InputError(f"{layout.path} was made from another store than the one the run in {folder} trained on")
        checkpoint.load_state(folder, checkpoint.CHECKPOINT)  # damaged? then say so before anything starts
        if saved["batch"]:
            self._check_same_epoch(config, run, layout)

    def _check_same_epoch(self, config: TrainConfig, run: Run, layout: Layout) -> None:
        """Refuse what would put other targets into the mini-batches that are left of an epoch."""
        before, saved = self.config, self.checkpoint
        stay: dict[str, tuple[Any, Any]] = {
            "--seed": (before.seed, config.seed),
            "--batch-size": (before.batch_size, config.batch_size),
        }
        if "replicated" in (before.cache, config.cache):  # then each trainer has a share of its own, by layout
            stay["--cache"] = (before.cache, config.cache)
            stay["--gpus"] = (saved["trainers"], run.trainers)
            if saved["layout_checksum"] != layout.checksum:
                stay["LAYOUT"] = (f"{before.layout}, as it was", layout.path)
        if not {before.strategy, config.strategy} <= set(STRATEGIES):  # another engine numbers other mini-batches
            stay["--strategy"] = (before.strategy, config.strategy)
        for flag, (old, new) in stay.items():
            if old != new:
                raise InputError(
                    f"the checkpoint in {run.folder} is in the middle of an epoch, so {flag} must stay {old}"
                )

    def finished(self, run: Run) -> dict[str, Any] | None:
        """The summary of the run where it has nothing left to do; None where it has, or has none."""
        done, epochs = self.checkpoint["epoch"], run.config.epochs
        try:
            summary: dict[str, Any] = read_json(run.folder / SUMMARY)
            if self.checkpoint["batch"] or not done == summary["epochs"] >= epochs:
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        say(f"nothing to train: {done} epochs are done, --epochs is {epochs}; the run stays as it is")
        return summary

    def warn_of_changes(self, config: TrainConfig, run: Run) -> None:
        """Say what will be different from now on, and what of it changes results.

        Args:
            config: of what is to come, as asked for.
            run: of what is to come, as decided.
        """
        before, saved = self.config, self.checkpoint
        effect = "sums change their order, and results their last digits"
        if run.strategy.micro_batches > 1 and saved["trainers"] != run.trainers:
            effect = "mini-batches are cut into other micro-batches, with other samples"
        now = {"trainers": run.trainers, "threads": run.config.threads}
        for what, number in now.items():
            if saved.get(what) != number:
                logger.warning("resuming with %s %s instead of %s: %s", number, what, saved.get(what), effect)
        if before.cache != config.cache and "replicated" in (before.cache, config.cache):
            logger.warning(
                "resuming with --cache %s instead of %s: with replicated each trainer has targets of its own",
                config.cache,
                before.cache,
            )
        for name in RESULTS_DEPEND_ON:
            if getattr(before, name) != getattr(config, name):
                logger.warning(
                    "resuming with %s %s instead of %s", name, getattr(config, name), getattr(before, name)
                )
