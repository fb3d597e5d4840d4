"""PyG's loaders as ways to train to an accuracy, on the CPU, one trainer's side.

NeighborLoader is that of :mod:`experiments.baselines.pyg_training`, GraphSAINTRandomWalkSampler and ClusterLoader are
here. GraphSAINT's losses and edges are not weighted, as in PyG's example where ``--use_normalization`` is not given.
The accuracy is taken by PyG's product of a sparse matrix, which makes no row for each edge: where it is taken often,
that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData, ClusterLoader, GraphSAINTRandomWalkSampler

from experiments.baselines.data_parallel import Loaded
from experiments.baselines.pyg_training import PyGTraining, WithLoader, edge_index_of, first_fault
from experiments.baselines.subgraphs import CLUSTERS, WALK, Subgraphs, clusters_of, fault_of_induced, roots
from experiments.baselines.workload import Setting, Workload


class ByProducts(PyGTraining):
    """A trainer that evaluates SAGE on the whole graph by products of its sparse matrix."""

    def logits(self) -> Tensor:
        stored = self._stored
        indptr, indices = (torch.from_numpy(np.array(a, np.int64)) for a in (stored.indptr, stored.indices))
        n = len(indptr) - 1
        adjacency = torch.sparse_csr_tensor(indptr, indices, torch.ones(len(indices)), size=(n, n))
        logits: Tensor = self._net(stored.all_rows(), adjacency)
        return logits


class OnNeighbours(ByProducts, WithLoader):
    """NeighborLoader."""


class OnSubgraphs(ByProducts):
    """A loader of induced subgraphs; every layer computes the whole subgraph."""

    def __init__(self, workload: Workload, setting: Setting, rank: int) -> None:
        super().__init__(workload, rank)
        stored = self._stored
        n = len(stored.indptr) - 1
        edge_index = edge_index_of(np.asarray(stored.indices), np.asarray(stored.indptr))
        data = Data(edge_index=edge_index, n_id=torch.arange(n), num_nodes=n)
        self._loader = (_clusters if setting.form == CLUSTERS else _saint)(data, workload)
        self._subgraphs = Subgraphs(stored, len(workload.fan_out))

    def batches(self, epoch: int) -> Iterator[Any]:
        return iter(self._loader)

    def fault(self) -> str | None:
        stored = self._stored
        return first_fault(self._loader, lambda n, u, v: fault_of_induced(n, u, v, stored.indptr, stored.indices))

    def load(self, batch: Any) -> Loaded:
        return self._subgraphs.loaded(
            batch.n_id, batch.edge_index.shape[1], lambda x, targets: (x, batch.edge_index, None, targets)
        )


def _saint(data: Data, workload: Workload) -> Any:
    walks = roots(data.num_nodes, workload.sets)
    return GraphSAINTRandomWalkSampler(data, batch_size=walks, walk_length=WALK, num_steps=workload.sets, log=False)


class _GivenClusters(ClusterData):
    """Clusters that are given, in place of METIS's, for which PyG wants pyg-lib, or torch-sparse built with it.

    It overrides a private method of PyG 2.8.1.
    """

    def __init__(self, data: Data, clusters: Tensor, number: int) -> None:
        self._given = clusters
        super().__init__(data, number, log=False)

    def _metis(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        return self._given


def _clusters(data: Data, workload: Workload) -> Any:
    parts, number = clusters_of(Path(workload.layout))
    clusters = _GivenClusters(data, torch.from_numpy(parts), number)
    return ClusterLoader(clusters, batch_size=-(-number // workload.sets), shuffle=True)


def make(workload: Workload, setting: Setting, rank: int) -> PyGTraining:
    """One trainer's side; neighbours where the form is one of PyG's NeighborLoader."""
    subgraphs = workload.sets > 0
    return (OnSubgraphs if subgraphs else OnNeighbours)(workload, setting, rank)
