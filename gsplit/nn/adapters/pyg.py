"""Models written for PyG: convolutions are called on ``(x_source, x_destination), edge_index``.

What forward gets as ``edge_index`` (or ``adj_t``, ``edge_weight``) is a token, an empty tensor; the hook puts the
block's own in its place, layer by layer. So a model written for the whole graph, or for ``NeighborLoader``, runs as
it is, and every layer computes no more than its level.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gsplit.nn.adapters.adapter import Adapter
from gsplit.nn.block import Block

GRAPH_ARGUMENTS = ("edge_index", "adj_t", "adj")
"""What PyG's convolutions call the graph."""
WEIGHT_ARGUMENTS = ("edge_weight", "edge_attr")


class Adj(NamedTuple):
    """One entry of ``adjs``: the graph of a layer, with the names of PyG's ``NeighborSampler``."""

    edge_index: Tensor
    e_id: None
    size: tuple[int, int]
    """Own sources and destinations; ``x[:size[1]]`` are the destinations."""


def is_pyg_convolution(module: nn.Module) -> bool:
    """Whether a module is one of PyG's ``MessagePassing``. PyG is not imported to tell: who has one has."""
    message_passing = sys.modules.get("torch_geometric.nn.conv")
    return message_passing is not None and isinstance(module, message_passing.MessagePassing)


class PyGAdapter(Adapter):
    graph_names = ("edge_index", "adj_t", "adjs", "data", "edge_weight", "edge_attr")

    def __init__(self, module: nn.Module, convolutions: Sequence[nn.Module]) -> None:
        self._tokens: list[Tensor] = []
        """One a layer, or one for all layers."""
        self._weight_token: Tensor | None = None
        super().__init__(module, convolutions)

    def _arguments(self, x: Tensor, layers: int) -> dict[str, Any]:
        takes = self._parameters_of_forward
        if any(block.edge_weight is not None for block in self._blocks.values()):
            self._weight_token = x.new_empty(0)
        names = set(takes.values())
        count = layers if "adjs" in names else 1
        self._tokens = [torch.empty((2, 0), dtype=torch.int64, device=x.device) for _ in range(count)]
        values: dict[str, Any] = {
            "features": x,
            "edge_index": self._tokens[0],
            "adj_t": self._tokens[0],
            "edge_weight": self._weight_token,
            "edge_attr": self._weight_token,
        }
        if "adjs" in names:
            values["adjs"] = [
                Adj(token, None, self._sizes(layer)) for layer, token in enumerate(self._tokens, start=1)
            ]
        if "data" in names:
            from torch_geometric.data import Data

            values["data"] = Data(x=x, edge_index=self._tokens[0], edge_weight=self._weight_token)
        return {name: values[what] for name, what in takes.items()}

    def _sizes(self, layer: int) -> tuple[int, int]:
        block = self._blocks.get(layer)
        return (0, 0) if block is None else (block.num_own_sources, block.num_destinations)

    def _forget(self) -> None:
        self._tokens, self._weight_token = [], None

    def _before_convolution(
        self, convolution: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not self._tokens:
            return None
        bound = inspect.signature(convolution.forward).bind(*arguments, **named)
        given = bound.arguments
        graph_name = next(name for name in (*GRAPH_ARGUMENTS, *list(given)[1:]) if name in given)
        layer = self._layer_of(given[graph_name], self._tokens)
        x_name = next(iter(given))
        x = given[x_name]
        pair = x if isinstance(x, (tuple, list)) else None
        sources = self._sources(layer, x if pair is None else pair[0])
        block = self._blocks[layer]
        destinations = sources[: block.num_destinations] if pair is None else pair[1]
        given[x_name] = (sources, destinations)
        sparse = "adj_t" in self._parameters_of_forward
        given[graph_name] = block.adjacency(sources.dtype) if sparse else block.edge_index()
        for name in WEIGHT_ARGUMENTS:
            if name in given and given[name] is self._weight_token and self._weight_token is not None:
                given[name] = _weights(block, column=name == "edge_attr")
        if given.get("size") is not None:
            given["size"] = (block.num_sources, block.num_destinations)
        return bound.args, bound.kwargs


def _weights(block: Block, *, column: bool) -> Tensor:
    assert block.edge_weight is not None
    return block.edge_weight.unsqueeze(1) if column else block.edge_weight
