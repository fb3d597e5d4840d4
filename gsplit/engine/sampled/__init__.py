"""The engine of sampled mini-batches: split parallelism, data parallelism, and split groups between the two."""

from gsplit.engine.sampled.engine import Sampled

__all__ = ["Sampled"]
