"""What is looked up for a split: feature rows, from the host to the trainer that owns them; edge weights, degrees."""

from gsplit.features.edges import EdgeData, EdgeLoader
from gsplit.features.loader import FeatureLoader, LoadCounters, gather

__all__ = ["EdgeData", "EdgeLoader", "FeatureLoader", "LoadCounters", "gather"]
