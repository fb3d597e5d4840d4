"""How models are scored: exactly, over all neighbours, or on sampled neighbourhoods; and the memory that takes."""

from __future__ import annotations

from gsplit.engine.evaluation.evaluator import Evaluator
from gsplit.engine.evaluation.exact import MAX_EDGES, MAX_ROW_BYTES, ExactLevels, bounds_of, forward_to, own_range
from gsplit.engine.evaluation.sampled_targets import validated
from gsplit.engine.evaluation.vectors import Stopped

__all__ = [
    "MAX_EDGES",
    "MAX_ROW_BYTES",
    "Evaluator",
    "ExactLevels",
    "Stopped",
    "bounds_of",
    "forward_to",
    "own_range",
    "validated",
]
