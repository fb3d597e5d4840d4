"""Loops of one's own: a function that goes through the mini-batches of a run and trains on each as it likes.

    def loop(run):
        for batch in run:
            logits = run.model(batch.blocks, batch.x)
            run.backward(F.cross_entropy(logits, batch.labels, reduction="sum"))
            run.step()

    gsplit.train("layout", config, loop=loop)

Each trainer calls it. Epochs, validation, checkpoints, stopping and going on are the run's, between two mini-batches.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.config.train import TrainConfig
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.step import StepResult, backward
from gsplit.errors import InputError
from gsplit.models.registry import decoder_in
from gsplit.nn import Neighbourhood, PairBlock, TypedNeighbourhood
from gsplit.nn.decoders import Decoder
from gsplit.train.epochs import Epochs
from gsplit.train.finite import check_mini_batch
from gsplit.train.trainer import Trainer


class Handed(NamedTuple):
    """Objects that are handed over to the trainers, pickled."""

    loop: bytes | None = None
    """A function of a :class:`Loop`."""
    loop_name: str | None = None
    """Name of that function."""
    callbacks: bytes | None = None
    """A list of :class:`gsplit.callbacks.Callback`."""


NOTHING = Handed()


@dataclass(frozen=True, kw_only=True)
class Batch:
    """This trainer's share of a mini-batch."""

    epoch: int
    """Current epoch, from 0."""
    number: int
    """Number of the mini-batch in its epoch, from 0."""
    blocks: Mapping[int, Neighbourhood] | Mapping[int, TypedNeighbourhood]
    """Block of each layer, 1 .. L."""
    x: Any
    """[n_0, D] features of the inputs, as the model takes them: a tensor; on the CPU perhaps rows where they lie; of
    several types a list of those of each."""
    labels: Tensor
    """[n_L] or [n_L, C] labels of the own targets, perhaps of none."""
    global_ids: NDArray[np.int64]
    """[n_L] global ids of the own targets."""
    num_targets: int
    """Number of targets of all trainers."""
    pairs: PairBlock | None = None
    """The pairs that this trainer scores, with ``--task links``: ``batch.pairs.scores(h, run.decoder)`` of the
    vectors of the own targets, which all trainers call; None where labels are learned."""


class Loop:
    """A run on one trainer, to go through in a loop of one's own."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._epochs = Epochs(trainer)
        self._current: MiniBatch | None = None
        self._result: StepResult | None = None
        self._to_come = "next"
        """What a mini-batch waits for: its ``backward``, its ``step``, or the ``next`` one."""
        self._forward: AbstractContextManager[None] | None = None
        self._autocast: AbstractContextManager[Any] | None = None
        """What lets the model compute in the run's precision, from a mini-batch to its ``backward``."""

    @property
    def model(self) -> nn.Module:
        """The model on this trainer's device; ``model(batch.blocks, batch.x)`` gives logits of the own targets."""
        return self._trainer.model

    @property
    def decoder(self) -> Decoder | None:
        """What scores pairs of vectors, with ``--task links``; its weights are among those of the model."""
        return decoder_in(self._trainer.model)

    @property
    def config(self) -> TrainConfig:
        """The configuration as decided."""
        return self._trainer.run.config

    @property
    def rank(self) -> int:
        """Rank of this trainer, from 0."""
        return self._trainer.member.rank

    @property
    def trainers(self) -> int:
        """Number of trainers."""
        return self._trainer.member.world

    @property
    def device(self) -> torch.device:
        """The device of the model and of all tensors of a mini-batch."""
        return self._trainer.member.device

    @property
    def is_done(self) -> bool:
        """True where all epochs are done."""
        return self._epochs.done

    @property
    def is_over(self) -> bool:
        """True where no mini-batch is left: all epochs are done, or the run was asked to stop."""
        return self._epochs.done or self._epochs.stopped

    def __iter__(self) -> Iterator[Batch]:
        if self._current is not None:
            raise InputError(
                f"the loop of trainer {self.rank} began to go through the mini-batches again, in the middle of one; "
                "go through the run once: it has those of all epochs"
            )
        layout = self._trainer.layout
        while (mini_batch := self._epochs.next()) is not None:
            assert mini_batch.targets is not None
            self._current = mini_batch
            self._forward = self._trainer.clock("forward")
            self._forward.__enter__()
            self._autocast = self._trainer.run.precision.calling(self.device)
            self._autocast.__enter__()
            self._to_come = "backward"
            yield Batch(
                epoch=mini_batch.epoch,
                number=mini_batch.batch,
                blocks=mini_batch.blocks,
                x=mini_batch.features(),
                labels=mini_batch.labels,
                global_ids=layout.permutations[layout.graph.target][mini_batch.targets],
                num_targets=mini_batch.num_targets,
                pairs=mini_batch.pairs,
            )
            self._expect("next", "the next mini-batch was asked for")
            assert self._result is not None
            self._epochs.record(mini_batch, self._result)
            self._current = None

    def backward(self, loss_sum: Tensor) -> None:
        """Backward through the model and the exchanges; afterwards ``grad`` of all weights are those of all trainers.

        Args:
            loss_sum: the sum of the losses of the own targets, or pairs; it is divided by the targets of all
                trainers, or by their pairs and candidates.

        Raises:
            InputError: for anything but a scalar, and out of turn.
        """
        self._expect("backward", "run.backward was called")
        mini_batch, trainer = self._current, self._trainer
        assert mini_batch is not None
        assert self._forward is not None
        if not isinstance(loss_sum, Tensor) or loss_sum.ndim:
            raise InputError(
                f"run.backward on trainer {self.rank} takes the sum of the losses of its own targets, a scalar, not "
                f"{tuple(loss_sum.shape) if isinstance(loss_sum, Tensor) else type(loss_sum).__name__}"
            )
        assert self._autocast is not None
        self._autocast.__exit__(None, None, None)
        self._forward.__exit__(None, None, None)
        loss = mini_batch.comm.tie(loss_sum.to(trainer.run.dtype) / max(1, mini_batch.counted))
        loss, reduced_bytes = backward(trainer.steps, loss, None, mini_batch.counted, trainer.clock)
        self._result = StepResult(loss=loss, reduced_bytes=reduced_bytes, counted=mini_batch.counted)
        check_mini_batch(trainer, mini_batch, loss)
        self._to_come = "step"

    def step(self) -> None:
        """Make the optimizer's step, at the rate of the schedule; with ``--accumulate`` where one is due."""
        self._expect("step", "run.step was called")
        trainer = self._trainer
        assert self._current is not None
        with trainer.clock("step"):
            trainer.steps.end(trainer.progress.epoch, trainer.progress.batch, self._current.counted)
        self._to_come = "next"

    def _expect(self, what: str, happened: str) -> None:
        if self._to_come != what:
            missing = {"next": "for batch in run", "backward": "run.backward", "step": "run.step"}[self._to_come]
            raise InputError(
                f"in the loop of trainer {self.rank} {happened} before {missing}: each mini-batch takes one "
                "run.backward(loss_sum), and then one run.step()"
            )


def train_by(trainer: Trainer, pickled: bytes) -> bool:
    """Train by a loop of the user's. False where the run was asked to stop before its end.

    Raises:
        InputError: where the loop ends before the run does, or asks for things out of turn.
    """
    function: Callable[[Loop], object] = pickle.loads(pickled)
    run, progress = Loop(trainer), trainer.progress
    function(run)
    if not run.is_over:
        raise InputError(
            f"the loop of trainer {trainer.member.rank} ended in epoch {progress.epoch + 1}, after "
            f"{progress.batch} mini-batches, and the run goes on; go through all of them, or end it by --epochs or "
            "--early-stop"
        )
    return run.is_done
