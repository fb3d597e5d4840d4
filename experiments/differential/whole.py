"""The library's own process on the whole graph: one step, and the logits of all vertices after it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from experiments.differential.draw import CLASSES, FEATURES, Drawn
from gsplit.data import GraphArrays, Layout, open_layout, write_store
from gsplit.partition import PartitionConfig, partition

VERTICES, MEAN_DEGREE = 90, 5
LEARNING_RATE = 0.1


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a training step gives."""

    gradients: dict[str, Tensor]
    """By name of parameter, before the step."""
    state: dict[str, Tensor]
    """Parameters and buffers, after it."""
    logits: Tensor
    """[N, C] of all vertices, by global id, after it."""


def make_graph(drawn: Drawn) -> GraphArrays:
    """A random graph with what was drawn: few vertices, lists of every length, some edges twice, a loop at most."""
    random = np.random.default_rng(int(drawn.weighted) + 2 * int(drawn.loops) + 4 * int(drawn.isolated))
    n = VERTICES
    degrees = np.minimum(1 + random.pareto(1.5, n) * MEAN_DEGREE / 2, n // 3).astype(np.int64)
    if drawn.isolated:
        degrees[random.random(n) < 0.1] = 0
    lists = []
    for v, degree in enumerate(degrees):
        others = random.integers(0, n - 1, degree)
        others += others >= v
        if drawn.loops and degree and random.random() < 0.5:
            others[random.integers(degree)] = v
        lists.append(others)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    return GraphArrays(
        indptr=indptr,
        indices=np.concatenate(lists).astype(np.int32),
        features=random.standard_normal((n, FEATURES)).astype(np.float32),
        labels=random.integers(0, CLASSES, n),
        edge_weight=random.uniform(0.2, 2, indptr[-1]).astype(np.float32) if drawn.weighted else None,
        train_idx=np.arange(n),
        valid_idx=np.empty(0, np.int64),
        test_idx=np.empty(0, np.int64),
        num_classes=CLASSES,
    )


def targets_of(drawn: Drawn) -> NDArray[np.int64]:
    """Global ids of the targets."""
    random = np.random.default_rng([drawn.seed, drawn.number])
    count = {"all": VERTICES, "half": VERTICES // 2, "few": 2}[drawn.targets]
    return np.sort(random.permutation(VERTICES)[:count])


def layout_of(drawn: Drawn, parts: int, folder: Path) -> Layout:
    """The layout of the graph in so many parts, made once in ``folder``."""
    name = f"{drawn.weighted:d}{drawn.loops:d}{drawn.isolated:d}"
    store, layout = folder / f"store-{name}", folder / f"layout-{name}-{parts}"
    if not store.exists():
        write_store(store, make_graph(drawn), name=name, source="experiments.differential")
    if not layout.exists():
        partition(PartitionConfig(store=store, out=layout, parts=parts, method="random"))
    return open_layout(layout)


def step_on_whole(drawn: Drawn, model: nn.Module, dtype: torch.dtype) -> Step:
    """The step of one process that calls the model as its library does.

    Args:
        drawn: says how the model is called, and on which graph.
        model: stays as it is.
        dtype: to compute in.
    """
    model = copy.deepcopy(model).to(dtype).train()
    graph = make_graph(drawn)
    arguments = whole_arguments(drawn, graph, dtype)
    targets = torch.from_numpy(targets_of(drawn))
    labels = torch.from_numpy(graph.labels)[targets]
    F.cross_entropy(model(**arguments)[targets], labels).backward()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in trained.items()}
    torch.optim.SGD(model.parameters(), LEARNING_RATE).step()
    model.eval()
    with torch.no_grad():
        logits = model(**arguments)
    return Step(gradients=gradients, state=model.state_dict(), logits=logits)


def whole_arguments(drawn: Drawn, graph: GraphArrays, dtype: torch.dtype) -> dict[str, Any]:
    """What forward gets for the whole graph, by name."""
    n = graph.num_vertices
    destinations = torch.from_numpy(np.repeat(np.arange(n), np.diff(graph.indptr)))
    edge_index = torch.stack([torch.from_numpy(graph.indices.astype(np.int64)), destinations])
    weight = None if graph.edge_weight is None else torch.from_numpy(graph.edge_weight).to(dtype)
    assert graph.features is not None
    x = torch.from_numpy(graph.features).to(dtype)
    if "block" in drawn.form or drawn.form.startswith("g,"):
        import dgl

        source, destination = edge_index
        if drawn.form.startswith("g,"):
            return {"g": dgl.graph((source, destination), num_nodes=n), "in_feat": x}
        block = dgl.create_block((source, destination), num_src_nodes=n, num_dst_nodes=n)
        if weight is not None:
            block.edata["weight"] = weight
        return {"blocks": [block] * drawn.layers, "x": x}
    if drawn.form == "data":
        from torch_geometric.data import Data

        return {"data": Data(x=x, edge_index=edge_index, edge_weight=weight)}
    if drawn.form == "x, adjs":
        return {"x": x, "adjs": [(edge_index, None, (n, n))] * drawn.layers}
    if drawn.form == "x, adj_t":
        values = torch.ones(edge_index.shape[1], dtype=dtype) if weight is None else weight
        indptr = torch.from_numpy(graph.indptr)
        return {"x": x, "adj_t": torch.sparse_csr_tensor(indptr, edge_index[0], values, (n, n))}
    arguments: dict[str, Any] = {"x": x, "edge_index": edge_index}
    if "edge_weight" in drawn.form:
        arguments["edge_weight"] = weight
    if "edge_attr" in drawn.form:
        assert weight is not None
        arguments["edge_attr"] = weight.unsqueeze(1)
    return arguments
