"""The training loop of one trainer. What a trainer is made of is put together in :mod:`gsplit.train.trainer`.

One mini-batch, from left to right:

    sampled, split and loaded by the feed -> forward (exchange, convolve, per layer) -> loss on own targets
    -> backward (exchanges mirrored) -> all-reduce gradients -> step
"""

from __future__ import annotations

import time
from typing import Any

import torch

from gsplit.bars import tqdm
from gsplit.config.run import EvaluationConfig
from gsplit.engine.objective import check_logits, mini_batch_loss, weight_of
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.parallel import Member
from gsplit.parallel.join import joined
from gsplit.sampling.plan import fold_key
from gsplit.supply.pipes import TrainerEnd
from gsplit.terminal import say
from gsplit.train.ends import end_epoch, ended_early, finish, stop, validate_within
from gsplit.train.progress import Every
from gsplit.train.saving import restore, save_checkpoint, write_counts
from gsplit.train.trainer import Trainer

MOST_FRESH = 1000
"""Mini-batches whose counts are kept before they are written down, in the middle of an epoch if need be."""
DROPOUT = 0x44524F50  # keeps the dropout's keys apart from those of sampling and shuffling


def live(rank: int, run: Run, port: int, shared: Shared, end: TrainerEnd) -> dict[str, Any] | None:
    """The life of one trainer process. Returns the summary on trainer 0; none where the run was asked to stop."""
    config = run.config
    with joined(rank, run.trainers, port, config.device, config.threads) as member:
        trainer = ready(member, run, shared, end)
        summary = finish(trainer) if train(trainer) else None
        trainer.close()
        return summary


def ready(member: Member, run: Run, shared: Shared, end: TrainerEnd | None = None) -> Trainer:
    """A trainer that stands where the run does, with its mini-batches on their way; see :class:`Trainer`."""
    trainer = Trainer(member, run, shared)
    if run.resumes:
        restore(trainer)
    trainer.begin(end)
    return trainer


def train(trainer: Trainer) -> bool:
    """Run the epochs that are left. False where the run was asked to stop before; a checkpoint was written then."""
    config, progress, clock = trainer.run.config, trainer.progress, trainer.clock
    member = trainer.member
    if progress.epoch >= config.epochs > 0 and member.rank == 0:
        say(f"nothing to train: {progress.epoch} epochs are done, --epochs is {config.epochs}")
    lines = Every(config.log_every)
    while progress.epoch < config.epochs and not ended_early(trainer):
        start_s = time.perf_counter()
        bar = _progress_bar(trainer)
        while progress.batch < trainer.num_batches:
            with clock("wait"):
                mini_batch = next(trainer.feed, None)
            if mini_batch is None:
                bar.close()
                progress.seconds += time.perf_counter() - start_s
                stop(trainer)
                return False
            chain, labels = mini_batch.chain, mini_batch.labels
            seed_dropout(config.seed, mini_batch.epoch, mini_batch.batch, member.rank)

            with clock("forward"):
                logits = mini_batch.logits(trainer.model)
                check_logits(logits, len(labels), trainer.layout.graph.num_classes)
                num_targets, each = mini_batch.num_targets, mini_batch.target_weights
                loss = chain.tie(mini_batch_loss(trainer.objective, logits, labels, num_targets, each))
                if mini_batch.share_of_whole is None:
                    weight = weight_of(trainer.objective, labels, each)
                else:
                    weight = trainer.whole_weight * mini_batch.share_of_whole

            if config.metrics is not None:
                trainer.said.append((logits.detach(), labels))
            with clock("backward"):
                trainer.steps.begin()
                loss.backward()

            with clock("reduce"):
                total_loss, reduced_bytes = trainer.steps.reduce(loss, weight, num_targets)

            with clock("step"):
                trainer.steps.end(progress.epoch, progress.batch, num_targets)

            weight_of_all = trainer.steps.weight(num_targets)
            progress.add(mini_batch, clock.lap(), total_loss, weight_of_all, reduced_bytes)
            trainer.profiler.step(mini_batch.handle)
            if len(progress.fresh) == MOST_FRESH:
                write_counts(trainer)
            _show(bar, trainer, num_targets)
            if bar.disable and member.rank == 0 and lines.due():
                spent_s = progress.seconds + time.perf_counter() - start_s
                say(progress.line(trainer.num_batches, config.epochs, spent_s))
            validates = validates_within(config, progress.batch, trainer.num_batches)
            saves = progress.batches_since_checkpoint == config.checkpoint_every_batches > 0
            if validates or saves:
                progress.seconds += time.perf_counter() - start_s
                if validates:
                    validate_within(trainer)
                if saves:
                    save_checkpoint(trainer)
                start_s = time.perf_counter()
        bar.close()
        progress.seconds += time.perf_counter() - start_s
        end_epoch(trainer)
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
