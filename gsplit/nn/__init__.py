"""Models and what they compute on: blocks, the exchange of rows between trainers, sums over neighbours."""

from gsplit.nn.aggregate import mean_of_neighbours, sum_of_neighbours
from gsplit.nn.attention import softmax_over_neighbours
from gsplit.nn.block import Block
from gsplit.nn.exchange import BatchComm, ExchangeCounters, Route, exchange
from gsplit.nn.gat import GAT, GATConv
from gsplit.nn.gcn import GCN, GCNConv
from gsplit.nn.layered import LayeredModel
from gsplit.nn.neighbourhood import Factors, Neighbourhood
from gsplit.nn.norm import BatchNorm
from gsplit.nn.pair_block import PairBlock, PairScores
from gsplit.nn.rgat import RGAT, RGATConv
from gsplit.nn.rgcn import RGCN, RGCNConv
from gsplit.nn.sage import SAGE, SAGEConv
from gsplit.nn.typed_block import TypedBlock, TypedNeighbourhood
from gsplit.nn.typed_layered import TypedLayeredModel
from gsplit.nn.untyped import UntypedSAGE, UntypedSAGEConv

__all__ = [
    "GAT",
    "GCN",
    "RGAT",
    "RGCN",
    "SAGE",
    "BatchComm",
    "BatchNorm",
    "Block",
    "ExchangeCounters",
    "Factors",
    "GATConv",
    "GCNConv",
    "LayeredModel",
    "Neighbourhood",
    "PairBlock",
    "PairScores",
    "RGATConv",
    "RGCNConv",
    "Route",
    "SAGEConv",
    "TypedBlock",
    "TypedLayeredModel",
    "TypedNeighbourhood",
    "UntypedSAGE",
    "UntypedSAGEConv",
    "exchange",
    "mean_of_neighbours",
    "softmax_over_neighbours",
    "sum_of_neighbours",
]
