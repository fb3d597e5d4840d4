"""DGL 1.1.3 as its example of multi-GPU node classification has it, on the CPU, one trainer's side.

NeighborSampler and DataLoader with ``use_ddp``, the convolutions of ``dgl.nn``, the blocks of the loader, which are
checked on demand (:mod:`experiments.baselines.dgl_sampling`). All trainers map one copy of the graph and of the
features. The models are those that ``gsplit train`` has: no edges from a vertex to itself, ReLU (ELU in ``gat``) and
dropout between layers, and initial weights by the same rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
import torch.nn.functional as F
from dgl.nn.pytorch import GATConv, GraphConv, SAGEConv
from torch import Tensor, nn

from experiments.baselines.data_parallel import Loaded, worker_processes
from experiments.baselines.dgl_sampling import FORMS, drawn, fault_of
from experiments.baselines.stored import StoredGraph, arrays_of_bits
from experiments.baselines.workload import Setting, Workload

CHECKED = 4
"""Mini-batches that are looked at: the corrupt form draws a good one first."""


class Net(nn.Module):
    """Layers of one convolution, with activation and dropout between them."""

    def __init__(self, convs: list[nn.Module], *, elu: bool, dropout: float, input_dropout: float) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.activation = F.elu if elu else F.relu
        self.input_dropout, self.dropout = nn.Dropout(input_dropout), nn.Dropout(dropout)

    def forward(self, blocks: list[Any], x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Logits of the last block's destinations, or of those rows of them that are ``targets``."""
        x = self.input_dropout(x)
        last = len(self.convs) - 1
        for layer, (conv, block) in enumerate(zip(self.convs, blocks, strict=True)):
            x = conv(block, x)
            if x.dim() == 3:  # heads: concatenated, and averaged at last
                x = x.flatten(1) if layer < last else x.mean(1)
            if layer < last:
                x = self.dropout(self.activation(x))
        return x if targets is None else x[targets]


def net(workload: Workload, num_features: int, num_classes: int) -> Net:
    """The model with initial weights by the rules of ``gsplit.nn``."""
    layers = len(workload.fan_out)
    outputs = [*[workload.hidden] * (layers - 1), num_classes]
    convs: list[nn.Module] = []
    for layer, (width_in, width_out) in enumerate(zip([num_features, *outputs[:-1]], outputs, strict=True)):
        heads = workload.heads if layer < layers - 1 else 1
        if workload.model == "sage":
            sage = SAGEConv(width_in, width_out, "mean")
            sage.fc_self.reset_parameters()
            sage.fc_neigh.reset_parameters()
            convs.append(sage)
        elif workload.model == "gat":
            conv = GATConv(width_in, width_out // heads, heads, allow_zero_in_degree=True)
            for weight in (conv.fc.weight.data, conv.attn_l.data[0], conv.attn_r.data[0]):
                nn.init.xavier_uniform_(weight)
            convs.append(conv)
        else:  # the mean of the in-neighbours, projected
            convs.append(GraphConv(width_in, width_out, norm="right", allow_zero_in_degree=True))
    return Net(convs, elu=workload.model == "gat", dropout=workload.dropout, input_dropout=workload.input_dropout)


class DGLTraining:
    """See :class:`experiments.baselines.data_parallel.Baseline`."""

    outside = False

    def __init__(self, workload: Workload, setting: Setting, rank: int) -> None:
        warnings.filterwarnings("ignore", message=".*CPU affinity.*")  # two cores leave none for loaders alone
        self._workload = workload
        form = next(form for form in FORMS if form.name == setting.form)
        self.ahead = setting.workers > 0
        self._stored = StoredGraph(Path(workload.store), mixed=workload.mixed, normalized=workload.normalize_features)
        indptr, indices = arrays_of_bits(Path(workload.store), form.bits)
        dtype = torch.int32 if form.bits == 32 else torch.int64
        arrays = (torch.from_numpy(indptr), torch.from_numpy(indices), torch.empty(0, dtype=dtype))
        # In CSC alone: DataLoader would make the other formats for its workers, which need none.
        self._graph = dgl.graph(("csc", arrays), num_nodes=len(indptr) - 1).formats(["csc"])
        dgl.seed(workload.seed * 1000 + rank)
        self._sampler = dgl.dataloading.NeighborSampler(list(reversed(workload.fan_out)), fused=form.fused)
        self._loader = dgl.dataloading.DataLoader(
            self._graph,
            self._stored.vertices("train").to(dtype),
            self._sampler,
            device="cpu",
            batch_size=workload.share,
            shuffle=True,
            drop_last=False,
            use_ddp=torch.distributed.is_initialized(),
            ddp_seed=workload.seed,
            **worker_processes(setting.workers),
        )
        self.model: nn.Module = net(workload, self._stored.num_features, self._stored.num_classes)

    def fault(self) -> str | None:
        indptr, indices = self._stored.indptr, self._stored.indices
        known = np.zeros(len(indptr) - 1, bool)
        known[self._stored.vertices("train").numpy()] = True
        for number, (_, targets, blocks) in enumerate(islice(self._loader, CHECKED)):
            targets_n = targets.numpy()
            if not known[targets_n].all():
                return f"mini-batch {number}: a target is no training vertex"
            blocks_drawn = [drawn(block) for block in blocks]
            fault = fault_of(blocks_drawn, targets_n, indptr, indices, self._workload.fan_out)
            if fault:
                return f"mini-batch {number}: {fault}"
        return None

    def batches(self, epoch: int) -> Iterator[Any]:
        return iter(self._loader)

    def load(self, batch: Any) -> Loaded:
        inputs, targets, blocks = batch
        x = self._stored.rows(inputs)
        return Loaded(
            arguments=(blocks, x),
            labels=self._stored.labels[targets.long()],
            edges=sum(block.num_edges() for block in blocks),
            input_rows=len(inputs),
            input_bytes=self._stored.row_bytes * len(inputs),
        )

    def sampled_logits(self, name: str) -> Tensor:
        """Logits of the vertices of a set, by drawn neighbours."""
        vertices = self._stored.vertices(name).to(self._graph.idtype)
        size = self._workload.batch_size
        loader = dgl.dataloading.DataLoader(self._graph, vertices, self._sampler, device="cpu", batch_size=size)
        return torch.cat([self.model(*self.load(batch).arguments) for batch in loader])

    def logits(self) -> Tensor:
        graph = self._graph.formats(["csc", "coo"])  # attention wants both
        return self.model([graph] * len(self._workload.fan_out), self._stored.all_rows())

    def vertex_sets(self) -> dict[str, tuple[Tensor, Tensor]]:
        return self._stored.evaluated()


def make(workload: Workload, setting: Setting, rank: int) -> DGLTraining:
    """One trainer's side."""
    return DGLTraining(workload, setting, rank)
