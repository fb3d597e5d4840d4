"""Graph stores and layouts on disk, and where graphs come from."""

from gsplit.data.graph import GraphArrays
from gsplit.data.layout import Layout, TypedLayout, first_parts, open_layout
from gsplit.data.schema import Relation, Schema, VertexType
from gsplit.data.store import GraphStore, open_store, write_store
from gsplit.data.typed_graph import TypedGraph

__all__ = [
    "GraphArrays",
    "GraphStore",
    "Layout",
    "Relation",
    "Schema",
    "TypedGraph",
    "TypedLayout",
    "VertexType",
    "first_parts",
    "open_layout",
    "open_store",
    "write_store",
]
