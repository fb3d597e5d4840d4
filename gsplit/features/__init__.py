"""Feature rows: from the host to the trainer that owns them."""

from gsplit.features.loader import FeatureLoader, LoadCounters, gather

__all__ = ["FeatureLoader", "LoadCounters", "gather"]
