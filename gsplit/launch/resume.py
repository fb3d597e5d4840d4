"""Going on with a run: what may change, what may not, and what is printed about it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gsplit.atomic_folder import InUse
from gsplit.config.fields import flag_of
from gsplit.config.optimisation import DEFAULT_METRIC
from gsplit.config.parallel import SAMPLED
from gsplit.config.rules import RESULTS, FixedInEpoch, marked, rules_of_kind, without_effect
from gsplit.config.sampling import SUBGRAPHS
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.data.graph import Task
from gsplit.engine.run import Run
from gsplit.engine.whole import without_the_plan_before
from gsplit.errors import InputError
from gsplit.files import read_json, real_path
from gsplit.models.registry import CUSTOM
from gsplit.runs import checkpoint
from gsplit.runs.folder import CONFIG, PREDICTIONS
from gsplit.runs.log import SUMMARY
from gsplit.supply.tickets import Position
from gsplit.terminal import say

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Before:
    """The configuration with which a run that goes on last ran."""

    config: TrainConfig
    """The configuration that was asked for then."""
    written: tuple[int, int] | None
    """When and where that was written down; another one says that somebody has gone on with the run since."""


def resume_config(config: TrainConfig) -> tuple[TrainConfig, Before | None]:
    """Return what is asked for, with the number of trainers that a new layout has, and the run that goes on, if any.

    Args:
        config: as asked for.

    Returns:
        ``config``, with ``gpus`` left open where the run goes on with another layout and no other number was given,
        and what the plan of the whole graph was where another is asked for; and the run as it was, or None for a new
        one.

    Raises:
        InputError: where there is no run to go on with, or what it saved is damaged.
    """
    layout = config.layout
    if config.resume is None or layout is None:
        return config, None
    path = config.resume / CONFIG
    written = _written(path)
    before = TrainConfig.from_json(path)
    if config.gpus == before.gpus and (before.layout is None or real_path(layout) != real_path(before.layout)):
        config = replace(config, gpus=None)
    if config.strategy == "full" and (config.grid is not None or config.replication is not None):
        config = without_the_plan_before(config, before, config.gpus or open_layout(layout, typed=True).parts)
    return config, Before(config=before, written=written)


def _written(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """A run that may be resumed: the process that holds its folder looks at its last checkpoint once."""

    run: Run
    """What is to come, as decided."""
    before: TrainConfig
    """The configuration that was asked for before."""
    checkpoint: dict[str, Any]
    """Description of the last checkpoint (docs/formats.md, "Run")."""

    @classmethod
    def checked(cls, run: Run, before: Before) -> Resumed:
        """Look whether a run can go on like this.

        Args:
            run: what is to come, whose folder this process holds.
            before: what was asked for before.

        Raises:
            InputError: where it cannot, or the checkpoint is missing or damaged.
        """
        folder, layout = run.folder, open_layout(run.layout, trusted=True, typed=True)
        if _written(folder / CONFIG) != before.written:
            raise InUse(f"another process has gone on with {folder} since this one looked; start again")
        saved = checkpoint.describe_state(folder, checkpoint.CHECKPOINT)
        if saved["signature"].get("model") == CUSTOM and run.signature["model"] != CUSTOM:
            raise InputError(
                f"the run in {folder} trained a custom model, {saved['signature'].get('class')}; resume it from "
                "Python, with gsplit.train(config=gsplit.TrainConfig.resuming(...), model=...)"
            )
        if saved.get("given_loss") and run.own_loss is None and run.config.loss is None:
            raise InputError(
                f"the run in {folder} trained by a loss that was handed over, {saved['given_loss']}; resume it from "
                "Python, with gsplit.train(config=gsplit.TrainConfig.resuming(...), loss=...)"
            )
        checkpoint.check_same_model(folder, saved["signature"], run.signature)
        if saved["store_checksum"] != layout.store_checksum:
            raise InputError(f"{layout.path} was made from another store than the one the run in {folder} trained on")
        state = checkpoint.load_state(folder, checkpoint.CHECKPOINT)  # damaged? then say so before anything starts
        _check_same_recipe(folder, before.config, run.config, layout.graph.task, judged=state["best"] is not None)
        resumed = cls(run=run, before=before.config, checkpoint=saved)
        if saved["batch"]:
            resumed._check_same_epoch(layout)
        return resumed

    def _check_same_epoch(self, layout: Layout) -> None:
        """Refuse what would put other targets into the mini-batches that are left of an epoch."""
        before, now, saved = self.before, self.run.asked, self.checkpoint
        stay: dict[str, tuple[Any, Any]] = {
            flag_of(name): (getattr(before, name), getattr(now, name)) for name in _fixed_in_epoch(now)
        }
        if now.sampling == "clusters" and saved["layout_checksum"] != layout.checksum:
            stay["LAYOUT"] = (f"{before.layout}, as it was", layout.path)
        if now.sampling in SUBGRAPHS:  # a set for each group
            stay["the number of split groups"] = (self._groups_before, self.run.strategy.micro_batches)
        if "replicated" in (before.cache, now.cache):  # then each trainer has a share of its own, by layout
            stay["--cache"] = (before.cache, now.cache)
            stay["--gpus"] = (saved["trainers"], self.run.trainers)
            if saved["layout_checksum"] != layout.checksum:
                stay["LAYOUT"] = (f"{before.layout}, as it was", layout.path)
        if not {before.strategy, now.strategy} <= set(SAMPLED):  # another engine numbers other mini-batches
            stay["--strategy"] = (before.strategy, now.strategy)
        for flag, (old, new) in stay.items():
            if old != new:
                raise InputError(
                    f"the checkpoint in {self.run.folder} is in the middle of an epoch, so {flag} must stay {old}"
                )

    @property
    def _groups_before(self) -> int:
        """Number of micro-batches that a mini-batch was cut into."""
        before, saved = self.before, self.checkpoint
        trainers, hosts = int(saved["trainers"]), int(saved.get("hosts", 1))
        if before.strategy == "data":
            return trainers
        size = before.split_group or (math.prod(before.grid) if before.strategy == "split" and before.grid else None)
        return hosts if size is None else trainers // size

    @property
    def position(self) -> Position:
        """Where the trainers begin, which read the same checkpoint."""
        saved = self.checkpoint
        return Position(epoch=saved["epoch"], batch=saved["batch"], ahead=saved["ahead"])

    def finished(self) -> dict[str, Any] | None:
        """The summary of the run where it has nothing left to do; None where it has, or has none."""
        done, epochs, early_stop = self.checkpoint["epoch"], self.run.config.epochs, self.run.config.early_stop
        try:
            summary: dict[str, Any] = read_json(self.run.folder / SUMMARY)
            ended_early = 0 < early_stop <= self.checkpoint.get("waited", 0)
            if self.checkpoint["batch"] or done != summary["epochs"] or not (done >= epochs or ended_early):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        why = f"--early-stop {early_stop} ended the run" if done < epochs else f"--epochs is {epochs}"
        say(f"nothing to train: {done} epochs are done, {why}; the run stays as it is")
        if self.run.asked.save_predictions != "no" and not (self.run.folder / PREDICTIONS).exists():
            logger.warning("--save-predictions has no effect; gsplit predict writes predictions")
        return summary

    def warn_of_changes(self) -> None:
        """Say what will be different from now on, and what of it changes results."""
        run, before, now, saved = self.run, self.before, self.run.asked, self.checkpoint
        effect = "sums change their order, and results their last digits"
        if {before.strategy, now.strategy} <= set(SAMPLED) and run.strategy.micro_batches != self._groups_before:
            effect = "mini-batches are cut into other micro-batches, with other samples"
        numbers = {"trainers": run.trainers, "threads": run.config.threads}
        if saved["trainers"] == run.trainers:
            numbers["hosts"] = run.config.hosts
        for what, number in numbers.items():
            if (was := saved.get(what, 1 if what == "hosts" else None)) != number:
                logger.warning("resuming with %s %s instead of %s: %s", number, what, was, effect)
        if before.cache != now.cache and "replicated" in (before.cache, now.cache):
            logger.warning(
                "resuming with --cache %s instead of %s: with replicated each trainer has targets of its own",
                now.cache,
                before.cache,
            )
        useless = {each.name for each in run.without_effect}
        for name in marked(type(now), RESULTS):
            if getattr(before, name) != getattr(now, name) and name not in useless and _has_effect(now, name):
                logger.warning("resuming with %s %s instead of %s", name, getattr(now, name), getattr(before, name))


def _has_effect(config: TrainConfig, name: str) -> bool:
    return without_effect(type(config), name, vars(config)) is None


def _fixed_in_epoch(config: TrainConfig) -> Iterator[str]:
    """Fields that decide which targets the mini-batches of an epoch have."""
    for field in fields(config):
        fixed = any(
            rule.broken(vars(config)) is None for rule in rules_of_kind(type(config), field.name, FixedInEpoch)
        )
        if fixed and _has_effect(config, field.name):
            yield field.name


def _check_same_recipe(folder: Path, before: TrainConfig, now: TrainConfig, task: Task, *, judged: bool) -> None:
    """Refuse what the checkpoint's state, and its best model where one was ``judged``, do not go with."""
    default = (DEFAULT_METRIC[task],)
    first_before, first = ((config.metric_names or default)[0] for config in (before, now))
    for flag, old, new, why in (
        ("--optimizer", before.optimizer, now.optimizer, "whose state is in its checkpoint"),
        ("the first of --metrics", first_before, first, "by which its best model was chosen"),
    ):
        if old != new and (judged or flag == "--optimizer"):
            raise InputError(
                f"the run in {folder} goes on only where {flag} stays {old}, {why}; a new run with --init-from "
                f"{folder} begins with its weights"
            )
