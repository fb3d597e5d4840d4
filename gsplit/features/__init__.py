"""What is looked up for a split: feature rows, from caches or the host; edge weights; degrees."""

from gsplit.features.cache import Cache, NoCache, PartitionedCache, PeerCaches, ReplicatedCache
from gsplit.features.edges import EdgeData, EdgeLoader
from gsplit.features.host_rows import HostRows
from gsplit.features.loader import FeatureLoader, LoadCounters, gather
from gsplit.features.places import Prefixes
from gsplit.features.room import Memory, prefix_rows, replicated_ids, replicated_rows

__all__ = [
    "Cache",
    "EdgeData",
    "EdgeLoader",
    "FeatureLoader",
    "HostRows",
    "LoadCounters",
    "Memory",
    "NoCache",
    "PartitionedCache",
    "PeerCaches",
    "Prefixes",
    "ReplicatedCache",
    "gather",
    "prefix_rows",
    "replicated_ids",
    "replicated_rows",
]
