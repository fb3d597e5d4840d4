"""The training loop of one trainer. What a trainer is made of is put together in :mod:`gsplit.train.trainer`.

One mini-batch, from left to right:

    sampled, split and loaded by the feed -> forward (exchange, convolve, per layer) -> loss on own targets
    -> backward (exchanges mirrored) -> all-reduce gradients -> step
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gsplit.engine.objective import check_logits, mini_batch_loss, weight_of
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.parallel import Member
from gsplit.parallel.join import joined
from gsplit.supply.pipes import TrainerEnd
from gsplit.train.ends import finish
from gsplit.train.loops.finite import check_mini_batch
from gsplit.train.loops.iteration import mini_batches
from gsplit.train.loops.own_loop import NOTHING, Handed, train_by
from gsplit.train.saving import restore
from gsplit.train.trainer import Trainer


def live(
    rank: int, run: Run, port: int, shared: Shared, end: TrainerEnd, handed: Handed = NOTHING
) -> dict[str, Any] | None:
    """The life of one trainer process. Returns the summary on trainer 0; none where the run was asked to stop."""
    config = run.config
    patience = timedelta(minutes=config.timeout)
    with joined(rank, run.trainers, port, config.device, config.threads, patience) as member:
        trainer = ready(member, run, shared, end)
        trainer.loop_name = handed.loop_name
        trainer.begin_callbacks(handed.callbacks)
        ended = train(trainer) if handed.loop is None else train_by(trainer, handed.loop)
        summary = finish(trainer) if ended else None
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
    for mini_batch in mini_batches(trainer):
        labels, num_targets, each = mini_batch.labels, mini_batch.num_targets, mini_batch.target_weights

        with clock("forward"):
            logits = mini_batch.logits(trainer.model)
            check_logits(logits, len(labels), trainer.layout.graph.num_classes)
            loss = mini_batch.comm.tie(mini_batch_loss(trainer.objective, logits, labels, num_targets, each))
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
            trainer.reduced = trainer.steps.reduce(loss, weight, num_targets)
        check_mini_batch(trainer, mini_batch)

        with clock("step"):
            trainer.steps.end(progress.epoch, progress.batch, num_targets)
        del logits, loss  # or the edges of this mini-batch, which they hold, would stay until the next has logits
    return trainer.ended
