"""What random models are made of: a net for each way in which users write forward, and one convolution by hand.

All are written for the library, and know nothing of GSplit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import JumpingKnowledge, MessagePassing

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "elu": nn.functional.elu,
    "tanh": torch.tanh,
}
BY_HAND: dict[str, Callable[[Tensor], Tensor]] = {
    "x - x.mean(0)": lambda x: x - x.mean(0),
    "x / x.abs().max()": lambda x: x / x.abs().max(),
    "x + x.sum(0)": lambda x: x + x.sum(0, keepdim=True),
    "x.softmax(0)": lambda x: x.softmax(0),
}
"""What looks at all vertices at hand, as users write it between two convolutions."""


class Net(nn.Module):
    """Convolutions, and between them norms, activations, skip connections and jumping knowledge.

    Args:
        convolutions: in the order of layers.
        norms: one fewer.
        skips: linear maps of the skip connections, one a layer; none where there are none.
        activation: a name of :data:`ACTIVATIONS`.
        jumping: the mode of jumping knowledge, or None.
        widths: of the levels; with jumping knowledge the last one is that of the logits, and all others are alike.
        by_hand: a name of :data:`BY_HAND`, or None.
    """

    def __init__(
        self,
        convolutions: Sequence[nn.Module],
        norms: Sequence[nn.Module],
        skips: Sequence[nn.Module],
        *,
        activation: str,
        jumping: str | None,
        widths: Sequence[int],
        by_hand: str | None,
    ) -> None:
        super().__init__()
        self.convs, self.norms, self.skips = map(nn.ModuleList, (convolutions, norms, skips))
        self.activation, self.by_hand = activation, by_hand
        self.jumping = None
        if jumping is not None:
            hidden, layers = widths[1], len(convolutions)
            self.jumping = JumpingKnowledge(jumping, hidden, layers)
            self.last = nn.Linear(hidden * (layers if jumping == "cat" else 1), widths[-1])

    def computed(self, x: Tensor, convolve: Callable[[int, nn.Module, Tensor], Tensor]) -> Tensor:
        """Logits, by a function of (place of the convolution, convolution, rows)."""
        levels = []
        for i, conv in enumerate(self.convs):
            out = convolve(i, conv, x).flatten(1)
            if self.by_hand is not None:
                out = BY_HAND[self.by_hand](out)
            if len(self.skips):
                out = out + self.skips[i](x[: out.shape[0]])
            if i < len(self.norms):
                out = ACTIVATIONS[self.activation](self.norms[i](out))
            x = out
            levels.append(x)
        return x if self.jumping is None else self.last(self.jumping(levels))


class OnEdges(Net):
    """PyG, as its tutorials write it."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of all vertices."""
        return self.computed(x, lambda _, conv, x: conv(x, edge_index))


class OnWeights(Net):
    """PyG, with weights of edges."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits of all vertices."""
        return self.computed(x, lambda _, conv, x: conv(x, edge_index, edge_weight))


class OnAttributes(Net):
    """PyG, with a column of attributes of edges."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """Logits of all vertices."""
        return self.computed(x, lambda _, conv, x: conv(x, edge_index, edge_attr=edge_attr))


class OnSparse(Net):
    """PyG, with a sparse adjacency."""

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        """Logits of all vertices."""
        return self.computed(x, lambda _, conv, x: conv(x, adj_t))


class OnAdjs(Net):
    """PyG, with a graph for each layer."""

    def forward(self, x: Tensor, adjs: Any) -> Tensor:
        """Logits of the targets."""
        return self.computed(x, lambda i, conv, x: conv((x, x[: adjs[i][2][1]]), adjs[i][0]))


class OnData(Net):
    """PyG, with everything in ``data``."""

    def forward(self, data: Any) -> Tensor:
        """Logits of all vertices."""
        return self.computed(data.x, lambda _, conv, x: conv(x, data.edge_index))


class OnBlocks(Net):
    """DGL, with blocks."""

    def forward(self, blocks: Any, x: Tensor) -> Tensor:
        """Logits of the targets."""
        return self.computed(x, lambda i, conv, x: conv(blocks[i], x))


class OnWeightedBlocks(Net):
    """DGL, with blocks that carry weights of edges."""

    def forward(self, blocks: Any, x: Tensor) -> Tensor:
        """Logits of the targets."""
        return self.computed(x, lambda i, conv, x: conv(blocks[i], x, edge_weight=blocks[i].edata["weight"]))


class OnEdgeData(Net):
    """DGL, with blocks whose weights are a column of features of edges."""

    def forward(self, blocks: Any, x: Tensor) -> Tensor:
        """Logits of the targets."""
        return self.computed(x, lambda i, conv, x: conv(blocks[i], x, blocks[i].edata["weight"].unsqueeze(1)))


class OnGraph(Net):
    """DGL, as its tutorials write it for the whole graph."""

    def forward(self, g: Any, in_feat: Tensor) -> Tensor:
        """Logits of all vertices."""
        return self.computed(in_feat, lambda _, conv, x: conv(g, x))


FORMS: dict[str, type[Net]] = {
    "x, edge_index": OnEdges,
    "x, edge_index, edge_weight": OnWeights,
    "x, edge_index, edge_attr": OnAttributes,
    "x, adj_t": OnSparse,
    "x, adjs": OnAdjs,
    "data": OnData,
    "blocks, x": OnBlocks,
    "blocks, x, weights": OnWeightedBlocks,
    "blocks, x, attributes": OnEdgeData,
    "g, x": OnGraph,
}
"""Nets by what forward takes."""


class HandMade(MessagePassing):
    """A convolution as a user writes it: rows beside what any aggregation makes of the neighbours'.

    Args:
        w_in, w_out: widths.
        aggregation: of messages as wide as the rows.
        factor: how many times as wide the result is.
    """

    def __init__(self, w_in: int, w_out: int, aggregation: Any, factor: int = 1) -> None:
        super().__init__(aggr=aggregation)
        self.lin = nn.Linear((1 + factor) * w_in, w_out)

    def forward(self, x: Any, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Rows of the destinations."""
        x = (x, x) if isinstance(x, Tensor) else x
        neighbours = self.propagate(edge_index, x=x, edge_weight=edge_weight, size=(len(x[0]), len(x[1])))
        return self.lin(torch.cat([x[1], neighbours], dim=1))

    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        """The row of the source of each edge, times its weight."""
        return x_j if edge_weight is None else x_j * edge_weight.unsqueeze(1)


class EdgeMap(nn.Module):
    """What ``NNConv`` makes of an edge's attribute: a matrix, in a row."""

    def __init__(self, w_in: int, w_out: int) -> None:
        super().__init__()
        self.lin = nn.Linear(1, w_in * w_out)

    def forward(self, attribute: Tensor) -> Tensor:
        """[edges, w_in * w_out] of [edges, 1]."""
        return torch.tanh(self.lin(attribute))
