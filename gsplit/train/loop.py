"""The training loop of one trainer. What a trainer is made of is put together in :mod:`gsplit.train.trainer`.

One mini-batch, from left to right:

    sampled, split and loaded by the feed -> forward (exchange, convolve, per layer) -> loss on own targets
    -> backward (exchanges mirrored) -> all-reduce gradients -> step
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.engine.step import StepResult, backward
from gsplit.parallel import Member
from gsplit.parallel.join import joined
from gsplit.supply.pipes import TrainerEnd
from gsplit.train.epochs import Epochs
from gsplit.train.finite import check_mini_batch
from gsplit.train.own_loop import NOTHING, Handed, train_by
from gsplit.train.saving import restore
from gsplit.train.summary import finish
from gsplit.train.trainer import Trainer


def live(
    rank: int, run: Run, port: int, shared: Shared, end: TrainerEnd, handed: Handed = NOTHING
) -> dict[str, Any] | None:
    """The life of one trainer process. Returns the summary on trainer 0; none where the run was asked to stop."""
    config = run.config
    patience = timedelta(minutes=config.timeout)
    with joined(rank, run.trainers, port, config.device, config.threads, patience) as member:
        return trained(member, run, shared, end, handed)


def trained(
    member: Member, run: Run, shared: Shared, end: TrainerEnd, handed: Handed = NOTHING
) -> dict[str, Any] | None:
    """What :func:`live` does, by a trainer that has joined the others."""
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
    epochs = Epochs(trainer)
    while (mini_batch := epochs.next()) is not None:
        epochs.record(mini_batch, step(trainer, mini_batch))
    return epochs.done


def step(trainer: Trainer, mini_batch: MiniBatch) -> StepResult:
    """Train on a mini-batch; all trainers make the call.

    Raises:
        InputError: for logits of a wrong shape, and with ``--stop-on-nan batch`` for what is not finite.
    """
    clock, run = trainer.clock, trainer.run
    with clock("forward"):
        outputs, loss, weight, counted = trainer.task.forward(trainer.model, mini_batch, precision=run.precision)
    loss, reduced_bytes = backward(trainer.steps, loss, weight, counted, clock, early=True)
    check_mini_batch(trainer, mini_batch, loss)
    with clock("step"):
        trainer.steps.end(trainer.progress.epoch, trainer.progress.batch, counted)
    measured = (outputs.detach(), mini_batch.labels) if trainer.measures_training else None
    return StepResult(loss=loss, reduced_bytes=reduced_bytes, counted=counted, outputs=measured)
