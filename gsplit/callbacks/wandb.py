"""Records of a run for Weights & Biases (``pip install wandb``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsplit.callbacks.callback import Callback, scalars


class WandB(Callback):
    """Logs to Weights & Biases; offline, so that nothing is sent until ``wandb sync`` does it.

    Args:
        project: that the run belongs to.
        mode: ``offline``, or ``online``.
        options: other arguments of ``wandb.init``.

    Examples:
        >>> callback = gsplit.callbacks.WandB(project="papers")  # gsplit.train(..., callbacks=[callback])
        >>> callback.options["mode"]
        'offline'
    """

    def __init__(self, project: str = "gsplit", mode: str = "offline", **options: Any) -> None:
        self.options = {"project": project, "mode": mode, **options}

    def on_train_begin(self, run: Path, config: dict[str, Any]) -> None:
        """Begin a run of Weights & Biases in the run's folder."""
        import wandb

        self.run = wandb.init(**{"dir": str(run), "name": run.name, "config": config, **self.options})

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """Log the epoch's numbers."""
        self.run.log(scalars(record))

    def on_validation_end(self, record: dict[str, Any]) -> None:
        """Log the scores."""
        self.run.log({f"within/{name}": value for name, value in scalars(record).items()})

    def on_train_end(self, summary: dict[str, Any]) -> None:
        """Keep the summary, and end the run."""
        self.run.summary.update(scalars(summary))
        self.run.finish()
