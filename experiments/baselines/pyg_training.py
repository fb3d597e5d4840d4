"""PyG as its example of distributed sampling has it, on the CPU, one trainer's side.

There are two forms. *NeighborLoader* is PyG's own loader: every layer computes the whole sampled subgraph, as in its
example; *NeighborLoader, trimmed* drops what a layer does not need (``trim_to_layer``), which only pyg-lib makes
possible. Without pyg-lib and torch-sparse the loader cannot sample. The form *given blocks* then takes PyG's
convolutions and its step on blocks that our sampler drew, and the time to draw them is no part of the epoch; with
*blocks drawn in the epoch* it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GATConv, SAGEConv
from torch_geometric.utils import trim_to_layer

from experiments.baselines.data_parallel import Loaded, worker_processes
from experiments.baselines.dgl_sampling import DrawnBlock, fault_of
from experiments.baselines.pyg_forms import DRAWN, GIVEN, TRIMMED
from experiments.baselines.stored import StoredGraph
from experiments.baselines.workload import Setting, Workload
from gsplit.sampling import EpochPlan, MiniBatchSampler, Segment

CHECKED = 2
EDGES_AT_ONCE = 1 << 20
"""Edges of full neighbourhoods that are computed together: PyG makes a row for each."""

GivenBlocks = tuple[Tensor, int, list[tuple[Tensor, int]]]
"""Vertices of the inputs, how many of them are targets, and each layer's edge_index and number of destinations."""


class Net(nn.Module):
    """Layers of one convolution, with activation and dropout between them."""

    def __init__(self, workload: Workload, num_features: int, num_classes: int) -> None:
        super().__init__()
        layers = len(workload.fan_out)
        outputs = [*[workload.hidden] * (layers - 1), num_classes]
        self.convs = nn.ModuleList()
        for layer, (width_in, width_out) in enumerate(zip([num_features, *outputs[:-1]], outputs, strict=True)):
            heads = workload.heads if layer < layers - 1 else 1
            if workload.model == "gat":
                self.convs.append(GATConv(width_in, width_out // heads, heads, add_self_loops=False))
            else:  # of gcn the mean of the in-neighbours, projected
                self.convs.append(SAGEConv(width_in, width_out, root_weight=workload.model == "sage"))
        self.activation = F.elu if workload.model == "gat" else F.relu
        self.input_dropout, self.dropout = nn.Dropout(workload.input_dropout), nn.Dropout(workload.dropout)

    def after(self, layer: int, x: Tensor) -> Tensor:
        """What follows the convolution of a layer, from 0 on."""
        return x if layer == len(self.convs) - 1 else self.dropout(self.activation(x))

    def forward(
        self, x: Tensor, edges: Tensor | list[tuple[Tensor, int]], sampled: Any = None, targets: Tensor | None = None
    ) -> Tensor:
        """Logits, those of the targets first.

        Args:
            x: [inputs, D]
            edges: [2, E] of a subgraph, or for each layer the [2, e] of its block and its number of destinations.
            sampled: numbers of vertices and edges by hop, for trimming a subgraph.
            targets: int64 rows of a subgraph whose logits are wanted, where these are not the first.
        """
        x = self.input_dropout(x)
        for layer, conv in enumerate(self.convs):
            if isinstance(edges, list):
                edge_index, destinations = edges[layer]
                x = conv((x, x[:destinations]), edge_index)
            else:
                if sampled is not None:
                    x, edges, _ = trim_to_layer(layer, *sampled, x, edges)
                x = conv(x, edges)
            x = self.after(layer, x)
        return x if targets is None else x[targets]


class PyGTraining:
    """What both forms share; see :class:`experiments.baselines.data_parallel.Baseline`."""

    ahead = outside = False

    def __init__(self, workload: Workload, rank: int) -> None:
        self._workload = workload
        self._stored = stored = StoredGraph(
            Path(workload.store), mixed=workload.mixed, normalized=workload.normalize_features
        )
        train = stored.vertices("train")
        # As in the example, which leaves out what does not divide.
        self._own = train.split(len(train) // workload.trainers)[rank]
        self._net = Net(workload, stored.num_features, stored.num_classes)
        self.model: nn.Module = self._net

    def logits(self) -> Tensor:
        x = self._stored.all_rows()
        for layer, conv in enumerate(self._net.convs):
            x = self._net.after(layer, torch.cat([conv((x[s], x[d]), e) for s, d, e in self._full_blocks()]))
        return x

    def _full_blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """(sources, destinations, edge_index) of all in-edges, some destinations at a time."""
        indptr, indices = self._stored.indptr, self._stored.indices
        begin, n = 0, len(indptr) - 1
        while begin < n:
            end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + EDGES_AT_ONCE, side="right")) - 1)
            sources, rows = np.unique(indices[indptr[begin] : indptr[end]], return_inverse=True)
            edge_index = edge_index_of(rows, np.asarray(indptr[begin : end + 1]) - indptr[begin])
            yield torch.from_numpy(sources.astype(np.int64)), torch.arange(begin, end), edge_index
            begin = end

    def vertex_sets(self) -> dict[str, tuple[Tensor, Tensor]]:
        return self._stored.evaluated()

    def _loaded(self, vertices: Tensor, num_targets: int, edges: int, *arguments: Any) -> Loaded:
        x = self._stored.rows(vertices)
        return Loaded(
            arguments=(x, *arguments),
            labels=self._stored.labels[vertices[:num_targets]],
            edges=edges,
            input_rows=len(vertices),
            input_bytes=self._stored.row_bytes * len(vertices),
        )


class OnGivenBlocks(PyGTraining):
    """PyG's step on blocks that our sampler drew: the mini-batches of our own ``--strategy data``, edge by edge."""

    def __init__(self, workload: Workload, setting: Setting, rank: int) -> None:
        super().__init__(workload, rank)
        self.outside = setting.form == GIVEN
        stored, n = self._stored, len(self._stored.indptr) - 1
        self._rank = rank
        self._plan = EpochPlan(
            stored.vertices("train").numpy(),
            np.arange(n),
            workload.batch_size,
            workload.seed,
            micro_batches=workload.trainers,
        )
        self._sampler = MiniBatchSampler(
            stored.indptr, stored.indices, [0, n], fan_outs=workload.fan_out, seed=workload.seed, edge_ids=True
        )

    def batches(self, epoch: int) -> Iterator[GivenBlocks]:
        for segment in self._segments(epoch):
            edges = [
                (edge_index_of(segment.indices(layer), segment.indptr(layer)), segment.layers[layer].num_destinations)
                for layer in sorted(segment.layers)
            ]
            yield torch.from_numpy(segment.vertices), len(segment.targets), edges

    def _segments(self, epoch: int) -> Iterator[Segment]:
        for batch in range(self._plan.num_batches):
            shares = self._plan.micro_batches(epoch, batch)
            if not all(map(len, shares)):
                return  # the last targets of the epoch, fewer than trainers
            self._sampler.sample(shares[self._rank], epoch=epoch, batch=batch, micro=self._rank)
            yield self._sampler.segment(0)

    def fault(self) -> str | None:
        for segment in islice(self._segments(0), CHECKED):
            blocks = [_drawn(segment, layer) for layer in sorted(segment.layers)]
            stored = self._stored
            fault = fault_of(blocks, segment.targets, stored.indptr, stored.indices, self._workload.fan_out)
            if fault:
                return fault
        return None

    def load(self, batch: GivenBlocks) -> Loaded:
        vertices, num_targets, edges = batch
        num_edges = sum(edge_index.shape[1] for edge_index, _ in edges)
        return self._loaded(vertices, num_targets, num_edges, edges)


def first_fault(loader: Iterable[Any], fault_of: Callable[..., str | None]) -> str | None:
    """What is wrong with one of the first mini-batches of a loader; None: nothing.

    Args:
        loader: of PyG's.
        fault_of: is given the ids of the vertices n, and of the edges' sources u and destinations v.
    """
    for batch in islice(loader, CHECKED):
        vertices = batch.n_id.numpy()
        if fault := fault_of(vertices, *(vertices[rows.numpy()] for rows in batch.edge_index)):
            return fault
    return None


class WithLoader(PyGTraining):
    """PyG's own NeighborLoader."""

    def __init__(self, workload: Workload, setting: Setting, rank: int) -> None:
        super().__init__(workload, rank)
        self.ahead = setting.workers > 0
        self._trim = setting.form == TRIMMED
        stored = self._stored
        edge_index = edge_index_of(np.asarray(stored.indices), np.asarray(stored.indptr))
        self._loader = NeighborLoader(
            Data(edge_index=edge_index, num_nodes=len(stored.indptr) - 1),
            list(workload.fan_out),
            self._own,
            is_sorted=True,
            batch_size=workload.share,
            shuffle=True,
            persistent_workers=setting.workers > 0,
            **worker_processes(setting.workers),
        )

    def batches(self, epoch: int) -> Iterator[Any]:
        return iter(self._loader)

    def fault(self) -> str | None:
        stored, fan_out = self._stored, self._workload.fan_out
        return first_fault(
            self._loader, lambda n, u, v: fault_of_subgraph(n, u, v, stored.indptr, stored.indices, fan_out)
        )

    def load(self, batch: Any) -> Loaded:
        layers, num_edges = len(self._workload.fan_out), batch.edge_index.shape[1]
        if self._trim:
            sampled = (batch.num_sampled_nodes, batch.num_sampled_edges)
            edges = sum(num_edges - sum(sampled[1][layers - layer :]) for layer in range(layers))
            return self._loaded(batch.n_id, batch.batch_size, edges, batch.edge_index, sampled)
        return self._loaded(batch.n_id, batch.batch_size, layers * num_edges, batch.edge_index)


def fault_of_subgraph(
    vertices: NDArray[np.int64],
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    fan_out: tuple[int, ...],
) -> str | None:
    """What makes a subgraph no sample, in a few words; None for a good one.

    Args:
        vertices: [n] vertices of the subgraph.
        sources, destinations: [e] vertices of its edges.
        indptr, indices: of the graph, in-neighbours.
        fan_out: by hop; a vertex is expanded at one hop alone.
    """
    if len(np.unique(vertices)) != len(vertices):
        return "a vertex is twice in the subgraph"
    pairs = np.stack([destinations, sources], axis=1)
    pairs, times = np.unique(pairs, axis=0, return_counts=True)
    expanded = np.unique(destinations)
    n = len(indptr) - 1
    whole = np.concatenate([indices[indptr[v] : indptr[v + 1]].astype(np.int64) + v * n for v in expanded.tolist()])
    known, copies = np.unique(whole, return_counts=True)
    at = np.minimum(np.searchsorted(known, pairs[:, 0] * n + pairs[:, 1]), len(known) - 1)
    if (known[at] != pairs[:, 0] * n + pairs[:, 1]).any():
        return "an edge of the subgraph is no edge of the graph"
    if (times > copies[at]).any():
        return "a neighbour was drawn twice"
    if -1 not in fan_out and np.bincount(destinations, minlength=1).max() > max(fan_out):
        return f"a vertex has more than {max(fan_out)} neighbours"
    return None


def edge_index_of(indices: NDArray[Any], indptr: NDArray[Any]) -> Tensor:
    """int64 [2, E] sources and destinations for in-neighbours in CSC."""
    degrees = torch.from_numpy(np.diff(indptr).astype(np.int64))
    destinations = torch.repeat_interleave(torch.arange(len(degrees)), degrees)
    return torch.stack([torch.from_numpy(indices.astype(np.int64)), destinations])


def _drawn(segment: Segment, layer: int) -> DrawnBlock:
    edge_ids = segment.edge_ids(layer)
    assert edge_ids is not None
    indptr, header = segment.indptr(layer), segment.layers[layer]
    return DrawnBlock(
        sources=segment.vertices[: header.num_own_sources],
        destinations=segment.vertices[: header.num_destinations],
        edge_sources=segment.indices(layer),
        edge_destinations=np.repeat(np.arange(header.num_destinations), np.diff(indptr)),
        edge_ids=edge_ids,
    )


def make(workload: Workload, setting: Setting, rank: int) -> PyGTraining:
    """One trainer's side."""
    given = setting.form in (GIVEN, DRAWN)
    return (OnGivenBlocks if given else WithLoader)(workload, setting, rank)
