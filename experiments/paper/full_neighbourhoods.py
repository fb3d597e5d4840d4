"""GCN and GAT over full neighbourhoods with 4 trainers, beside the same model in plain full-batch PyG.

    python -m experiments.paper.full_neighbourhoods --json full_neighbourhoods.json

Both sides: the recipes of the papers (Kipf and Welling 2017, Velickovic et al. 2018) but for early stopping, in place
of which the epoch that is best in validation is tested; Adam with the same weight decay for all parameters; features
divided by their row sums. PyG trains on the whole graph in this process, GSplit in mini-batches of all 140 or 120
training vertices. Wants torch_geometric (pip install gsplit[pyg]). ``--json`` writes a list: ``model``, ``dataset``,
``paper`` (its accuracy), and ``mean``, ``stdev`` and ``scores`` of each side, as ``gsplit_mean`` or ``pyg_mean``.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.shared.flags import Positive
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.config.train import TrainConfig
from gsplit.data import GraphArrays, open_store, write_store
from gsplit.data.importers.npz import load_npz
from gsplit.partition import PartitionConfig, partition
from gsplit.train.api import train
from tools import real_graphs

PROG = "python -m experiments.paper.full_neighbourhoods"

COMMON = TrainConfig(
    fan_out=(-1, -1),
    batch_size=1_000_000,
    epochs=200,
    weight_decay=5e-4,
    normalize_features=True,
    checkpoint_every=0,
    device="cpu",
)
CONFIGS = {
    "gcn": replace(COMMON, model="gcn", hidden=16, lr=0.01, dropout=0.5, input_dropout=0.5),
    "gat": replace(
        COMMON, model="gat", hidden=64, heads=8, lr=0.005, dropout=0.6, input_dropout=0.6, attention_dropout=0.6
    ),
}
PAPERS = {("gcn", "cora"): 0.815, ("gcn", "citeseer"): 0.703, ("gat", "cora"): 0.83, ("gat", "citeseer"): 0.725}


@dataclass(frozen=True, kw_only=True)
class NeighbourhoodsConfig(Checked):
    """GCN and GAT over full neighbourhoods with 4 trainers, beside the same model in full-batch PyG."""

    data: Path = field(default_factory=real_graphs.folder)
    """The folder of cora.npz and citeseer.npz."""
    trainers: Positive = 4
    """Parts of the graph."""
    seeds: Positive = 10
    """Runs of each kind."""
    json: Path | None = None
    """File to write the results to."""


class PyGNet(nn.Module):
    """The same two layers from PyG's convolutions."""

    def __init__(self, config: TrainConfig, graph: GraphArrays) -> None:
        from torch_geometric.nn import GATConv, GCNConv

        super().__init__()
        inputs, classes = graph.num_features, graph.num_classes
        self.config = config
        if config.model == "gcn":
            convs: list[nn.Module] = [GCNConv(inputs, config.hidden), GCNConv(config.hidden, classes)]
        else:
            drop = {"dropout": config.attention_dropout}
            convs = [
                GATConv(inputs, config.hidden // config.heads, heads=config.heads, **drop),
                GATConv(config.hidden, classes, heads=config.out_heads, concat=False, **drop),
            ]
        self.convs = nn.ModuleList(convs)
        self.activation = F.relu if config.model == "gcn" else F.elu

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, self.config.input_dropout, self.training)
        x = self.activation(self.convs[0](x, edge_index))
        return self.convs[1](F.dropout(x, self.config.dropout, self.training), edge_index)


def full_batch(graph: GraphArrays, config: TrainConfig, seed: int) -> float:
    """Test accuracy of PyG at the epoch that is best in validation."""
    torch.manual_seed(seed)
    assert graph.features is not None
    destinations = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    edge_index = torch.from_numpy(np.stack([graph.indices.astype(np.int64), destinations]))
    x = F.normalize(torch.from_numpy(np.array(graph.features, np.float32)), p=1, dim=1)
    y = torch.from_numpy(np.array(graph.labels))
    ids = {name: torch.from_numpy(np.array(graph.vertex_set(name))) for name in ("train", "valid", "test")}
    model = PyGNet(config, graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    best = (-1.0, 0.0)
    for _ in range(config.epochs):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x, edge_index)[ids["train"]], y[ids["train"]]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(x, edge_index).argmax(dim=1) == y).double()
        valid, test = (right[ids[name]].mean().item() for name in ("valid", "test"))
        best = max(best, (valid, test), key=lambda scores: scores[0])  # the first of equals, as in training
    return best[1]


def measure(dataset: str, config: NeighbourhoodsConfig, folder: Path) -> list[dict[str, Any]]:
    """A row for each model."""
    store, layout = folder / "store", folder / "layout"
    graph = load_npz(real_graphs.path(config.data, dataset))
    write_store(store, graph, name=dataset, source=dataset)
    partition(PartitionConfig(store=store, out=layout, parts=config.trainers))
    graph = open_store(store).graph
    rows = []
    for name, recipe in CONFIGS.items():
        ours, theirs = [], []
        for seed in range(config.seeds):
            run = replace(recipe, out=folder / f"{name}-{seed}", seed=seed)
            ours.append(train(layout, run)["test_accuracy"])
            theirs.append(full_batch(graph, recipe, seed))
        row: dict[str, Any] = {"model": name, "dataset": dataset, "paper": PAPERS[name, dataset]}
        for side, scores in (("gsplit", ours), ("pyg", theirs)):
            row |= {f"{side}_mean": mean(scores), f"{side}_stdev": stdev(scores) if len(scores) > 1 else 0.0}
            row[f"{side}_scores"] = scores
        rows.append(row)
        print(rows[-1], flush=True)
    return rows


def command(arguments: list[str]) -> None:
    config = cli.parse(NeighbourhoodsConfig, arguments, prog=PROG)
    rows = []
    for dataset in ("cora", "citeseer"):
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(dataset, config, Path(folder))
    print(
        f"\n| model | graph | GSplit, {config.trainers} trainers | PyG, full batch | paper |\n|---|---|---|---|---|"
    )
    for row in rows:
        ours, theirs = (f"{row[f'{side}_mean']:.4f} ± {row[f'{side}_stdev']:.4f}" for side in ("gsplit", "pyg"))
        print(f"| {row['model']} | {row['dataset']} | {ours} | {theirs} | {row['paper']} |")
    if config.json:
        write_json(config.json, rows)


if __name__ == "__main__":
    cli.main(command)
