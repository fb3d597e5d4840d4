"""How models are scored: exactly, over all neighbours, or on sampled neighbourhoods; and the memory that takes."""

from __future__ import annotations

from gsplit.engine.evaluation.evaluator import Evaluator
from gsplit.engine.evaluation.exact import MAX_EDGES, MAX_ROW_BYTES, ExactLevels, forward_to
from gsplit.engine.evaluation.sampled_targets import validated
from gsplit.engine.evaluation.vectors import Stopped

__all__ = ["MAX_EDGES", "MAX_ROW_BYTES", "Evaluator", "ExactLevels", "Stopped", "forward_to", "validated"]
