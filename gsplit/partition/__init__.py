"""The offline stage: assign every vertex to a part and relabel the graph, so that run time needs no table."""

from gsplit.config.partition import PartitionConfig
from gsplit.partition.make import dry_run, partition

__all__ = ["PartitionConfig", "dry_run", "partition"]
