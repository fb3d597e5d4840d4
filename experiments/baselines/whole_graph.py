"""PyG and DGL on the whole graph, one process on the CPU: an epoch is one step on all vertices.

    python -m experiments.baselines.whole_graph FOLDER

reads ``FOLDER/task.json`` and writes ``FOLDER/epochs.json``. Each library is given what it computes once: PyG's GCN
keeps its normalised edges (``cached``), DGL's graph has its loops added before the first epoch. The initial weights
are those of ``gsplit train`` with the same seed, so losses can be compared epoch by epoch.

:class:`WholeGraph` is the same model for the loop of :mod:`experiments.baselines.data_parallel`, with dropout, weight
decay and accuracies.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.baselines.data_parallel import Loaded
from experiments.baselines.stored import StoredGraph
from experiments.baselines.workload import Setting, Workload
from gsplit import nn as ours
from gsplit.sampling.plan import fold_key
from gsplit.train.trainer import INITIAL_WEIGHTS

FORMS = ("pyg-edge-index", "pyg-csr", "dgl")


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained, the same for all systems."""

    store: str
    """Folder of the graph store, of a graph without edge weights."""
    model: str
    """``gcn`` or ``sage``."""
    hidden: int
    layers: int
    epochs: int
    lr: float
    seed: int
    form: str = ""
    """One of ``FORMS``; nothing for ours."""
    dropout: float = 0.0
    input_dropout: float = 0.0

    @classmethod
    def read(cls, folder: Path) -> Task:
        return cls(**json.loads((folder / "task.json").read_text()))

    def write(self, folder: Path) -> None:
        (folder / "task.json").write_text(json.dumps(asdict(self), indent=1) + "\n")


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """What the epochs of a run took, and the loss of each before its step."""

    seconds: list[float]
    losses: list[float]

    @classmethod
    def read(cls, folder: Path) -> Epochs:
        return cls(**json.loads((folder / "epochs.json").read_text()))

    def write(self, folder: Path) -> None:
        (folder / "epochs.json").write_text(json.dumps(asdict(self), indent=1) + "\n")


def initial_convs(task: Task, inputs: int, outputs: int) -> list[nn.Module]:
    """The convolutions of ``gsplit train`` with the weights that it begins with."""
    torch.manual_seed(fold_key(task.seed, INITIAL_WEIGHTS) >> 1)
    made = {"gcn": ours.GCN, "sage": ours.SAGE}[task.model]
    return list(made(inputs, task.hidden, outputs, num_layers=task.layers).convs)


class Net(nn.Module):
    """Convolutions with ReLU and dropout between them, each called with the graph as its library has it."""

    def __init__(self, convs: list[nn.Module], call: Callable[[nn.Module, Tensor], Tensor], task: Task) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.input_dropout, self.dropout = nn.Dropout(task.input_dropout), nn.Dropout(task.dropout)
        self._call = call

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Logits of all vertices, or of those that are ``targets``."""
        x = self.input_dropout(x)
        for layer, conv in enumerate(self.convs):
            x = self._call(conv, x if layer == 0 else self.dropout(F.relu(x)))
        return x if targets is None else x[targets]


@torch.no_grad()
def pyg_conv(own: Any, *, cached: bool = True) -> nn.Module:
    """PyG's convolution with the weights of ours; ``cached`` for GCN on a graph that stays the same."""
    from torch_geometric.nn import GCNConv, SAGEConv

    conv: Any
    if isinstance(own, ours.GCNConv):
        conv = GCNConv(own.lin.in_features, own.lin.out_features, cached=cached)
        conv.lin.weight.copy_(own.lin.weight)
        conv.bias.copy_(own.bias)
    else:
        conv = SAGEConv(own.lin_self.in_features, own.lin_self.out_features)
        conv.lin_l.weight.copy_(own.lin_neigh.weight)
        conv.lin_l.bias.copy_(own.lin_self.bias)
        conv.lin_r.weight.copy_(own.lin_self.weight)
    return conv


@torch.no_grad()
def dgl_conv(own: Any) -> nn.Module:
    """DGL's convolution with the weights of ours; of GCN for a graph that has its loops."""
    from dgl.nn import GraphConv, SAGEConv

    conv: Any
    if isinstance(own, ours.GCNConv):
        conv = GraphConv(own.lin.in_features, own.lin.out_features)
        conv.weight.copy_(own.lin.weight.T)
        conv.bias.copy_(own.bias)
    else:
        conv = SAGEConv(own.lin_self.in_features, own.lin_self.out_features, "mean")
        conv.fc_neigh.weight.copy_(own.lin_neigh.weight)
        conv.fc_self.weight.copy_(own.lin_self.weight)
        conv.fc_self.bias.copy_(own.lin_self.bias)
    return conv


def net_of(task: Task, stored: StoredGraph) -> Net:
    """The model of a library on the whole graph."""
    convs = initial_convs(task, stored.num_features, stored.num_classes)
    n = len(stored.indptr) - 1
    if task.form == "pyg-csr":
        indptr, indices = (torch.from_numpy(np.array(a, np.int64)) for a in (stored.indptr, stored.indices))
        adjacency = torch.sparse_csr_tensor(indptr, indices, torch.ones(len(indices)), size=(n, n))
        return Net([pyg_conv(conv) for conv in convs], lambda conv, x: conv(x, adjacency), task)
    sources = torch.from_numpy(np.array(stored.indices, np.int64))
    to = torch.from_numpy(np.repeat(np.arange(n), np.diff(stored.indptr)))
    if task.form == "pyg-edge-index":
        edge_index = torch.stack([sources, to])
        return Net([pyg_conv(conv) for conv in convs], lambda conv, x: conv(x, edge_index), task)
    import dgl

    graph = dgl.graph((sources, to), num_nodes=n)
    if task.model == "gcn":
        graph = dgl.add_self_loop(graph)
    graph = graph.int()
    graph.create_formats_()
    return Net([dgl_conv(conv) for conv in convs], lambda conv, x: conv(graph, x), task)


class WholeGraph:
    """See :class:`experiments.baselines.data_parallel.Baseline`: an epoch has one mini-batch, of all vertices."""

    ahead = outside = False

    def __init__(self, workload: Workload, setting: Setting) -> None:
        self._stored = stored = StoredGraph(Path(workload.store), normalized=workload.normalize_features)
        task = Task(
            store=workload.store,
            model=workload.model,
            hidden=workload.hidden,
            layers=len(workload.fan_out),
            epochs=workload.epochs,
            lr=workload.lr,
            seed=workload.seed,
            form=setting.form,
            dropout=workload.dropout,
            input_dropout=workload.input_dropout,
        )
        self._layers = task.layers
        self.model: nn.Module = net_of(task, stored)
        self._x, self._targets = stored.all_rows(), stored.vertices("train")

    def fault(self) -> str | None:
        return None

    def batches(self, epoch: int) -> Iterator[Tensor]:
        yield self._targets

    def load(self, batch: Tensor) -> Loaded:
        stored = self._stored
        return Loaded(
            arguments=(self._x, batch),
            labels=stored.labels[batch],
            edges=self._layers * len(stored.indices),
            input_rows=len(self._x),
            input_bytes=stored.row_bytes * len(self._x),
        )

    def logits(self) -> Tensor:
        logits: Tensor = self.model(self._x)
        return logits

    def vertex_sets(self) -> dict[str, tuple[Tensor, Tensor]]:
        return self._stored.evaluated()


def make(workload: Workload, setting: Setting, rank: int) -> WholeGraph:
    """The one trainer's side."""
    return WholeGraph(workload, setting)


def train(task: Task) -> Epochs:
    """Train by Adam, a step an epoch."""
    stored = StoredGraph(Path(task.store))
    net, x, train_vertices = net_of(task, stored), stored.all_rows(), stored.vertices("train")
    labels = stored.labels[train_vertices]
    optimizer = torch.optim.Adam(net.parameters(), lr=task.lr)
    seconds, losses = [], []
    for _ in range(task.epochs):
        start_s = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x)[train_vertices], labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start_s)
    return Epochs(seconds=seconds, losses=losses)


def main(folder: Path) -> None:
    train(Task.read(folder)).write(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
