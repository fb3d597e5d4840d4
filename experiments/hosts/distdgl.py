"""DistDGL 1.1.3 as its example of node classification on several hosts has it, on the CPU, one trainer's side.

    python -m experiments.hosts.distdgl STORE FILE.json PARTS

writes the parts of a graph store, one a host, beside the file, as the example's ``partition_graph.py`` does: METIS,
with training vertices and edges balanced. On each host a server holds one part, and trainers draw neighbours and
fetch feature rows from all servers. Its model has the initial weights of :mod:`experiments.baselines.dgl_training`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from torch import Tensor, nn

from experiments.baselines.data_parallel import Loaded
from experiments.baselines.dgl_training import net
from experiments.baselines.stored import StoredGraph
from experiments.baselines.workload import Setting, Workload
from gsplit.data import open_store


def write_parts(store: Path, file: Path, parts: int) -> None:
    """Partition the graph of a store; ``file``, with the parts beside it, has the name of the graph."""
    stored, graph = StoredGraph(store), open_store(store).graph
    arrays = (torch.from_numpy(np.array(each, np.int64)) for each in (graph.indptr, graph.indices))
    whole = dgl.graph(("csc", (*arrays, torch.empty(0, dtype=torch.int64))), num_nodes=graph.num_vertices)
    train = torch.zeros(graph.num_vertices, dtype=torch.bool)
    train[stored.vertices("train")] = True
    whole.ndata["feat"], whole.ndata["label"], whole.ndata["train"] = stored.all_rows(), stored.labels.clone(), train
    dgl.distributed.partition_graph(
        whole,
        file.stem,
        parts,
        str(file.parent),
        balance_ntypes=train.long(),
        balance_edges=True,
        graph_formats=["csc"],
    )


def connect() -> None:
    """Be the server of this host, which does not return, or find all servers, as the environment says."""
    dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"])


class DistDGLTraining:
    """See :class:`experiments.baselines.data_parallel.Baseline`; nothing is evaluated."""

    outside = False

    def __init__(self, workload: Workload, setting: Setting, rank: int) -> None:
        self._workload = workload
        self.ahead = setting.workers > 0
        file = os.environ["DGL_CONF_PATH"]
        self._graph = dgl.distributed.DistGraph(Path(file).stem, part_config=file)
        book = self._graph.get_partition_book()
        own = dgl.distributed.node_split(self._graph.ndata["train"], book, force_even=True)
        stored = StoredGraph(Path(workload.store))
        self._num_train, self._row_bytes = len(stored.vertices("train")), 4 * stored.num_features
        self._loader = dgl.dataloading.DistNodeDataLoader(
            self._graph,
            own[: self._num_train // workload.trainers],  # as many mini-batches for all
            dgl.dataloading.NeighborSampler(list(reversed(workload.fan_out))),
            batch_size=workload.share,
            shuffle=True,
            drop_last=False,
        )
        self.model: nn.Module = net(workload, stored.num_features, stored.num_classes)

    def fault(self) -> str | None:
        """What is wrong with the first mini-batch: it can be seen of numbers, as ids are those of the parts."""
        inputs, targets, blocks = next(iter(self._loader))
        if not self._graph.ndata["train"][targets].all():
            return "a target is no training vertex"
        for block, fan_out in zip(blocks, reversed(self._workload.fan_out), strict=True):
            wanted = self._graph.in_degrees(block.dstdata[dgl.NID])
            wanted = wanted if fan_out == -1 else wanted.clamp(max=fan_out)
            if not torch.equal(block.in_degrees().long(), wanted.long()):
                return f"a vertex has other than the least of {fan_out} and its degree of neighbours"
        return None if torch.equal(blocks[0].srcdata[dgl.NID], inputs) else "the inputs are others than of the block"

    def batches(self, epoch: int) -> Iterator[Any]:
        return iter(self._loader)

    def load(self, batch: Any) -> Loaded:
        inputs, targets, blocks = batch
        return Loaded(
            arguments=(blocks, self._graph.ndata["feat"][inputs]),
            labels=self._graph.ndata["label"][targets],
            edges=sum(block.num_edges() for block in blocks),
            input_rows=len(inputs),
            input_bytes=self._row_bytes * len(inputs),
        )

    def logits(self) -> Tensor:
        """Of no vertex: the whole graph is on no host."""
        return torch.empty(0, 1)

    def vertex_sets(self) -> dict[str, tuple[Tensor, Tensor]]:
        return {}


def make(workload: Workload, setting: Setting, rank: int) -> DistDGLTraining:
    """One trainer's side, of a process that is connected."""
    return DistDGLTraining(workload, setting, rank)


if __name__ == "__main__":
    write_parts(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
