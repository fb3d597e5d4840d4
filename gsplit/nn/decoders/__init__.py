"""How well two vertices go together: a score of the vectors that the last layer gave them."""

from gsplit.nn.decoders.decoder import Decoder, OwnDecoder
from gsplit.nn.decoders.mlp import MLP
from gsplit.nn.decoders.similarities import Cosine, DistMult, Dot

__all__ = ["MLP", "Cosine", "Decoder", "DistMult", "Dot", "OwnDecoder"]
