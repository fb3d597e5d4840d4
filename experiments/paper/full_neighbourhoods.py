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
from typing import Any

from experiments.baselines.pyg_full_batch import RECIPES, full_batch
from experiments.shared import real_graphs
from experiments.shared.datasets import store_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive
from experiments.shared.results import printed
from experiments.shared.rounds import scores
from gsplit import cli
from gsplit.data import open_store
from gsplit.partition import PartitionConfig, partition
from gsplit.train.api import train

PAPERS = {("gcn", "cora"): 0.815, ("gcn", "citeseer"): 0.703, ("gat", "cora"): 0.83, ("gat", "citeseer"): 0.725}


@dataclass(frozen=True, kw_only=True)
class NeighbourhoodsConfig(Flags):
    """GCN and GAT over full neighbourhoods with 4 trainers, beside the same model in full-batch PyG."""

    data: Path = field(default_factory=real_graphs.folder)
    """The folder of cora.npz and citeseer.npz."""
    trainers: Positive = 4
    """Parts of the graph."""
    seeds: Positive = 10
    """Runs of each kind."""


def rows_of(dataset: str, config: NeighbourhoodsConfig, folder: Path) -> list[dict[str, Any]]:
    """A row for each model."""
    store, layout = store_of(dataset, data=config.data, work=folder), folder / "layout"
    partition(PartitionConfig(store=store, out=layout, parts=config.trainers))
    graph = open_store(store).graph
    rows = []
    for name, recipe in RECIPES.items():
        ours, theirs = [], []
        for seed in range(config.seeds):
            run = replace(recipe, out=folder / f"{name}-{seed}", seed=seed)
            ours.append(train(layout, run)["test_accuracy"])
            theirs.append(full_batch(graph, recipe, seed))
        row = {"model": name, "dataset": dataset, "paper": PAPERS[name, dataset]}
        rows.append(printed(row | scores(ours, "gsplit_") | scores(theirs, "pyg_")))
    return rows


def measure(config: NeighbourhoodsConfig) -> list[dict[str, Any]]:
    """The rows of both graphs."""
    rows = []
    for dataset in ("cora", "citeseer"):
        with tempfile.TemporaryDirectory() as folder:
            rows += rows_of(dataset, config, Path(folder))
    return rows


command = Experiment("paper.full_neighbourhoods", NeighbourhoodsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
