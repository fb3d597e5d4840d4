"""A training run, decided and checked: what the launcher starts, and what every trainer gets."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gsplit.config.resolved import Resolved
from gsplit.config.rules import RESULTS, Useless, marked
from gsplit.config.train import TrainConfig
from gsplit.device.precision import Precision
from gsplit.engine.dry.step_bytes import StepBytes
from gsplit.engine.objectives.own_loss import OwnLoss
from gsplit.engine.objectives.pairs import OwnPairLoss
from gsplit.engine.strategy import Strategy
from gsplit.models import registry
from gsplit.models.prepared import Needs, prepare
from gsplit.sampling.rule import FanOutOf


@dataclass(frozen=True, kw_only=True)
class Run:
    """All that is decided before a process is started. Nobody looks at the flags again."""

    config: Resolved
    """The configuration with everything decided."""
    asked: TrainConfig
    """The configuration as it was asked for, with the layout's place and the number of threads: what ``--resume``
    begins with. It is saved, and compared with what was asked before; no decision is made from it."""
    signature: dict[str, Any]
    """What must agree for weights to fit the model (:func:`gsplit.models.registry.describe`)."""
    needs: Needs
    """What the model wants of its blocks: weights of edges, degrees of vertices."""
    estimates: tuple[str, ...] = ()
    """Estimates that the model can be trained with, where each edge counts by its source."""
    pickled_model: bytes | None = None
    """A model that was handed over, or None to build the one the signature names. Bytes, because a module sent
    to another process would arrive in shared memory, and every trainer would train the same weights."""
    fan_out_of: FanOutOf = ()
    """Relations with fan-outs of their own, by number."""
    own_loss: OwnLoss | OwnPairLoss | None = None
    """A loss of the user's, or None for one that the configuration names."""
    step: StepBytes | None = None
    """What a training step takes of an accelerator, as a dry run found it; None on the CPU, and where none could."""
    reads_stored_rows: bool = False
    """Whether the model is one of ours that reads feature rows where they lie on the host."""
    unused: tuple[str, ...] = ()
    """Fields of ``config`` that the model takes nothing of."""
    without_effect: tuple[Useless, ...] = ()
    """Flags that were given and have no effect, which is warned of."""

    def new_model(self) -> nn.Module:
        """The model, ready for blocks: as it was handed over, or freshly initialised from torch's generator."""
        given = self.pickled_model
        model = registry.build(self.signature, self.config) if given is None else pickle.loads(given)
        return prepare(registry.with_decoder(model, self.signature)).model

    @property
    def folder(self) -> Path:
        """The run's folder, which the launcher holds."""
        assert self.config.out is not None
        return self.config.out

    @property
    def settings(self) -> dict[str, Any]:
        """The flags that what is learned depends on, as they were given; None where the model has no use for them.

        What is exchanged is as decided, for a model that needs rows takes nothing else, and so is the dropout, which
        goes by the width, and the precision. A loss that was handed over has the name that it goes by.
        """
        given = {name: getattr(self.asked, name) for name in marked(type(self.asked), RESULTS)}
        given |= {name: getattr(self.config, name) for name in ("exchange", "dropout", "precision", "task")}
        if self.own_loss is not None:
            given["loss"] = self.own_loss.name
        return {name: None if name in self.unused else value for name, value in given.items()}

    @property
    def layout(self) -> Path:
        """The folder of the layout."""
        return self.config.layout

    @property
    def trainers(self) -> int:
        """Number of trainers."""
        return self.config.gpus

    @property
    def samplers(self) -> int:
        """Number of sampler processes; 0 where trainers sample for themselves."""
        return self.config.samplers

    @property
    def resumes(self) -> bool:
        """True where the run goes on from a checkpoint."""
        return self.config.resume is not None

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return self.precision.dtype

    @property
    def precision(self) -> Precision:
        """The precision, in which the model is called wherever it is."""
        return Precision.named(self.config.precision)

    @property
    def exchange_dtype(self) -> torch.dtype | None:
        """Type in which exchanged rows travel; None: their own."""
        if self.precision.rows == torch.bfloat16:  # what a model makes float32, such as a norm, is sent so, too
            return torch.bfloat16
        return self.moves_dtype

    @property
    def moves_dtype(self) -> torch.dtype | None:
        """Type in which rows move on a grid of the whole graph; None: their own, mixed precision's or not."""
        return None if self.config.exchange_dtype == "model" else getattr(torch, self.config.exchange_dtype)

    @property
    def partial_sums(self) -> bool:
        """True where trainers send sums of rows in the place of rows, if these are fewer."""
        return self.config.exchange == "auto"

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy: the layout of mini-batches and caches over the trainers."""
        return Strategy.of(self.config)
