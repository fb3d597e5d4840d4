"""Models written for PyG: convolutions are called on ``(x_source, x_destination), edge_index``.

What forward gets as ``edge_index`` (or ``adj_t``, ``edge_weight``) is a stand-in; the hook puts the block's own in
its place, layer by layer. So a model written for the whole graph, or for ``NeighborLoader``, runs as it is, and every
layer computes no more than its level.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gsplit.nn.adapters.adapter import Adapter
from gsplit.nn.adapters.aggregators import QuantileForward, is_quantile
from gsplit.nn.adapters.equivalents import why_no_gcn
from gsplit.nn.adapters.lazy_rows import materialised
from gsplit.nn.adapters.spare import with_spare, with_spare_edge
from gsplit.nn.adapters.stand_in import stand_in
from gsplit.nn.block import Block

GRAPH_ARGUMENTS = ("edge_index", "adj_t", "adj")
"""The names of the graph among the arguments of PyG's convolutions."""
INSTEAD = {
    "GCNConv": "use GCNConv itself in a model with forward(x, edge_index), --model gcn, or GraphConv",
    "SGConv": "use several GraphConv layers instead",
    "APPNP": "use several GraphConv layers instead",
}
"""What to use in place of convolutions that take no pairs."""
PAIRS = "use a convolution whose x may be a pair (x_source, x_destination)"
GCN_CONV = ("torch_geometric.nn.conv.gcn_conv", "GCNConv")
JUMPING = "torch_geometric.nn.models.jumping_knowledge"


class Adj(NamedTuple):
    """One entry of ``adjs``: the graph of a layer, with the names of PyG's ``NeighborSampler``."""

    edge_index: Tensor
    e_id: None
    size: tuple[int, int]
    """Numbers of own sources and destinations; ``x[:size[1]]`` are the destinations."""


def is_pyg_convolution(module: nn.Module) -> bool:
    """Return whether a module is one of PyG's ``MessagePassing``. PyG is not imported to tell: who has one has."""
    message_passing = sys.modules.get("torch_geometric.nn.conv")
    return message_passing is not None and isinstance(module, message_passing.MessagePassing)


def without_pairs(layer: nn.Module) -> str | None:
    """Why one of PyG's convolutions takes no block, if it does not; None for any other layer.

    By the annotation x must be a tensor, not a pair; where there is none, the convolution is taken at its word.
    """
    if not is_pyg_convolution(layer):
        return None
    first = next(iter(inspect.signature(layer.forward).parameters), "")
    try:
        annotation = typing.get_type_hints(layer.forward).get(first)
    except (NameError, TypeError):  # names that exist for type checkers alone
        return None
    if annotation is not Tensor:
        return None
    if (type(layer).__module__, type(layer).__name__) == GCN_CONV and (why := why_no_gcn(layer)):
        return why
    instead = next((INSTEAD[cls.__name__] for cls in type(layer).__mro__ if cls.__name__ in INSTEAD), PAIRS)
    return f"it takes no bipartite input (x: Tensor); {instead}"


class PyGAdapter(Adapter):
    """``forward(blocks, x)`` around a model of PyG's convolutions; arguments as :class:`Adapter`'s."""

    graph_names = ("edge_index", "adj_t", "adjs", "data", "edge_weight", "edge_attr")

    def __init__(self, module: nn.Module, convolutions: Sequence[nn.Module]) -> None:
        self._stand_ins: list[Tensor] = []
        """Stand-ins for the graph: one for each layer, or one for all layers."""
        self._weight_stand_in: Tensor | None = None
        super().__init__(module, convolutions)
        for layer in module.modules():
            if type(layer).__module__ == JUMPING and type(layer).__name__ == "JumpingKnowledge":
                layer.register_forward_pre_hook(self._before_jumping)
            elif is_quantile(layer):
                layer.forward = QuantileForward(layer)

    def _arguments(self, x: Tensor, layers: int) -> dict[str, Any]:
        takes = self._parameters_of_forward
        if any(block.edge_weight is not None for block in self._blocks.values()):
            self._weight_stand_in = stand_in(x)
        names = set(takes.values())
        self._stand_ins = [stand_in(x, torch.int64) for _ in range(layers if "adjs" in names else 1)]
        values: dict[str, Any] = {
            "features": x,
            "edge_index": self._stand_ins[0],
            "adj_t": self._stand_ins[0],
            "edge_weight": self._weight_stand_in,
            "edge_attr": self._weight_stand_in,
            "batch_size": self._sizes(layers)[1],
        }
        if "adjs" in names:
            values["adjs"] = [
                Adj(of_layer, None, self._sizes(layer)) for layer, of_layer in enumerate(self._stand_ins, start=1)
            ]
        if "data" in names:
            from torch_geometric.data import Data

            values["data"] = Data(x=x, edge_index=self._stand_ins[0], edge_weight=self._weight_stand_in)
        return {name: values[what] for name, what in takes.items()}

    def _sizes(self, layer: int) -> tuple[int, int]:
        block = self._blocks.get(layer)
        return (0, 0) if block is None else (block.num_own_sources, block.num_destinations)

    def _forget(self) -> None:
        self._stand_ins, self._weight_stand_in = [], None

    @property
    def uses_edge_weight(self) -> bool:
        """True where blocks must carry the edge weights of the graph, if it has any: forward has to take them."""
        taken = not {"edge_weight", "edge_attr", "adj_t", "data"}.isdisjoint(self._parameters_of_forward.values())
        return bool(getattr(self.module, "uses_edge_weight", taken))

    def _before_jumping(self, _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The forward pre-hook of jumping knowledge: a level's rows are the first of those of the level below."""
        if not self._stand_ins:
            return None
        levels, *others = arguments
        rows = min(x.shape[0] for x in levels)
        return ([x[:rows] for x in levels], *others)

    def _before_convolution(
        self, convolution: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not self._stand_ins:
            return None
        self._spare.none()
        bound = inspect.signature(convolution.forward).bind(*arguments, **named)
        given = bound.arguments
        graph_name = next((name for name in (*GRAPH_ARGUMENTS, *list(given)[1:]) if name in given), "")
        graph = given.get(graph_name)
        layer = self._layer_of(graph, self._stand_ins, one_a_layer="adjs" in self._parameters_of_forward.values())
        x_name = next(iter(given))
        x = self._rows_of(layer, given[x_name])
        pair = x if isinstance(x, (tuple, list)) else None
        block = self._block_for(layer, x if pair is None else pair[0])
        others = [value for name, value in given.items() if name not in (x_name, graph_name, "size")]
        sparse = "adj_t" in self._parameters_of_forward
        # A sparse adjacency carries the weights, which a convolution that gets it takes without being asked.
        if carried := sparse and block.edge_weight is not None:
            others.append(self._weight_stand_in)
        library = carried and not getattr(convolution.forward, "alone", False)
        on_block = None if library else self._on_block(convolution, block, x, others, self._weight_stand_in)
        if on_block is not None:
            return (on_block,), {}
        x, pair = materialised((x, pair))
        sources = block.exchange(x if pair is None else pair[0])
        destinations = sources[: block.num_destinations] if pair is None else pair[1]
        given[x_name] = (sources, destinations)
        given[graph_name] = block.adjacency(sources.dtype) if sparse else block.edge_index()
        for name, value in given.items():
            if value is self._weight_stand_in and value is not None:
                given[name] = _weights(block, column=name == "edge_attr")
        spare = not sparse and self._spare.is_added(convolution, block)
        if given.get("size") is not None:
            given["size"] = (block.num_sources + spare, block.num_destinations + spare)
        if spare:
            given.update({name: with_spare_edge(value) for name, value in given.items() if name != x_name})
            given[x_name] = with_spare(given[x_name], block.num_destinations)
            given[graph_name] = given[graph_name].new_full((2, 1), block.num_destinations)
        return bound.args, bound.kwargs


def _weights(block: Block, *, column: bool) -> Tensor:
    assert block.edge_weight is not None
    return block.edge_weight.unsqueeze(1) if column else block.edge_weight
