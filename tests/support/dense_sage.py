"""What one process with PyTorch learns: GraphSAGE by dense algebra, on the mini-batches of a run."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from gsplit.sampling.plan import EpochPlan


def mini_batches(layout, config):
    """For each epoch its mini-batches, as layout ids; the last one is smaller, and no group of them is whole."""
    plan = EpochPlan(layout.graph.train_idx, layout.permutation, config.batch_size, config.seed)
    return [[batch for _, batch in plan.batches(epoch)] for epoch in range(config.epochs)]


class DenseSage:
    """GraphSAGE by dense algebra on weights by name, in float64."""

    def __init__(self, layout, weights):
        graph = layout.graph
        rows = torch.zeros(graph.num_vertices, graph.num_vertices).double()
        for v in range(graph.num_vertices):
            for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]:
                rows[v, u] += 1
        self.mean = rows / rows.sum(dim=1, keepdim=True).clamp(min=1)
        self.x = torch.from_numpy(np.array(graph.features)).double()
        self.labels = torch.from_numpy(np.array(graph.labels))
        self.weights = {name: torch.nn.Parameter(tensor.clone()) for name, tensor in weights.items()}

    def logits(self):
        h = self.x
        for layer in range(2):
            own, bias, neighbours = (
                self.weights[f"convs.{layer}.{name}"]
                for name in ("lin_self.weight", "lin_self.bias", "lin_neigh.weight")
            )
            h = h @ own.T + bias + (self.mean @ h) @ neighbours.T
            h = h if layer else F.relu(h)
        return h
