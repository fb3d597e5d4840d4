"""GCN and GAT of PyG trained on the whole graph, by the recipes of the papers, and those recipes.

Kipf and Welling 2017 and Velickovic et al. 2018, but for early stopping, in place of which the epoch that is best in
validation is tested; Adam with the same weight decay for all parameters; features divided by their row sums.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.baselines.pyg_links import edges_of, rows_of
from gsplit.config.train import TrainConfig
from gsplit.data import GraphArrays

COMMON = TrainConfig(
    fan_out=(-1, -1),
    batch_size=1_000_000,
    epochs=200,
    weight_decay=5e-4,
    normalize_features=True,
    checkpoint_every=0,
    device="cpu",
)
RECIPES = {
    "gcn": replace(COMMON, model="gcn", hidden=16, lr=0.01, dropout=0.5, input_dropout=0.5),
    "gat": replace(
        COMMON, model="gat", hidden=64, heads=8, lr=0.005, dropout=0.6, input_dropout=0.6, attention_dropout=0.6
    ),
}


class PyGNet(nn.Module):
    """The same two layers from PyG's convolutions."""

    def __init__(self, config: TrainConfig, graph: GraphArrays) -> None:
        from torch_geometric.nn import GATConv, GCNConv

        super().__init__()
        inputs, classes = graph.num_features, graph.num_classes
        self.config = config
        if config.model == "gcn":
            convs: list[nn.Module] = [GCNConv(inputs, config.hidden), GCNConv(config.hidden, classes)]
        else:
            drop = {"dropout": config.attention_dropout}
            convs = [
                GATConv(inputs, config.hidden // config.heads, heads=config.heads, **drop),
                GATConv(config.hidden, classes, heads=config.out_heads, concat=False, **drop),
            ]
        self.convs = nn.ModuleList(convs)
        self.activation = F.relu if config.model == "gcn" else F.elu

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, self.config.input_dropout, self.training)
        x = self.activation(self.convs[0](x, edge_index))
        return self.convs[1](F.dropout(x, self.config.share_dropped, self.training), edge_index)


def full_batch(graph: GraphArrays, config: TrainConfig, seed: int) -> float:
    """Test accuracy of PyG at the epoch that is best in validation."""
    torch.manual_seed(seed)
    edge_index, x = edges_of(graph), rows_of(graph)
    y = torch.from_numpy(np.array(graph.labels))
    ids = {name: torch.from_numpy(np.array(graph.vertex_set(name))) for name in ("train", "valid", "test")}
    model = PyGNet(config, graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    best = (-1.0, 0.0)
    for _ in range(config.epochs):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x, edge_index)[ids["train"]], y[ids["train"]]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(x, edge_index).argmax(dim=1) == y).double()
        valid, test = (right[ids[name]].mean().item() for name in ("valid", "test"))
        best = max(best, (valid, test), key=lambda scores: scores[0])  # the first of equals, as in training
    return best[1]
