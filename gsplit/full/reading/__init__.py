"""Reading a layout in pieces: what a trainer needs of the graph, and never an array of it whole."""

from gsplit.full.reading.edge_pieces import PIECE_EDGES, EdgePiece, edge_pieces, vertex_pieces
from gsplit.full.reading.vertex_places import (
    Places,
    accumulate,
    owners_of,
    places_among,
    places_in_list,
    places_in_ranges,
)

__all__ = [
    "PIECE_EDGES",
    "EdgePiece",
    "Places",
    "accumulate",
    "edge_pieces",
    "owners_of",
    "places_among",
    "places_in_list",
    "places_in_ranges",
    "vertex_pieces",
]
