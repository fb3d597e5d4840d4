"""What a run writes down between mini-batches: counts, and checkpoints that it goes on from."""

from __future__ import annotations

from gsplit.atomic_folder import InUse
from gsplit.engine.metrics import key_of
from gsplit.errors import InputError
from gsplit.optim import follow
from gsplit.parallel.host_memory import by_first
from gsplit.runs import checkpoint
from gsplit.runs.log import RunLog
from gsplit.train.finite import may_be_saved
from gsplit.train.progress import Progress, gather_counts
from gsplit.train.trainer import Trainer


def write_counts(trainer: Trainer) -> None:
    """Sum up and write down what was computed since the last time; all trainers make the call."""
    records = gather_counts(trainer.progress, trainer.member, trainer.run.config.layers)
    if trainer.member.rank == 0:
        trainer.log.append(records)


def save_checkpoint(trainer: Trainer) -> bool:
    """Trainer 0 writes: all hold the same weights and the same optimizer state. All trainers make the call.

    Returns:
        False where weights or the loss are not finite: nobody can go on from those, so the checkpoint before stays.
    """
    run, progress = trainer.run, trainer.progress
    progress.batches_since_checkpoint = 0
    write_counts(trainer)
    if not may_be_saved(trainer):
        return False
    trained = {} if trainer.trained is None else {"trained": trainer.trained.state()}
    if trainer.member.rank != 0:
        return True
    state = {
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "steps": trainer.steps.state(),
        **trained,
        "progress": progress.state(),
        **trainer.kept.state(),
        "log": trainer.log.state(),
    }
    about = {
        "epoch": progress.epoch,
        "batch": progress.batch,
        "ahead": progress.position().ahead,
        "waited": trainer.kept.waited,
        "trainers": run.trainers,
        "threads": run.config.threads,
        "store_checksum": trainer.layout.store_checksum,
        "layout_checksum": trainer.layout.checksum,
        "signature": run.signature,
        "given_loss": None if run.own_loss is None or run.own_loss.pickled is None else run.own_loss.name,
        "given_loop": trainer.loop_name,
        **({"hosts": run.config.hosts} if run.config.hosts > 1 else {}),
    }
    try:
        checkpoint.save_state(run.folder, checkpoint.CHECKPOINT, state, about)
    except InUse:  # what lies there is another's
        raise
    except InputError as error:
        raise InputError(f"{error}; {checkpoint.whole(run.folder)}") from None
    return True


def restore(trainer: Trainer) -> None:
    """Go on from the last checkpoint, which the first host has."""
    run = trainer.run
    state = by_first(trainer.member, lambda: checkpoint.load_state(run.folder, checkpoint.CHECKPOINT))
    trainer.model.load_state_dict(state["model"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    follow(trainer.optimizer, run.config)
    if "steps" in state:  # checkpoints of earlier releases lack it
        trainer.steps.restore(state["steps"])
    if trainer.trained is not None:
        trainer.trained.restore(state["trained"])
    trainer.progress = Progress.from_state(state["progress"], trainer.member.device)
    trainer.kept.restore(state, state["log"]["epochs"], f"valid_{key_of(trainer.evaluator.names[0])}")
    trainer.log = RunLog(run.folder, state["log"])
    if trainer.member.rank == 0:
        trainer.log.mend(state["log"])
