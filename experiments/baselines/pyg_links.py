"""Links learned by plain PyG: an encoder of two layers on the whole graph, the dot product, binary cross-entropy.

Each step leaves the edges that it asks for, and their reverses, out of the graph. Negatives are other destinations
for the same source, drawn by PyTorch out of all vertices, known links among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from experiments.baselines.whole_graph import Task, initial_convs, pyg_conv
from gsplit.config.train import TrainConfig
from gsplit.data import GraphArrays
from gsplit.engine.tasks.links import embedding_width


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What the vectors of a model give on a set of pairs, and on as many that do not belong together."""

    auroc: float
    ap: float

    @classmethod
    def of(cls, z: Tensor, positive: Tensor, negative: Tensor) -> Scored:
        """Return scikit-learn's figures of the dot products of vectors [N, D] for pairs [n, 2] and [m, 2]."""
        from sklearn.metrics import average_precision_score, roc_auc_score

        pairs = torch.cat([positive, negative])
        scores = (z[pairs[:, 0]].double() * z[pairs[:, 1]].double()).sum(dim=1).numpy()
        belong = np.arange(len(pairs)) < len(positive)
        return cls(auroc=roc_auc_score(belong, scores), ap=average_precision_score(belong, scores))


def layers_of(convs: Iterable[nn.Module]) -> nn.ModuleList:
    """PyG's convolutions with the weights of ours."""
    return nn.ModuleList(pyg_conv(conv, cached=False) for conv in convs)


def vectors(layers: nn.ModuleList, x: Tensor, edge_index: Tensor) -> Tensor:
    """Rows of all vertices by two layers with ReLU between them."""
    rows: Tensor = layers[1](layers[0](x, edge_index).relu(), edge_index)
    return rows


def edges_of(graph: GraphArrays) -> Tensor:
    """The message edges of a graph, [2, E]: sources, destinations."""
    destinations = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return torch.from_numpy(np.stack([graph.indices.astype(np.int64), destinations]))


def rows_of(graph: GraphArrays) -> Tensor:
    """Features of all vertices, each row divided by its sum."""
    assert graph.features is not None
    return F.normalize(torch.from_numpy(np.array(graph.features, np.float32)), p=1, dim=1)


def compared(graph: GraphArrays, name: str) -> tuple[Tensor, Tensor]:
    """The pairs of ``valid`` or ``test``, and those that they are compared with."""
    assert graph.links is not None
    both: list[NDArray[np.int64]] = [getattr(graph.links, each) for each in (name, f"{name}_negatives")]
    positive, negative = (torch.from_numpy(np.array(pairs)) for pairs in both)
    return positive, negative


def train_links(graph: GraphArrays, config: TrainConfig, seed: int) -> Scored:
    """Test figures of PyG at the epoch that is best in validation, from our initial weights and in as many steps."""
    torch.set_num_threads(1)  # as ours
    x, edges, n = rows_of(graph), edges_of(graph), graph.num_vertices
    keys = edges[0] * n + edges[1]
    task = Task(
        store="", model=config.model, hidden=config.hidden, layers=2, epochs=config.epochs, lr=config.lr, seed=seed
    )
    layers = layers_of(initial_convs(task, x.shape[1], embedding_width(config)))
    optimizer = torch.optim.Adam(layers.parameters(), lr=config.lr)
    best, test = -1.0, Scored(auroc=0.0, ap=0.0)
    for _ in range(config.epochs):
        for batch in torch.randperm(edges.shape[1])[: config.epoch_pairs].split(config.batch_size):
            source, destination = edges[:, batch]
            asked = torch.cat([source * n + destination, destination * n + source])
            z = vectors(layers, x, edges[:, ~torch.isin(keys, asked)])
            others = torch.randint(n, (len(batch),))
            scores = torch.cat([(z[source] * z[ends]).sum(dim=1) for ends in (destination, others)])
            loss = F.binary_cross_entropy_with_logits(scores, torch.arange(len(scores)).lt(len(batch)).float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            z = vectors(layers, x, edges)
        found = Scored.of(z, *compared(graph, "valid"))
        if found.auroc > best:
            best, test = found.auroc, Scored.of(z, *compared(graph, "test"))
    return test
