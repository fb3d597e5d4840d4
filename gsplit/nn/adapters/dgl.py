"""Models written for DGL: convolutions are called on a DGL block of the layer.

``forward(blocks, x)`` gets one block a layer; ``forward(g, x)`` a stand-in, in whose place the hook puts the block of
the layer. Edge weights, where the graph has any, are ``block.edata["weight"]`` and, under a name of the library's
own, ``edge_weight``.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gsplit.errors import InputError
from gsplit.nn.adapters.adapter import Adapter
from gsplit.nn.adapters.lazy_rows import materialised
from gsplit.nn.adapters.spare import with_spare, with_spare_edge
from gsplit.nn.adapters.stand_in import stand_in
from gsplit.nn.block import Block

DGL_CONVOLUTIONS = "dgl.nn.pytorch.conv"
LISTS = ("blocks", "mfgs", "bipartites")
SINGLE = ("g", "graph", "block")


def is_dgl_convolution(module: nn.Module) -> bool:
    """Return whether a module is one of DGL's convolutions, which have no base class of their own."""
    return any(
        cls.__module__.startswith(DGL_CONVOLUTIONS) and cls.__name__ != "EdgeWeightNorm"
        for cls in type(module).__mro__
    )


class _GraphStandIn:
    """The stand-in for the single graph of a forward, which hands it on to the convolutions of all layers."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError(f"forward uses {name!r} of the graph itself; let it take a list of blocks, one a layer")


class DGLAdapter(Adapter):
    """``forward(blocks, x)`` around a model of DGL's convolutions; arguments as :class:`Adapter`'s."""

    graph_names = (*LISTS, *SINGLE, "edge_weight")

    def __init__(self, module: nn.Module, convolutions: Sequence[nn.Module]) -> None:
        self._given: list[Any] = []
        self._weight_stand_in: Tensor | None = None
        super().__init__(module, convolutions)

    def _arguments(self, x: Tensor, layers: int) -> dict[str, Any]:
        takes = self._parameters_of_forward
        if any(name in LISTS for name in takes):
            self._given = [dgl_block(self._blocks.get(layer)) for layer in range(1, layers + 1)]
        else:
            self._given = [_GraphStandIn()]
        if any(block.edge_weight is not None for block in self._blocks.values()):
            self._weight_stand_in = stand_in(x)
        values: dict[str, Any] = {"features": x, "edge_weight": self._weight_stand_in}
        values |= dict.fromkeys(LISTS, self._given) | dict.fromkeys(SINGLE, self._given[0])
        return {name: values[what] for name, what in takes.items()}

    def _forget(self) -> None:
        self._given, self._weight_stand_in = [], None

    def _before_convolution(
        self, convolution: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not self._given:
            return None
        self._spare.none()
        bound = inspect.signature(convolution.forward).bind(*arguments, **named)
        given = bound.arguments
        graph_name, x_name = list(given)[:2]
        graph = given[graph_name]
        layer = self._layer_of(graph, self._given, one_a_layer=not isinstance(self._given[0], _GraphStandIn))
        x = self._rows_of(layer, given[x_name])
        pair = x if isinstance(x, (tuple, list)) else None
        block = self._block_for(layer, x if pair is None else pair[0])
        others = [value for name, value in given.items() if name not in (x_name, graph_name)]
        if (on_block := self._on_block(convolution, block, x, others, self._weight_stand_in)) is not None:
            return (on_block,), {}
        x, pair = materialised((x, pair))
        sources = block.exchange(x if pair is None else pair[0])
        given[x_name] = sources if pair is None else (sources, pair[1])
        if isinstance(graph, _GraphStandIn):
            given[graph_name] = dgl_block(self._blocks[layer])
        for name, value in given.items():
            if value is self._weight_stand_in and value is not None:
                given[name] = self._blocks[layer].edge_weight
        if self._spare.is_added(convolution, block):
            given.update({name: with_spare_edge(value) for name, value in given.items() if name != x_name})
            given[x_name] = with_spare(given[x_name], block.num_destinations)
            given[graph_name] = dgl_block(block, spare=True)
        return bound.args, bound.kwargs


def dgl_block(block: Block | None, *, spare: bool = False) -> Any:
    """The DGL block of a layer, from all sources to own destinations; an empty one for None.

    It answers out-degrees with counts over the whole mini-batch, which ``GraphConv(norm="both")`` asks for.

    Args:
        block: of the layer.
        spare: add a destination behind its own, with an edge from itself; for a block without edges.
    """
    import dgl

    if block is None:
        return dgl.create_block(([], []), num_src_nodes=0, num_dst_nodes=0)
    indptr, indices = block.indptr.long(), block.indices.long()
    if spare:
        indptr, indices = torch.cat([indptr, indptr.new_ones(1)]), indices.new_tensor([block.num_destinations])
    edges = torch.arange(len(indices), device=indices.device)  # left out, they are null to DGL's kernels
    made = dgl.create_block(
        ("csc", (indptr, indices, edges)),
        num_src_nodes=block.num_sources + spare,
        num_dst_nodes=block.num_destinations + spare,
        device=indices.device,
    )
    made.__class__ = _split_block_class()
    made.gsplit_block, made.gsplit_spare = block, spare
    if block.edge_weight is not None:
        made.edata["weight"] = block.edge_weight.new_ones(1) if spare else block.edge_weight
    return made


_classes: list[type] = []


def _split_block_class() -> type:
    """The class of DGL's blocks with our out-degrees, made on first use: until then DGL is not imported."""
    if not _classes:
        from dgl.heterograph import DGLBlock

        class SplitBlock(DGLBlock):
            gsplit_block: Block
            gsplit_spare: bool

            def out_degrees(self, u: Any = "__ALL__", etype: Any = None) -> Tensor:
                counts = self.gsplit_block.out_degrees()
                if self.gsplit_spare:
                    own = self.gsplit_block.num_destinations
                    counts = torch.cat([counts[:own], counts.new_ones(1), counts[own:]])
                return counts if isinstance(u, str) else counts[u]

        _classes.append(SplitBlock)
    return _classes[0]
