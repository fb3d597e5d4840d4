"""From one mini-batch to the next: what happens around a training step, whoever makes it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from gsplit.bars import tqdm
from gsplit.config.run import EvaluationConfig
from gsplit.engine.evaluation import Stopped
from gsplit.engine.minibatch import MiniBatch
from gsplit.sampling.plan import fold_key
from gsplit.terminal import say
from gsplit.train.ends import end_epoch, ended_early, stop, validate_within
from gsplit.train.progress import Every
from gsplit.train.saving import save_checkpoint, write_counts
from gsplit.train.trainer import Trainer

MOST_FRESH = 1000
"""Mini-batches whose counts are kept before they are written down, in the middle of an epoch if need be."""
DROPOUT = 0x44524F50  # keeps the dropout's keys apart from those of sampling and shuffling


def mini_batches(trainer: Trainer) -> Iterator[MiniBatch]:
    """The mini-batches of the epochs that are left. All trainers go through them together.

    Each has to be trained on, and :attr:`Trainer.reduced` set, before the next one is asked for: then what was
    computed is counted, and validated, logged and saved where that is due. ``trainer.ended`` tells afterwards whether
    all epochs are done; a run that is asked to stop writes a checkpoint and has no more mini-batches.
    """
    config, progress, clock = trainer.run.config, trainer.progress, trainer.clock
    if progress.epoch >= config.epochs > 0 and trainer.member.rank == 0:
        say(f"nothing to train: {progress.epoch} epochs are done, --epochs is {config.epochs}")
    lines = Every(config.log_every)
    while progress.epoch < config.epochs and not ended_early(trainer):
        start_s = time.perf_counter()
        bar = _progress_bar(trainer)
        if progress.unvalidated and not _validated(trainer):
            return
        while progress.batch < trainer.num_batches:
            with clock("wait"):
                mini_batch = next(trainer.feed, None)
            if mini_batch is None:
                bar.close()
                progress.seconds += time.perf_counter() - start_s
                stop(trainer)
                return
            seed_dropout(config.seed, mini_batch.epoch, mini_batch.batch, trainer.member.rank)

            yield mini_batch

            num_targets = mini_batch.num_targets
            loss, reduced_bytes = trainer.reduced
            progress.add(mini_batch, clock.lap(), loss, trainer.steps.weight(num_targets), reduced_bytes)
            trainer.profiler.step(mini_batch.handle)
            if len(progress.fresh) == MOST_FRESH:
                write_counts(trainer)
            _show(bar, trainer, num_targets)
            if bar.disable and trainer.member.rank == 0 and lines.due():
                spent_s = progress.seconds + time.perf_counter() - start_s
                say(progress.line(trainer.num_batches, config.epochs, spent_s))
            validates = validates_within(config, progress.batch, trainer.num_batches)
            saves = progress.batches_since_checkpoint == config.checkpoint_every_batches > 0
            if validates or saves:
                progress.seconds += time.perf_counter() - start_s
                if validates and not _validated(trainer):
                    return
                if saves:
                    save_checkpoint(trainer)
                start_s = time.perf_counter()
        bar.close()
        progress.seconds += time.perf_counter() - start_s
        try:
            end_epoch(trainer)
        except Stopped:
            stop(trainer)
            return
    trainer.ended = True


def _validated(trainer: Trainer) -> bool:
    """Validate in the middle of an epoch. False where the run was asked to stop meanwhile; resumed, it validates."""
    trainer.progress.unvalidated = True
    try:
        validate_within(trainer)
    except Stopped:
        stop(trainer)
        return False
    trainer.progress.unvalidated = False
    return True


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


def _show(bar: tqdm, trainer: Trainer, num_targets: int) -> None:
    if bar.update():
        # Reading the loss waits for the device, so only when the bar is drawn.
        rate = bar.format_dict["rate"] or 0.0
        progress = trainer.progress
        edges = progress.own_edges / max(1, bar.n - bar.initial)
        bar.set_postfix_str(
            f"loss {progress.mean_loss():.3f}, {rate * num_targets:,.0f} targets/s, "
            f"{rate * edges * trainer.member.world / 1e6:.2f} M edges/s",
            refresh=False,
        )
