"""The training loop of one trainer. What a trainer is made of is put together in :mod:`gsplit.train.trainer`.

One mini-batch, from left to right:

    sampled, split and loaded by the feed -> forward (exchange, convolve, per layer) -> loss on own targets
    -> backward (exchanges mirrored) -> all-reduce gradients -> step
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from gsplit.bars import tqdm
from gsplit.engine.objective import Task
from gsplit.errors import InputError
from gsplit.parallel import reduce_gradients
from gsplit.parallel.join import joined
from gsplit.runs.metrics import say
from gsplit.sampling.plan import fold_key
from gsplit.supply.pipes import TrainerEnd
from gsplit.train.trainer import Job, Trainer

MOST_FRESH = 1000
"""Mini-batches whose counts are kept before they are written down, in the middle of an epoch if need be."""
DROPOUT = 0x44524F50  # keeps the dropout's keys apart from those of sampling and shuffling


def run(rank: int, job: Job, end: TrainerEnd) -> dict[str, Any] | None:
    """The life of one trainer process. Returns the summary on trainer 0; none where the run was asked to stop."""
    with joined(rank, job.world, job.port, job.device_type, job.threads) as member:
        trainer = Trainer(member, job, end)
        summary = trainer.finish() if train(trainer) else None
        trainer.close()
        return summary


def train(trainer: Trainer) -> bool:
    """Run the epochs that are left. False where the run was asked to stop before; a checkpoint was written then."""
    config, progress, clock = trainer.config, trainer.progress, trainer.clock
    member = trainer.member
    if progress.epoch >= config.epochs > 0 and member.rank == 0:
        say(f"nothing to train: {progress.epoch} epochs are done, --epochs is {config.epochs}")
    while progress.epoch < config.epochs:
        start_s = time.perf_counter()
        bar = _progress_bar(trainer)
        while progress.batch < trainer.num_batches:
            with clock("wait"):
                mini_batch = next(trainer.feed, None)
            if mini_batch is None:
                bar.close()
                progress.seconds += time.perf_counter() - start_s
                trainer.stop()
                return False
            segment, chain, labels = mini_batch.segment, mini_batch.chain, mini_batch.labels
            seed_dropout(config.seed, segment.epoch, segment.batch, member.rank)

            with clock("forward"):
                logits = trainer.model(mini_batch.blocks, mini_batch.x)
                check_logits(logits, len(labels), trainer.layout.graph.num_classes)
                loss = chain.tie(mini_batch_loss(trainer.task, logits, labels, segment.num_targets))

            with clock("backward"):
                trainer.optimizer.zero_grad(set_to_none=True)
                loss.backward()

            with clock("reduce"):
                total_loss, reduced_bytes = reduce_gradients(trainer.parameters, loss, member)

            with clock("step"):
                trainer.optimizer.step()

            progress.add(mini_batch, clock.lap(), total_loss, reduced_bytes)
            trainer.profiler.step(mini_batch.handle)
            if len(progress.fresh) == MOST_FRESH:
                trainer.account()
            _show(bar, trainer, segment.num_targets)
            if progress.batches_since_checkpoint == config.checkpoint_every_batches > 0:
                progress.seconds += time.perf_counter() - start_s
                trainer.save_checkpoint()
                start_s = time.perf_counter()
        bar.close()
        progress.seconds += time.perf_counter() - start_s
        trainer.end_epoch()
    return True


def mini_batch_loss(task: Task, logits: Tensor, labels: Tensor, num_targets: int) -> Tensor:
    """This trainer's share: the sum over its own targets, divided by the targets of all trainers (law 2)."""
    if len(labels) == 0:
        return logits.sum() * 0  # no target, but a graph that reaches all exchanges
    return task.loss_sum(logits, labels) / num_targets


def check_logits(logits: Tensor, num_targets: int, num_classes: int) -> None:
    """Whether a model of the user's gives what a loss can be made of.

    Raises:
        InputError: for any shape but [targets, classes].
    """
    if logits.shape != (num_targets, num_classes):
        raise InputError(
            f"the model gave logits of shape {tuple(logits.shape)} for {num_targets} targets and {num_classes} "
            "classes; it must have as many layers as --fan-out has numbers, and as many outputs as there are classes"
        )


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
