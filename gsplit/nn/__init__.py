"""Exchange, blocks and models."""

from gsplit.nn.block import Block, blocks_of
from gsplit.nn.exchange import ExchangeCounters, Lane, Route, exchange
from gsplit.nn.sage import SAGE, SAGEConv, mean_of_neighbours

__all__ = [
    "SAGE", "Block", "ExchangeCounters", "Lane", "Route", "SAGEConv", "blocks_of", "exchange", "mean_of_neighbours",
]  # fmt: skip
