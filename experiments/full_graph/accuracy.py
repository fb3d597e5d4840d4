"""``--accuracy``: test accuracy of whole-graph training beside the same model in full-batch PyG, over seeds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.baselines.pyg_full_batch import RECIPES, full_batch
from experiments.shared.datasets import dealt_layout, store_of
from experiments.shared.results import printed
from experiments.shared.rounds import scores
from gsplit.config.train import TrainConfig
from gsplit.data import open_store
from gsplit.train.api import train

CASES = (
    ("gcn", "cora"),
    ("gat", "cora"),
    ("gcn", "citeseer"),
    ("gat", "citeseer"),
    ("gcn", "coauthor_cs"),
    ("gcn", "amazon_computers"),
)


def measure(
    data: Path, *, strategy: str, trainers: int, seeds: int, epochs: int | None = None, cases: int = len(CASES)
) -> dict[str, Any]:
    """The table of ``--accuracy``: ``models``, a row for each case.

    Args:
        data: the folder of the real graphs.
        strategy: of ours: ``full``, or ``split``, where the whole graph is one mini-batch of all training vertices.
        trainers: of ours.
        seeds: runs of each side.
        epochs: of every run; None: those of the recipes.
        cases: how many of ``CASES``, from the first on.
    """
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for model, dataset in CASES[:cases]:
            recipe = recipe_of(model, strategy, epochs)
            store = store_of(dataset, data=data, work=work)
            layout = dealt_layout(store, work, trainers, 0)
            graph = open_store(store).graph
            ours, theirs = [], []
            for seed in range(seeds):
                ours.append(tested(layout, replace(recipe, seed=seed), work / model / dataset))
                theirs.append(full_batch(graph, recipe, seed))
            rows.append(printed(row_of(model, dataset, ours, theirs)))
    return {"models": rows, "settings": [{"strategy": strategy, "trainers": trainers, "seeds": seeds}]}


def recipe_of(model: str, strategy: str, epochs: int | None) -> TrainConfig:
    """The recipe of a model for a strategy; the size of mini-batches is said only where there are any."""
    recipe = replace(RECIPES[model], strategy=strategy)
    if strategy == "full":
        recipe = replace(recipe, batch_size=TrainConfig.batch_size)
    return recipe if epochs is None else replace(recipe, epochs=epochs)


def tested(layout: Path, config: TrainConfig, folder: Path) -> float:
    """Test accuracy of one run of ours at the epoch that is best in validation."""
    accuracy: float = train(layout, replace(config, out=folder / str(config.seed)))["test_accuracy"]
    return accuracy


def row_of(model: str, dataset: str, ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Means and standard deviations of both sides, and their difference in standard deviations of PyG's."""
    row = {"model": model, "dataset": dataset, **scores(ours, "gsplit_"), **scores(theirs, "pyg_")}
    spread = row["pyg_stdev"]
    return row | {"apart": (row["gsplit_mean"] - row["pyg_mean"]) / spread if spread else None}
