"""DGL 1.1.3 as its examples of link prediction have it, on the CPU: one process, whose threads compute together.

    python -m experiments.links.dgl_links STORE --fan-out 15,10 --batch-size 1024 --batches 40 --epochs 2 ...

Each mini-batch is of edges of the graph, without them and their reverses, and has K random destinations for each. It
prints a JSON object: seconds of each epoch of so many mini-batches, and the mean losses.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader, NeighborSampler, as_edge_prediction_sampler, negative_sampler
from numpy.typing import NDArray
from torch import Tensor

from experiments.baselines.data_parallel import worker_processes
from experiments.baselines.dgl_training import net
from experiments.baselines.stored import StoredGraph
from experiments.baselines.workload import Workload


def reverse_edges(indptr: NDArray[Any], indices: NDArray[Any]) -> Tensor:
    """Number of the reverse edge of each, int64 [E]; its own where there is none."""
    n = len(indptr) - 1
    sources, destinations = np.asarray(indices, np.int64), np.repeat(np.arange(n), np.diff(indptr))
    keys = destinations * n + sources
    order = np.argsort(keys, kind="stable")
    wanted = sources * n + destinations
    at = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return torch.from_numpy(np.where(keys[at] == wanted, at, np.arange(len(keys))))


def loader_of(stored: StoredGraph, options: argparse.Namespace) -> DataLoader:
    """Mini-batches of all edges, shuffled."""
    indptr, indices = np.array(stored.indptr), np.array(stored.indices, np.int64)
    empty = torch.empty(0, dtype=torch.int64)
    graph = dgl.graph(("csc", (torch.from_numpy(indptr), torch.from_numpy(indices), empty)))
    graph.create_formats_()
    sampler = as_edge_prediction_sampler(
        NeighborSampler(list(reversed(options.fan_out))),
        exclude="reverse_id",
        reverse_eids=reverse_edges(indptr, indices),
        negative_sampler=negative_sampler.Uniform(options.candidates),
    )
    return DataLoader(
        graph,
        torch.arange(graph.num_edges()),
        sampler,
        batch_size=options.batch_size,
        shuffle=True,
        **worker_processes(options.workers),
    )


def losses(model: torch.nn.Module, stored: StoredGraph, batches: Iterator[Any]) -> Iterator[Tensor]:
    """The loss of each mini-batch, before its step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for inputs, positive, negative, blocks in batches:
        vectors = model(blocks, stored.rows(inputs))
        scores = [(vectors[each.edges()[0]] * vectors[each.edges()[1]]).sum(1) for each in (positive, negative)]
        truth = torch.cat([torch.ones(len(scores[0])), torch.zeros(len(scores[1]))])
        loss = F.binary_cross_entropy_with_logits(torch.cat(scores), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def workload_of(options: argparse.Namespace) -> Workload:
    """What the model is made by."""
    return Workload(
        store=str(options.store),
        model="sage",
        hidden=options.hidden,
        heads=1,
        fan_out=options.fan_out,
        batch_size=options.batch_size,
        epochs=options.epochs,
        trainers=1,
        threads=options.threads,
        lr=0.001,
        dropout=0.0,
        seed=0,
    )


def main() -> None:
    """Train, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--fan-out", type=lambda text: tuple(map(int, text.split(","))), required=True)
    for name in ("batch-size", "batches", "epochs", "hidden", "candidates", "threads", "workers"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*CPU affinity.*")
    torch.set_num_threads(options.threads)
    stored = StoredGraph(options.store)
    model = net(workload_of(options), stored.num_features, options.hidden)
    trained = losses(model, stored, iter(loader_of(stored, options)))
    seconds, means = [], []
    for _ in range(options.epochs):
        start_s = time.perf_counter()
        means.append(float(torch.stack([next(trained) for _ in range(options.batches)]).mean()))
        seconds.append(time.perf_counter() - start_s)
    print(json.dumps({"seconds": seconds, "losses": means}))


if __name__ == "__main__":
    main()
