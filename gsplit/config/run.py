"""What is read, written and measured in a training run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gsplit.config.fields import Accepted, Checked, Range
from gsplit.config.flags import Aliases, Positional
from gsplit.config.parallel import SAMPLED
from gsplit.config.rules import NOT_RESUMED, RESULTS, AsksForNothing, FixedInEpoch, Only
from gsplit.config.sampling import check_fan_out
from gsplit.errors import InputError

Predictions = Literal["no", "classes", "values", "logits"]
StopOnNan = Literal["epoch", "batch", "never"]
Evaluation = Literal["exact", "sampled", "none"]


EVALUATED = Only(evaluate=("exact", "sampled"))


def _check_validate_fan_out(fan_out: Sequence[int]) -> None:
    check_fan_out(fan_out, "--validate-fan-out")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Checked):
    """When and how a run validates, and tests the model that is kept at the end."""

    validate_every: Annotated[int, Range(0), EVALUATED, AsksForNothing(0), Aliases(("--eval-every",))] = 1
    """Validate after every so many epochs; 0 never."""
    validate_every_batches: Annotated[int, Range(0), Only(strategy=SAMPLED), EVALUATED] = 0
    """Validate, too, after every so many mini-batches of an epoch; 0 never."""
    validate_vertices: Annotated[int | None, Range(1), EVALUATED, Only(validation=True)] = None
    """Validate on so many of the validation vertices, the same each time; by default on all."""
    evaluate: Evaluation = "exact"
    """How to validate, and to test the model that is kept at the end: exact takes all neighbours; sampled draws
    --validate-fan-out of them, the same each time, and takes less memory; none does neither."""
    validate_fan_out: Annotated[
        tuple[int, ...] | None, Accepted(_check_validate_fan_out), Only(evaluate="sampled")
    ] = None
    """sampled: neighbours drawn per hop, as --fan-out says them, by every relation. By default what --fan-out and
    --fan-out-of say, where neighbours are sampled; else 10."""

    @property
    def validations(self) -> tuple[int, str]:
        """Number of epochs after which to validate, 0 for never, and the flag that says so."""
        if self.evaluate == "none":
            return 0, "--evaluate none"
        return self.validate_every, f"--validate-every {self.validate_every}"


@dataclass(frozen=True, kw_only=True)
class RunConfig(EvaluationConfig):
    """The run: its folder, when it validates and saves, and what else it writes."""

    layout: Annotated[Path | None, Positional] = None
    """The layout to train on, made by gsplit partition. With --strategy full a graph store will do."""
    out: Annotated[Path | None, NOT_RESUMED] = None
    """RUN, the folder to write: config, metrics, summary, checkpoints and the model."""
    overwrite: Annotated[bool, NOT_RESUMED] = False
    """Replace the run in --out."""
    resume: Path | None = None
    """Go on with the run in this folder, from its last checkpoint; its configuration is the default."""
    continue_: Annotated[bool | None, NOT_RESUMED] = None
    """Go on with the run in --out from its last checkpoint where it has one, else begin it: the same command line
    again and again comes to the end. Implied where torchrun or Slurm counts a restart; --no-continue forbids it."""
    check_model: Annotated[bool | None, Only(train_features=None), AsksForNothing(False), NOT_RESUMED] = None
    """Do not train: compare the gradients of two trainers with those of one, on a few mini-batches, and say whether
    the model can be split. Without the flag, a model that is not GSplit's own is tried on a few vertices, alone and
    together with others, before the run begins; --no-check-model leaves that out."""
    dry_run: Annotated[bool, NOT_RESUMED] = False
    """Do not train: show what each plan of --strategy full would send, hold and take of memory."""
    hosts_hint: Annotated[int | None, Range(1), Only(dry_run=True), NOT_RESUMED] = None
    """--dry-run: as if the trainers were on so many hosts, as many on each: what goes between them, too. Those along
    the features of a grid, and then along its columns, are on one host where they fit."""
    seed: Annotated[int, Range(0), RESULTS, FixedInEpoch()] = 0
    """Seed of the initial weights, the sampling and the dropout."""
    checkpoint_every: Annotated[int, Range(0)] = 1
    """Write a checkpoint after every so many epochs; 0 never."""
    checkpoint_every_batches: Annotated[int, Range(0)] = 0
    """Write a checkpoint, too, after every so many mini-batches; 0 never."""
    stop_on_nan: StopOnNan = "epoch"
    """End a run whose loss or weights are NaN or infinite: at the end of the epoch in which they became so; or before
    the step of the mini-batch, and with the name of the layer, for which each mini-batch is waited for; or never.
    Weights that are not finite are in no checkpoint and kept as no model."""
    save_predictions: Predictions = "no"
    """Write predictions.npy of all vertices, in global ids, at the end; values are the numbers that a regression
    predicts."""
    log_every: Annotated[float, Range(0, below=math.inf)] = 30.0
    """Where the output is no terminal, which has a progress bar, write a line after so many seconds; 0 never."""
    profile: Annotated[bool, NOT_RESUMED] = False
    """Write trace.json, in which chrome://tracing and Perfetto show what all processes did in the first 20
    mini-batches after the first one. Slows those down; --resume does not take it over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.continue_ and self.overwrite:
            raise InputError("--continue goes on with the run in --out, which --overwrite replaces; drop one")
        if self.evaluate == "none" and self.save_predictions != "no":
            raise InputError(f"--save-predictions {self.save_predictions} contradicts --evaluate none; drop one")
