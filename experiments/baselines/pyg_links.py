"""Links learned by plain PyG: an encoder of two layers on the whole graph, the dot product, binary cross-entropy.

Each step leaves the edges that it asks for, and their reverses, out of the graph. Negatives are other destinations
for the same source, drawn by PyTorch out of all vertices, known links among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    """What the vectors of a model give on the test pairs."""

    auroc: float
    ap: float
    mrr: float
    hits: float
    """Share of the pairs with a rank of at most 10."""

    @classmethod
    def of(cls, z: Tensor, graph: GraphArrays) -> Scored:
        """Return the figures of the dot products of vectors [N, D]."""
        auroc, ap = areas(z, *compared(graph, "test"))
        found = ranks(z, graph)
        return cls(auroc=auroc, ap=ap, mrr=(1 / found).mean().item(), hits=(found <= 10).double().mean().item())


def areas(z: Tensor, positive: Tensor, negative: Tensor) -> tuple[float, float]:
    """AUC and AP by scikit-learn of pairs [n, 2] beside those that do not belong together, [m, 2]."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    pairs = torch.cat([positive, negative])
    scores = (z[pairs[:, 0]].double() * z[pairs[:, 1]].double()).sum(dim=1).numpy()
    belong = np.arange(len(pairs)) < len(positive)
    return roc_auc_score(belong, scores), average_precision_score(belong, scores)


def ranks(z: Tensor, graph: GraphArrays) -> Tensor:
    """The ranks [n] of the destinations of test pairs among all vertices that are not known to belong to the source.

    Of equal scores it is the mean of the best and the worst rank.
    """
    from scipy.sparse import csr_matrix

    n, z = len(z), z.double()
    ends = torch.cat([edges_of(graph), compared(graph, "valid")[0].T], dim=1).numpy()
    known = csr_matrix((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
    found = []
    for pairs in compared(graph, "test")[0].split(512):
        source, destination = pairs.T
        scores = z[source] @ z.T
        others = torch.from_numpy(known[source.numpy()].toarray() == 0)
        others[torch.arange(len(pairs)).repeat(2), torch.cat([source, destination])] = False
        own = scores.gather(1, destination.unsqueeze(1))
        above, equal = ((which & others).sum(dim=1) for which in (scores > own, scores == own))
        found.append(1 + above + equal / 2)
    return torch.cat(found)


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


Step = tuple[Tensor, Tensor, Tensor]
"""Sources, destinations, and what takes the place of these, [n] each."""


def train_links(
    graph: GraphArrays, config: TrainConfig, seed: int, steps: Callable[[int], Iterable[Step]] | None = None
) -> Scored:
    """Test figures of PyG at the epoch that is best in validation, from our initial weights and in as many steps.

    ``steps`` gives those of an epoch; by default PyTorch draws them.
    """
    torch.set_num_threads(1)  # as ours
    x, edges, n = rows_of(graph), edges_of(graph), graph.num_vertices
    keys = edges[0] * n + edges[1]
    task = Task(
        store="", model=config.model, hidden=config.hidden, layers=2, epochs=config.epochs, lr=config.lr, seed=seed
    )
    layers = layers_of(initial_convs(task, x.shape[1], embedding_width(config)))
    optimizer = torch.optim.Adam(layers.parameters(), lr=config.lr)
    best, kept = -1.0, x
    for epoch in range(config.epochs):
        for source, destination, others in steps(epoch) if steps else drawn(edges, n, config):
            asked = torch.cat([source * n + destination, destination * n + source])
            z = vectors(layers, x, edges[:, ~torch.isin(keys, asked)])
            scores = torch.cat([(z[source] * z[ends]).sum(dim=1) for ends in (destination, others)])
            loss = F.binary_cross_entropy_with_logits(scores, torch.arange(len(scores)).lt(len(source)).float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            z = vectors(layers, x, edges)
        auroc, _ = areas(z, *compared(graph, "valid"))
        if auroc > best:
            best, kept = auroc, z
    return Scored.of(kept, graph)


def drawn(edges: Tensor, n: int, config: TrainConfig) -> Iterator[Step]:
    """The steps of an epoch, drawn by PyTorch."""
    for batch in torch.randperm(edges.shape[1])[: config.epoch_pairs].split(config.batch_size):
        source, destination = edges[:, batch]
        yield source, destination, torch.randint(n, (len(batch),))
