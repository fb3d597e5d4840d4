"""The base of callbacks, and the numbers of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Callback:
    """Told of a run as it goes: override what you want to hear.

    Callbacks are sent to trainer 0, which makes the calls; an exception in one ends the run. What they get are the
    records of ``metrics.jsonl`` and ``summary.json`` (docs/formats.md, "Run"). A run that goes on begins anew for its
    callbacks: ``on_train_begin`` is called again.

    Examples:
        >>> class Losses(gsplit.callbacks.Callback):
        ...     def on_epoch_end(self, record):
        ...         print(f"epoch {record['epoch']}: {record['loss']:.2f}")
        >>> Losses().on_epoch_end({"epoch": 3, "loss": 0.5})  # gsplit.train(..., callbacks=[Losses()]) calls it
        epoch 3: 0.50
    """

    def on_train_begin(self, run: Path, config: dict[str, Any]) -> None:
        """Training begins.

        Args:
            run: the run's folder.
            config: the configuration as decided, by name (``resolved.json``).
        """

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """An epoch was trained and, if it was its turn, validated; ``record["epoch"]`` counts from 1."""

    def on_validation_end(self, record: dict[str, Any]) -> None:
        """The model was validated in the middle of an epoch (``--validate-every-batches``)."""

    def on_train_end(self, summary: dict[str, Any]) -> None:
        """The run has ended, and its model is tested. Not called where it is asked to stop, or fails."""


def scalars(record: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a record by name, those of its parts as ``stages/forward``; what is None is left out.

    Examples:
        >>> scalars({"loss": 0.5, "stages": {"forward": 2.0}, "best": None})
        {'loss': 0.5, 'stages/forward': 2.0}
    """
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= scalars(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[prefix + name] = value
    return found
