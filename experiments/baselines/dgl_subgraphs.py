"""DGL 1.1.3's SAINTSampler, by random walks, and its ClusterGCNSampler, on the CPU, one trainer's side."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from torch import Tensor, nn

from experiments.baselines.data_parallel import Loaded
from experiments.baselines.dgl_training import CHECKED, net
from experiments.baselines.stored import StoredGraph
from experiments.baselines.subgraphs import CLUSTERS, WALK, Subgraphs, clusters_of, fault_of_induced, roots
from experiments.baselines.workload import Setting, Workload


class OnSubgraphs:
    """See :class:`experiments.baselines.data_parallel.Baseline`."""

    ahead = outside = False

    def __init__(self, workload: Workload, setting: Setting) -> None:
        self._layers = len(workload.fan_out)
        self._stored = stored = StoredGraph(Path(workload.store), normalized=workload.normalize_features)
        arrays = [torch.from_numpy(np.array(array, np.int64)) for array in (stored.indptr, stored.indices)]
        n = len(stored.indptr) - 1
        self._graph = dgl.graph(("csc", (*arrays, torch.empty(0, dtype=torch.int64))), num_nodes=n)
        self._graph.create_formats_()
        dgl.seed(workload.seed)
        sampler: Any
        if setting.form == CLUSTERS:
            sampler, number = _clusters(self._graph, Path(workload.layout))
            batch_size = -(-number // workload.sets)
        else:
            sampler = dgl.dataloading.SAINTSampler("walk", (roots(n, workload.sets), WALK))
            number, batch_size = workload.sets, 1
        self._loader = dgl.dataloading.DataLoader(
            self._graph, torch.arange(number), sampler, device="cpu", batch_size=batch_size, shuffle=True
        )
        self._subgraphs = Subgraphs(stored, self._layers)
        self.model: nn.Module = net(workload, stored.num_features, stored.num_classes)

    def fault(self) -> str | None:
        for batch in islice(self._loader, CHECKED):
            vertices = batch.ndata[dgl.NID].numpy()
            sources, destinations = (vertices[rows.numpy()] for rows in batch.edges())
            fault = fault_of_induced(vertices, sources, destinations, self._stored.indptr, self._stored.indices)
            if fault:
                return fault
        return None

    def batches(self, epoch: int) -> Iterator[Any]:
        return iter(self._loader)

    def load(self, batch: Any) -> Loaded:
        return self._subgraphs.loaded(
            batch.ndata[dgl.NID], batch.num_edges(), lambda x, targets: ([batch] * self._layers, x, targets)
        )

    def logits(self) -> Tensor:
        logits: Tensor = self.model([self._graph] * self._layers, self._stored.all_rows())
        return logits

    def vertex_sets(self) -> dict[str, tuple[Tensor, Tensor]]:
        return self._stored.evaluated()


def _clusters(graph: Any, layout: Path) -> tuple[Any, int]:
    """A sampler of given clusters, which it reads as it keeps its own, and their number."""
    parts, number = clusters_of(layout)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=number))])
    kept = tuple(map(torch.from_numpy, (offsets, np.argsort(parts, kind="stable"))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clusters.pickle"
        path.write_bytes(pickle.dumps(kept))
        return dgl.dataloading.ClusterGCNSampler(graph, number, cache_path=str(path)), number


def make(workload: Workload, setting: Setting, rank: int) -> OnSubgraphs:
    """The one trainer's side."""
    return OnSubgraphs(workload, setting)
