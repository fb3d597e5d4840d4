"""From one mini-batch to the next: what happens around a training step, whoever makes it."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from gsplit.bars import tqdm
from gsplit.config.run import EvaluationConfig
from gsplit.engine.evaluation import Stopped
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.step import StepResult
from gsplit.sampling.plan import fold_key
from gsplit.terminal import say
from gsplit.train.ends import end_epoch, ended_early, stop, validate_within
from gsplit.train.progress import Every
from gsplit.train.saving import save_checkpoint, write_counts
from gsplit.train.trainer import Trainer

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
                with trainer.clock("wait"):
                    mini_batch = next(trainer.feed, None)
                if mini_batch is not None:
                    seed_dropout(trainer.run.config.seed, mini_batch.epoch, mini_batch.batch, trainer.member.rank)
                    return mini_batch
                self._close_bar()
                self._stop()
        return None

    def record(self, mini_batch: MiniBatch, result: StepResult) -> None:
        """Count a mini-batch that was trained on; validate and save in the middle of the epoch where that is due."""
        trainer, progress, config = self._trainer, self._trainer.progress, self._trainer.run.config
        num_targets = mini_batch.num_targets
        weight = trainer.steps.weight(num_targets)
        progress.add(mini_batch, trainer.clock.lap(), result.loss, weight, result.reduced_bytes)
        if result.outputs is not None:
            self._outputs.append(result.outputs)
        trainer.profiler.step(mini_batch.handle)
        if len(progress.fresh) == MOST_FRESH:
            write_counts(trainer)
        self._show(num_targets)
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
    """Whether --validate-every-batches has scores wanted after so many mini-batches of an epoch, before its last."""
    every = config.validate_every_batches
    return config.evaluate != "none" and every > 0 and batch % every == 0 and batch < num_batches


def seed_dropout(seed: int, epoch: int, batch: int, rank: int) -> None:
    """Dropout depends on (seed, epoch, batch, rank) alone, so that a resumed run repeats it (law 6)."""
    torch.manual_seed(fold_key(seed, epoch, batch, rank, DROPOUT) >> 1)  # of the CPU and of all GPUs


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
