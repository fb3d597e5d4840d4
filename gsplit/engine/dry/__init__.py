"""Dry runs: a training step is made before a run begins, to see what memory of a device it takes."""

from gsplit.engine.dry.live_bytes import LiveBytes
from gsplit.engine.dry.step_bytes import StepBytes

__all__ = ["LiveBytes", "StepBytes"]
