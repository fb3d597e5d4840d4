"""What is read, written and measured in a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gsplit.config.fields import Checked, Range
from gsplit.errors import InputError

Predictions = Literal["no", "classes", "values", "logits"]
Evaluation = Literal["exact", "none"]


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """Where a run is kept, when it validates and saves, and what else it writes."""

    layout: Annotated[Path | None, tyro.conf.Positional] = None
    """The layout to train on, made by gsplit partition. With --strategy full a graph store will do."""
    out: Path | None = None
    """RUN, the folder to write: config, metrics, summary, checkpoints and the model."""
    overwrite: bool = False
    """Replace the run in --out."""
    resume: Path | None = None
    """Go on with the run in this folder, from its last checkpoint; its configuration is the default."""
    check_model: bool = False
    """Do not train: compare the gradients of two trainers with those of one, on a few mini-batches, and say whether
    the model can be split."""
    dry_run: bool = False
    """Do not train: show what each plan of --strategy full would send, hold and take of memory."""
    seed: Annotated[int, Range(0)] = 0
    """Seed of the initial weights, the sampling and the dropout."""
    validate_every: Annotated[int, Range(0), tyro.conf.arg(aliases=("--eval-every",))] = 1
    """Validate after every so many epochs; 0 never."""
    evaluate: Evaluation = "exact"
    """How to validate, and to test the model that is kept at the end: exact takes all neighbours; none does neither,
    for timing, or where there is no time for it."""
    checkpoint_every: Annotated[int, Range(0)] = 1
    """Write a checkpoint after every so many epochs; 0 never."""
    checkpoint_every_batches: Annotated[int, Range(0)] = 0
    """Write a checkpoint, too, after every so many mini-batches; 0 never."""
    save_predictions: Predictions = "no"
    """Write predictions.npy of all vertices, in global ids, at the end; values are the numbers that a regression
    predicts."""
    log_every: Annotated[float, Range(0, below=math.inf)] = 30.0
    """Where the output is no terminal, which has a progress bar, write a line after so many seconds; 0 never."""
    profile: bool = False
    """Write trace.json, in which chrome://tracing and Perfetto show what all processes did in the first 20
    mini-batches after the first one. Slows those down; --resume does not take it over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evaluate == "none" and self.save_predictions != "no":
            raise InputError(f"--save-predictions {self.save_predictions} contradicts --evaluate none; drop one")

    @property
    def validations(self) -> tuple[int, str]:
        """Number of epochs after which to validate, 0 for never, and the flag that says so."""
        if self.evaluate == "none":
            return 0, "--evaluate none"
        return self.validate_every, f"--validate-every {self.validate_every}"
