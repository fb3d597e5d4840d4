"""The epochs of a run: what happens around each training step, the engine's or a user's, and at the ends of epochs.

:class:`Epochs` goes from one mini-batch to the next; validating, logging, stopping and saving come after it.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from torch import Tensor

from gsplit.bars import tqdm
from gsplit.config.parallel import SAMPLED
from gsplit.config.run import EvaluationConfig
from gsplit.device import accelerator
from gsplit.engine.evaluation import Evaluator, Stopped
from gsplit.engine.metrics import key_of
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.step import StepResult
from gsplit.engine.tasks import VertexTask
from gsplit.parallel.between_hosts import EVALUATION, SENT
from gsplit.runs import checkpoint
from gsplit.runs.log import finite
from gsplit.sampling.plan import fold_key
from gsplit.terminal import say
from gsplit.train.finite import check_epoch, first_parameter
from gsplit.train.progress import Every, as_recorded
from gsplit.train.saving import save_checkpoint, write_counts
from gsplit.train.trainer import Trainer

logger = logging.getLogger(__name__)

MOST_FRESH = 1000
"""Mini-batches whose counts are kept before they are written down, in the middle of an epoch if need be."""
DROPOUT = 0x44524F50  # keeps the dropout's keys apart from those of sampling and shuffling


class Epochs:
    """The epochs that a run still has, a mini-batch at a time; all trainers go through them together.

        epochs = Epochs(trainer)
        while (mini_batch := epochs.next()) is not None:
            epochs.record(mini_batch, step(trainer, mini_batch))

    What was trained on is counted, and validated, logged and saved where that is due.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._lines = Every(trainer.run.config.log_every)
        self._bar: tqdm | None = None
        self._since_s = 0.0
        """When the clock of the epoch was started last."""
        self._outputs: list[tuple[Tensor, Tensor]] = []
        self.done = False
        """Whether all epochs are done."""
        self.stopped = False
        """Whether the run was asked to stop before, and has: a checkpoint was written, unless it was not finite."""
        config, progress = trainer.run.config, trainer.progress
        if progress.epoch >= config.epochs > 0 and trainer.member.rank == 0:
            say(f"nothing to train: {progress.epoch} epochs are done, --epochs is {config.epochs}")

    def next(self) -> MiniBatch | None:
        """The next mini-batch to be trained on; None where all epochs are done, or the run was asked to stop."""
        trainer, progress = self._trainer, self._trainer.progress
        while not (self.done or self.stopped):
            if self._bar is None:
                self._begin_epoch()
            elif progress.batch >= trainer.num_batches:
                self._end_epoch()
            else:
                stops = trainer.member.vote is not None and trainer.member.vote.stops()
                with trainer.clock("wait"):
                    mini_batch = None if stops else next(trainer.feed, None)
                if mini_batch is not None:
                    self._seed_dropout(mini_batch)
                    return mini_batch
                self._close_bar()
                self._stop()
        return None

    def _seed_dropout(self, mini_batch: MiniBatch) -> None:
        """Dropout depends on (seed, epoch, batch, rank) alone, so that a resumed run repeats it (law 6)."""
        seed, member = self._trainer.run.config.seed, self._trainer.member
        key = fold_key(seed, mini_batch.epoch, mini_batch.batch, member.rank, DROPOUT)
        accelerator.seed(member.device, key >> 1)

    def record(self, mini_batch: MiniBatch, result: StepResult) -> None:
        """Count a mini-batch that was trained on; validate and save in the middle of the epoch where that is due."""
        trainer, progress, config = self._trainer, self._trainer.progress, self._trainer.run.config
        weight = trainer.steps.weight(result.counted)
        progress.add(mini_batch, trainer.clock.lap(), result.loss, weight, result.reduced_bytes)
        if result.outputs is not None:
            self._outputs.append(result.outputs)
        trainer.profiler.step(mini_batch.handle)
        if len(progress.fresh) == MOST_FRESH:
            write_counts(trainer)
        self._show(mini_batch.num_targets)
        validates = validates_within(config, progress.batch, trainer.num_batches)
        saves = progress.batches_since_checkpoint == config.checkpoint_every_batches > 0
        if validates or saves:
            progress.seconds += time.perf_counter() - self._since_s
            if validates:
                self._validate()
            if saves and not self.stopped:
                save_checkpoint(trainer)
            self._since_s = time.perf_counter()

    def _begin_epoch(self) -> None:
        trainer, progress = self._trainer, self._trainer.progress
        if progress.epoch >= trainer.run.config.epochs or ended_early(trainer):
            self.done = True
            return
        self._since_s = time.perf_counter()
        self._bar = _progress_bar(trainer)
        if progress.unvalidated:
            self._validate()

    def _end_epoch(self) -> None:
        self._close_bar()
        outputs, self._outputs = self._outputs, []
        try:
            end_epoch(self._trainer, outputs)
        except Stopped:
            self._stop()

    def _close_bar(self) -> None:
        assert self._bar is not None
        self._bar.close()
        self._bar = None
        self._trainer.progress.seconds += time.perf_counter() - self._since_s

    def _stop(self) -> None:
        self.stopped = True
        stop(self._trainer)

    def _validate(self) -> None:
        """Validate in the middle of an epoch; a run that is asked to stop meanwhile does so when it goes on."""
        self._trainer.progress.unvalidated = True
        try:
            validate_within(self._trainer)
            self._trainer.progress.unvalidated = False
        except Stopped:
            self._stop()

    def _show(self, num_targets: int) -> None:
        trainer, progress, bar = self._trainer, self._trainer.progress, self._bar
        assert bar is not None
        if bar.update():
            # Reading the loss waits for the device, so only when the bar is drawn.
            rate = bar.format_dict["rate"] or 0.0
            edges = progress.own_edges / max(1, bar.n - bar.initial)
            bar.set_postfix_str(
                f"loss {progress.mean_loss():.3f}, {rate * num_targets:,.0f} targets/s, "
                f"{rate * edges * trainer.member.world / 1e6:.2f} M edges/s",
                refresh=False,
            )
        if bar.disable and trainer.member.rank == 0 and self._lines.due():
            spent_s = progress.seconds + time.perf_counter() - self._since_s
            say(progress.line(trainer.num_batches, trainer.run.config.epochs, spent_s))


def validates_within(config: EvaluationConfig, batch: int, num_batches: int) -> bool:
    """Return whether --validate-every-batches wants scores after so many mini-batches, before the epoch's last."""
    every = config.validate_every_batches
    return config.evaluate != "none" and every > 0 and batch % every == 0 and batch < num_batches


def _progress_bar(trainer: Trainer) -> tqdm:
    progress = trainer.progress
    return tqdm(
        total=trainer.num_batches,
        initial=progress.batch,
        desc=f"Epoch {progress.epoch + 1:02d}",
        unit="batch",
        leave=False,
        disable=None if trainer.member.rank == 0 else True,  # None: only on a terminal
    )


def end_epoch(trainer: Trainer, outputs: list[tuple[Tensor, Tensor]]) -> None:
    """Validate, keep the best model, log, checkpoint; then the next epoch begins. All trainers make the call.

    Args:
        trainer: that has come to the end.
        outputs: logits and labels of the mini-batches of the epoch, where --metrics measures them; none afterwards.
    """
    progress, run = trainer.progress, trainer.run
    config = run.config
    epoch = progress.epoch + 1
    every, _ = config.validations
    due = every and (epoch % every == 0 or epoch == config.epochs)
    rate = trainer.steps.rates.last_of(progress.epoch)
    measured = _measured_in_training(trainer, outputs)
    outputs.clear()  # or they would take memory while others are computed
    scores = validate(trainer, epoch) if due else dict.fromkeys(trainer.evaluator.names)
    write_counts(trainer)
    record = {
        "kind": "epoch",
        "epoch": epoch,
        **layout_of_work(trainer),
        "settings": run.settings,
        "lr": rate,
        "loss": finite(progress.mean_loss()),
        **{f"train_{key_of(name)}": value for name, value in measured.items()},
        **{f"valid_{key_of(name)}": value for name, value in scores.items()},
        "seconds": round(progress.seconds, 4),
        "stages": {name: round(s / run.trainers, 4) for name, s in progress.stages.items()},
        **as_recorded(progress.traffic),
    }
    if trainer.steps.scale is not None:
        record |= {"loss_scale": trainer.steps.scale.factor, "skipped_steps": trainer.steps.scale.take_skipped()}
    if trainer.member.rank == 0:
        trainer.log.append([record])
        say(_line(record, key_of(trainer.evaluator.names[0])))
        if not progress.weight:
            what = "training vertex" if isinstance(trainer.task, VertexTask) else "pair with candidates"
            logger.warning("no mini-batch of epoch %d had a %s that counts, so nothing was learned", epoch, what)
        elif record["loss"] is None and config.stop_on_nan == "never":
            logger.warning("the loss is not finite any more, so no checkpoint is written; try a lower --lr")
    check_epoch(trainer)
    progress.next_epoch()
    if config.checkpoint_every and progress.epoch % config.checkpoint_every == 0:
        save_checkpoint(trainer)
    for callback in trainer.callbacks:  # what they make of it, the epoch is saved
        callback.on_epoch_end(record)


def ended_early(trainer: Trainer) -> bool:
    """Return whether --early-stop says that no epoch is to come, which trainer 0 tells."""
    config, kept = trainer.run.config, trainer.kept
    if trainer.progress.batch or not kept.waited >= config.early_stop > 0:
        return False
    if trainer.member.rank == 0:
        best = "a finite score"
        if kept.best is not None:
            best = f"a better score than the {kept.best['score']:.4f} of epoch {kept.best['epoch']}"
        say(
            f"ended early, after epoch {trainer.progress.epoch}: {kept.waited} validations without {best} "
            f"(--early-stop {config.early_stop})"
        )
    return True


def stop(trainer: Trainer) -> None:
    """Save where the run was asked to stop. All trainers make the call."""
    trainer.profiler.end()
    saved = save_checkpoint(trainer)
    if trainer.member.rank == 0:
        say_stopped(trainer, saved=saved)


def say_stopped(trainer: Trainer, *, saved: bool = True) -> None:
    """Print where the run has stopped, and how to go on from there."""
    progress, folder = trainer.progress, trainer.run.folder
    at = f"mini-batch {progress.batch} of epoch {progress.epoch + 1}" if progress.batch else f"epoch {progress.epoch}"
    if saved:
        say(f"stopped after {at}; go on with --resume {folder}")
    else:
        before = checkpoint.whole(folder, "go on from it with --resume")
        say(f"stopped after {at}, where weights or loss are not finite; {before}")


def validate_within(trainer: Trainer) -> None:
    """Validate in the middle of an epoch, keep the best model, log. All trainers make the call."""
    progress = trainer.progress
    epoch, batch = progress.epoch + 1, progress.batch
    scores = validate(trainer, epoch, batch)
    if trainer.member.rank == 0:
        valid = {f"valid_{key_of(name)}": value for name, value in scores.items()}
        step = progress.epoch * trainer.num_batches + batch
        record = {"kind": "validation", "epoch": epoch, "batch": batch, "step": step, **valid}
        trainer.log.append([record])
        for callback in trainer.callbacks:
            callback.on_validation_end(record)
        first = scores[trainer.evaluator.names[0]]
        if first is not None:
            say(f"Epoch {epoch:02d} [{batch}/{trainer.num_batches}] | valid {first:.4f}")


def validate(trainer: Trainer, epoch: int, batch: int | None = None) -> dict[str, float | None]:
    """The scores of the weights as they are, which are kept where the first is the best; None without vertices.

    Args:
        trainer: of whom all make the call.
        epoch: that has ended, from 1; or the current one,
        batch: so many mini-batches into it.
    """
    names = trainer.evaluator.names
    if not trainer.num_evaluated("valid"):
        return dict.fromkeys(names)
    # Weights that are infinite may give finite logits, behind a ReLU or a division by a variance.
    scores: dict[str, float | None] = dict.fromkeys(names)
    if first_parameter(trainer) is None:
        scores = trainer.scores("valid")
    score = scores[names[0]]  # None only where logits or weights are not finite, or the run would have been refused
    trainer.kept.judge(trainer.model, epoch, scores, batch=batch)
    trainer.steps.rates.judge(score)
    return scores


def _measured_in_training(trainer: Trainer, outputs: list[tuple[Tensor, Tensor]]) -> dict[str, float | None]:
    """The metrics of the model's outputs for the epoch's targets; None where the run went on in its middle."""
    if not trainer.measures_training:
        return {}
    if len(outputs) < trainer.num_batches:
        return dict.fromkeys(trainer.evaluator.names)
    assert isinstance(trainer.evaluator, Evaluator)
    with SENT.during(EVALUATION):
        return trainer.evaluator.scores_of(outputs)


def layout_of_work(trainer: Trainer) -> dict[str, Any]:
    """Return what decides how much is loaded and computed; a run that was resumed may have changed it."""
    strategy, name = trainer.run.strategy, trainer.run.config.strategy
    return {
        "trainers": trainer.run.trainers,
        "strategy": "split" if name in SAMPLED and strategy.micro_batches == 1 else name,
        "split_group": strategy.splits,
        "cache": strategy.cache,
        "rows_cached": sum(trainer.cache_rows),
    }


def _line(record: dict[str, Any], metric: str) -> str:
    seconds = record["seconds"]
    loss = "nan" if record["loss"] is None else f"{record['loss']:.4f}"
    scores = {part: record.get(f"{part}_{metric}") for part in ("train", "valid")}
    shown = "".join(f" | {part} {score:.4f}" for part, score in scores.items() if score is not None)
    edges = record["traffic"]["sampled_edges"] or record["traffic"]["computed_edges"]  # of the whole graph
    rate = edges / max(seconds, 1e-9) / 1e6
    learning = "" if record["settings"]["lr"] == record["lr"] else f" | lr {record['lr']:.3g}"
    return f"Epoch {record['epoch']:02d} | loss {loss}{shown}{learning} | {seconds:.2f} s | {rate:.2f} M edges/s"
