"""Mini-batches that are subgraphs, each computed on a process grid: ScaleGNN's four dimensions."""

from gsplit.engine.gridded.engine import SubgraphGrids

__all__ = ["SubgraphGrids"]
