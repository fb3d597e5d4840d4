"""Records of a run for TensorBoard (``pip install tensorboard``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gsplit.callbacks.callback import Callback, scalars


class TensorBoard(Callback):
    """Writes event files: each epoch's numbers at its number, those of validations at their mini-batches.

    Args:
        folder: to write to; by default ``tensorboard`` in the run's folder.

    Examples:
        >>> callback = gsplit.callbacks.TensorBoard("events")  # gsplit.train(..., callbacks=[callback])
        >>> callback.folder
        'events'
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = folder

    def on_train_begin(self, run: Path, config: dict[str, Any]) -> None:
        """Open the file, and write the configuration into it."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.folder or run / "tensorboard"))
        self.writer.add_text("config", f"```\n{json.dumps(config, indent=2)}\n```")

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """Write the epoch's numbers."""
        for name, value in scalars(record).items():
            self.writer.add_scalar(name, value, record["epoch"])
        self.writer.flush()

    def on_validation_end(self, record: dict[str, Any]) -> None:
        """Write the scores."""
        for name, value in scalars(record).items():
            self.writer.add_scalar(f"within/{name}", value, record["step"])

    def on_train_end(self, summary: dict[str, Any]) -> None:
        """Write the scores of the test vertices, and close the file."""
        for name, value in scalars(summary).items():
            if name.startswith("test_"):
                self.writer.add_scalar(name, value, summary["epochs"])
        self.writer.close()
