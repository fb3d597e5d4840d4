"""DGL's heterographs on one thread of the CPU: its neighbour sampler, and R-GCN of its ``HeteroGraphConv``.

The model is that of ``--model rgcn --no-input-projection``: a mean and a matrix for each relation, a matrix and a
bias for each type's own rows, ReLU between layers. Every relation is drawn by the same fan-outs, from in-edges.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gsplit.data.graph import GraphArrays

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dgl
    from dgl.nn.pytorch import GraphConv, HeteroGraphConv

Features = Sequence[NDArray[np.float32]]
"""[T] features by number of the type."""


def heterograph(graph: GraphArrays) -> dgl.DGLGraph:
    """The same graph in DGL, with the format that its sampler reads."""
    edges = {}
    for relation, each in zip(graph.schema.relations, graph.adjacencies, strict=True):
        destinations = np.repeat(np.arange(len(each.indptr) - 1), np.diff(each.indptr))
        edges[relation.source, relation.name, relation.destination] = (
            torch.from_numpy(each.indices.astype(np.int64)),
            torch.from_numpy(destinations),
        )
    counts = {each.name: each.num_vertices for each in graph.schema.types}
    made = dgl.heterograph(edges, num_nodes_dict=counts)
    made.create_formats_()
    return made


class RGCN(nn.Module):
    """Two or more layers of a convolution by relation, and a linear map of own rows by type."""

    def __init__(self, graph: GraphArrays, widths: Sequence[int]) -> None:
        super().__init__()
        names, pairs = graph.schema.type_names, list(itertools.pairwise(widths))
        options = {"norm": "right", "weight": True, "bias": False, "allow_zero_in_degree": True}
        relations = [each.name for each in graph.schema.relations]
        self.target = names[graph.target]
        self.convs = nn.ModuleList(
            HeteroGraphConv({name: GraphConv(a, b, **options) for name in relations}, aggregate="sum")
            for a, b in pairs
        )
        self.own = nn.ModuleList(nn.ModuleDict({name: nn.Linear(a, b) for name in names}) for a, b in pairs)

    def forward(self, blocks: Sequence[dgl.DGLGraph], x: dict[str, Tensor]) -> Tensor:
        """Logits of the targets for the features of the inputs by type."""
        last = len(blocks) - 1
        for layer, (conv, block) in enumerate(zip(self.convs, blocks, strict=True)):
            sums, own = conv(block, x), self.own[layer]
            rows = {name: own.get_submodule(name)(x[name][: block.num_dst_nodes(name)]) for name in x}
            x = {name: each + sums[name] if name in sums else each for name, each in rows.items()}
            if layer < last:
                x = {name: F.relu(each) for name, each in x.items()}
        return x[self.target]


def epochs(
    graph: GraphArrays, features: Features, fan_out: Sequence[int], batch_size: int, hidden: int, number: int
) -> Iterator[tuple[float, float]]:
    """Seconds and mean loss of epochs: sampled, loaded and trained on one thread, with nothing ahead."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    of_dgl, names = heterograph(graph), graph.schema.type_names
    sampler = dgl.dataloading.NeighborSampler(list(reversed(fan_out)))
    rows = {name: torch.from_numpy(each) for name, each in zip(names, features, strict=True)}
    labels, target = torch.from_numpy(np.array(graph.labels)), names[graph.target]
    widths = [features[0].shape[1], *[hidden] * (len(fan_out) - 1), graph.num_classes]
    model = RGCN(graph, widths)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    random = np.random.default_rng(0)
    for _ in range(number):
        start_s, total = time.perf_counter(), 0.0
        order = random.permutation(np.array(graph.train_idx))
        for begin in range(0, len(order), batch_size):
            targets = torch.from_numpy(order[begin : begin + batch_size])
            inputs, _, blocks = sampler.sample_blocks(of_dgl, {target: targets})
            x = {name: rows[name].index_select(0, inputs[name]) for name in names}
            loss = F.cross_entropy(model(blocks, x), labels[targets])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(targets)
        yield time.perf_counter() - start_s, total / len(order)


def sampling(
    graph: GraphArrays, fan_out: Sequence[int], batches: Sequence[NDArray[np.int64]]
) -> list[tuple[int, float]]:
    """Edges and seconds of each of some mini-batches, given by their targets."""
    torch.set_num_threads(1)
    of_dgl, target = heterograph(graph), graph.schema.type_names[graph.target]
    sampler = dgl.dataloading.NeighborSampler(list(reversed(fan_out)))
    found = []
    for targets in batches:
        start_s = time.perf_counter()
        _, _, blocks = sampler.sample_blocks(of_dgl, {target: torch.from_numpy(targets)})
        seconds = time.perf_counter() - start_s
        found.append((sum(block.num_edges() for block in blocks), seconds))
    return found
