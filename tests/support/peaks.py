"""The most memory that tensors took in a training, counted in a trainer of the pool."""

from __future__ import annotations

from experiments.micro.step_memory import profiled
from gsplit.config.train import TrainConfig
from gsplit.engine.dry import LiveBytes, StepBytes
from gsplit.engine.dry.live_bytes import AsAccelerators
from gsplit.engine.sampled import Sampled
from gsplit.kernels import library_alone
from gsplit.train import loop
from gsplit.train.epochs import Epochs
from gsplit.train.trainer import Trainer
from support import pool as pool_module
from support.runs import run_for


def predicted(config: TrainConfig, world: int, model=None) -> StepBytes:
    """What a dry run says of a step."""
    run = run_for(config, world, model)
    return Sampled().step_bytes(run)


def peak_in_trainer(member, config: TrainConfig, model=None) -> int:
    """Most bytes of tensors that were alive, with the kernels that accelerators use.

    Mini-batches are loaded by the trainer itself (``prefetch`` is 0): another thread's tensors are not counted.
    """
    assert config.prefetch == 0
    assert config.evaluate == "none"
    run = run_for(config, member.world, model)
    with library_alone(), AsAccelerators(), LiveBytes("cpu") as live:
        trainer = loop.ready(member, run, pool_module.SHARED)
        loop.train(trainer)
        trainer.close()
    return live.peak


def peaks_of_steps(trainer: Trainer, most: int | None = None) -> list[int]:
    """The most that each step, of at most so many, took beside what was there before it; the trainer is closed."""
    epochs, peaks = Epochs(trainer), []
    while len(peaks) != most and (mini_batch := epochs.next()) is not None:
        with profiled(peaks):
            result = loop.step(trainer, mini_batch)
        epochs.record(mini_batch, result)
    trainer.close()
    return peaks


def live_peaks_of_steps(trainer: Trainer) -> list[int]:
    """The same by the tensors that are alive, whichever thread lets go of them; the trainer is closed."""
    epochs, peaks = Epochs(trainer), []
    while (mini_batch := epochs.next()) is not None:
        with LiveBytes("cpu") as live:
            result = loop.step(trainer, mini_batch)
        peaks.append(live.peak)
        epochs.record(mini_batch, result)
        del mini_batch, result
    trainer.close()
    return peaks
