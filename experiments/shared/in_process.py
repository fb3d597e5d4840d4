"""A whole run with one trainer, in the process that asks for it."""

from __future__ import annotations

import io
import tempfile
from contextlib import closing, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gsplit.config.train import TrainConfig
from gsplit.engine.rows.shared import Shared
from gsplit.launch.resolve import resolve
from gsplit.parallel import Member
from gsplit.train import loop
from gsplit.train.summary import finish


def trained_here(config: TrainConfig) -> tuple[nn.Module, dict[str, Any]]:
    """The model of a run at its best epoch, and the summary; nothing of the run is kept, nor printed."""
    quiet = redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as out, closing(Shared.create(1)) as shared, quiet:
        run = resolve(replace(config, out=Path(out)))
        torch.set_num_threads(1)
        trainer = loop.ready(Member(rank=0, world=1, device=torch.device("cpu")), run, shared)
        loop.train(trainer)
        summary = finish(trainer)
        trainer.close()
    assert summary is not None
    return trainer.model, summary
