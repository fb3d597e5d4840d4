"""AUC and AP of links on real graphs, beside the same encoder and decoder in plain PyG on the same splits.

python -m experiments.links.accuracy [--datasets cora,...] [--models gcn,sage] [--seeds 5] [--quick] [--json FILE]

85 % of the pairs are trained on, 5 % validate, 10 % test; a split for each seed. Two layers over full neighbourhoods,
dot products, bce, one negative for each pair; one recipe for all graphs. Test pairs are compared with as many random
pairs that are no edges (as Kipf and Welling, 2016, do), and ranked among all vertices that are not known to belong to
the source, at the epoch that is best in validation. Both train for as many steps of as many pairs, without the edges
that a step asks for, from the same initial weights; mini-batches and negatives are each one's own. Our weights are
also put into PyG's layers, on the whole graph: scikit-learn measures what these give, and ranks are theirs.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.baselines.pyg_links import Scored, edges_of, layers_of, rows_of, train_links, vectors
from experiments.shared import real_graphs
from experiments.shared.datasets import dealt_layout
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, names_of
from experiments.shared.in_process import trained_here
from experiments.shared.results import printed
from experiments.shared.rounds import scores, standard_error
from gsplit import cli
from gsplit.config.train import TrainConfig
from gsplit.data import GraphArrays, open_store, write_store
from gsplit.data.__main__ import command as data
from gsplit.sampling.plan import num_batches

COMMON = TrainConfig(
    task="links",
    fan_out=(-1, -1),
    batch_size=360,
    epoch_pairs=7200,
    negatives="uniform:1",
    score="dot",
    loss="bce",
    metrics="auroc,ap",
    evaluate_negatives="given",
    hidden=64,
    embedding=32,
    lr=0.02,
    dropout=0.0,
    epochs=15,
    normalize_features=True,
    checkpoint_every=0,
    samplers=0,
    gpus=1,
    device="cpu",
    threads=1,
)
DATASETS = ("cora", "citeseer", "coauthor_cs")
COLUMNS = {"coauthor_cs": 256}
"""Columns of features that are kept, those that most vertices have, where all of them would take too long."""
MODELS = ("gcn", "sage")
METRICS = ("auroc", "ap", "mrr", "hits")


@dataclass(frozen=True, kw_only=True)
class AccuracyConfig(Flags):
    """AUC and AP of links beside PyG's."""

    datasets: Annotated[tuple[str, ...], names_of(DATASETS, "dataset")] = DATASETS
    """Real graphs: cora, citeseer, coauthor_cs."""
    models: Annotated[tuple[str, ...], names_of(MODELS, "model")] = MODELS
    """Encoders: gcn, sage."""
    seeds: Positive = 5
    """Splits, and a run of each."""
    quick: bool = False
    """Train for four steps: whether all works; figures say nothing."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""


def measure(config: AccuracyConfig) -> dict[str, Any]:
    """The rows of all cells."""
    cells = []
    for dataset in config.datasets:
        with tempfile.TemporaryDirectory() as temporary:
            stores = [split_store(dataset, seed, config.data, Path(temporary)) for seed in range(config.seeds)]
            for model in config.models:
                cells += cell(dataset, model, stores, config)
    return {"cells": cells}


def cell(dataset: str, model: str, stores: Sequence[Path], config: AccuracyConfig) -> list[dict[str, Any]]:
    """The rows of an encoder on a graph, one for each metric."""
    asked = replace(COMMON, model=model)
    if config.quick:
        asked = replace(asked, epochs=2, epoch_pairs=2 * asked.batch_size)
    graphs = [open_store(store).graph for store in stores]
    layouts = [dealt_layout(store, store.parent, 1, 0) for store in stores]
    runs = [tested(replace(asked, layout=layout, seed=seed), graphs[seed]) for seed, layout in enumerate(layouts)]
    theirs = [train_links(graph, asked, seed) for seed, graph in enumerate(graphs)]
    steps = asked.epochs * num_batches(asked.epoch_pairs or graphs[0].num_edges, asked.batch_size)
    about: dict[str, Any] = {"dataset": dataset, "model": model, "seeds": config.seeds, "steps": steps}
    rows = []
    for name in METRICS:
        own, again, pyg = (
            [getattr(each, name) for each in side]
            for side in ([run[0] for run in runs], [run[1] for run in runs], theirs)
        )
        points = [100 * (a - b) for a, b in zip(own, pyg, strict=True)]
        row = {"metric": name} | scores(own, "ours_") | scores(pyg, "pyg_") | {"points": mean(points)}
        row["error"] = standard_error(points)
        row["again_difference"] = max(abs(a - b) for a, b in zip(own, again, strict=True))
        rows.append(printed(about | row))
    return rows


def tested(config: TrainConfig, graph: GraphArrays) -> tuple[Scored, Scored]:
    """Test figures of a run with one trainer, in this process, and those of its weights in PyG's layers."""
    model, summary = trained_here(config)
    assert isinstance(model.convs, torch.nn.ModuleList)
    with torch.no_grad():
        z = vectors(layers_of(model.convs), rows_of(graph), edges_of(graph))
    again = Scored.of(z, graph)
    return replace(again, auroc=summary["test_auroc"], ap=summary["test_ap"]), again


def split_store(dataset: str, seed: int, folder: Path, work: Path) -> Path:
    """The store of a real graph with its pairs split by a seed, and what they are compared with."""
    imported, store = work / f"{seed}" / "imported", work / f"{seed}" / "store"
    source = str(real_graphs.path(folder, dataset))
    with redirect_stdout(io.StringIO()):
        data(["import", source, "--out", str(imported), "--edge-split", "0.85,0.05,0.1", "--seed", str(seed)])
    graph = open_store(imported).graph
    assert graph.links is not None
    valid, test = np.split(no_edges(graph, seed), [len(graph.links.valid)])
    features = np.asarray(graph.features)
    if dataset in COLUMNS:
        features = features[:, np.sort(np.argsort(-(features != 0).sum(axis=0), kind="stable")[: COLUMNS[dataset]])]
    links = replace(graph.links, valid_negatives=valid, test_negatives=test)
    write_store(store, replace(graph, features=features, links=links), name=dataset, source=source)
    return store


def no_edges(graph: GraphArrays, seed: int) -> NDArray[np.int64]:
    """As many random pairs of vertices as there are validation and test pairs, none of which is an edge of either."""
    assert graph.links is not None
    n, held_out = graph.num_vertices, np.concatenate([graph.links.valid, graph.links.test])
    known = np.concatenate([edges_of(graph).numpy().T, held_out])
    keys = np.concatenate([known[:, 0] * n + known[:, 1], known[:, 1] * n + known[:, 0]])
    drawn = np.random.default_rng(seed).integers(0, n, (3 * len(held_out), 2))
    fine = (drawn[:, 0] != drawn[:, 1]) & ~np.isin(drawn[:, 0] * n + drawn[:, 1], keys)
    return drawn[fine][: len(held_out)]


command = Experiment("links.accuracy", AccuracyConfig, measure)

if __name__ == "__main__":
    cli.main(command)
