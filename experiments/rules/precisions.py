"""Test accuracies in mixed precision beside float32's: the same seeds, splits and mini-batches, over models and ways.

python -m experiments.rules.precisions [--datasets cora,...] [--models sage,...] [--ways neighbours,...] [--seeds 5]
    [--precision bf16-mixed] [--quick] [--json FILE]

One trainer, in this process. Accuracies are of the epoch that is best in validation. ``--json`` writes ``cells``:
``dataset``, ``model``, ``way``, ``mean``, ``stdev`` and ``scores`` of each side, as ``float32_mean``, ``mixed_mean``;
and ``points``, the mean of mixed minus float32 over the ``pairs`` of one seed, in percentage points, with its
standard ``error``; and ``groups``, the same of all pairs, and of those of each way and of each model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

from experiments.rules.recipes import RECIPES, SMALL, epochs_of, settings
from experiments.shared import real_graphs
from experiments.shared.datasets import dealt_layout, store_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, names_of
from experiments.shared.in_process import trained_here
from experiments.shared.results import printed
from experiments.shared.rounds import scores, standard_error
from gsplit import cli
from gsplit.config.model import PrecisionName
from gsplit.config.train import TrainConfig
from gsplit.data import open_layout

SPARSE = {name: value for name, value in SMALL.flags.items() if name != "input_dropout"}
DENSE = {"hidden": 64, "dropout": 0.5, "weight_decay": 1e-4, "lr": 0.01}
GRAPHS = {
    "cora": replace(SMALL, flags=SPARSE),
    "citeseer": replace(SMALL, flags=SPARSE),
    "amazon_computers": replace(RECIPES["amazon_computers"], flags=DENSE | {"norm": "batch"}, steps=120),
    "coauthor_cs": replace(RECIPES["coauthor_cs"], flags=DENSE, steps=20, fan_out=(5, 5)),
}
"""Recipes as those of :mod:`experiments.rules.recipes`, with higher rates and fewer steps where steps take long."""
MODELS: dict[str, dict[str, Any]] = {"sage": {}, "gcn": {}, "gat": {"heads": 8}}
WAYS = {"neighbours": "neighbours", "uniform": "uniform, ratio", "whole-graph": "whole graph"}
"""Names of :func:`experiments.rules.recipes.settings`."""
VALIDATIONS = 10
"""Times that a run looks at its validation accuracy, at most."""


@dataclass(frozen=True, kw_only=True)
class PrecisionsConfig(Flags):
    """Test accuracies in mixed precision beside float32's."""

    datasets: Annotated[tuple[str, ...], names_of(GRAPHS, "dataset")] = tuple(GRAPHS)
    """Real graphs: cora, citeseer, coauthor_cs, amazon_computers."""
    models: Annotated[tuple[str, ...], names_of(MODELS, "model")] = tuple(MODELS)
    """Models: sage, gcn, gat."""
    ways: Annotated[tuple[str, ...], names_of(WAYS, "way")] = tuple(WAYS)
    """Ways to train: neighbours, uniform (subgraphs), whole-graph."""
    precision: PrecisionName = "bf16-mixed"
    """What is held against float32."""
    seeds: Positive = 5
    """Pairs of runs of each."""
    quick: bool = False
    """Train for two epochs: whether all works; figures say nothing."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""


def measure(config: PrecisionsConfig) -> dict[str, Any]:
    """The rows of all cells, and what all of them come to."""
    cells = []
    for dataset in config.datasets:
        with tempfile.TemporaryDirectory() as temporary:
            work = Path(temporary)
            layout = dealt_layout(store_of(dataset, data=config.data, work=work), work, 1, 0)
            cells += [
                printed(cell(layout, dataset, model, way, config)) for way in config.ways for model in config.models
            ]
    names = ["all", *config.ways, *config.models]
    groups = {name: [row for row in cells if name in ("all", row["way"], row["model"])] for name in names}
    return {"cells": cells, "groups": [{"group": name, **points(rows)} for name, rows in groups.items()]}


def cell(layout: Path, dataset: str, model: str, way: str, config: PrecisionsConfig) -> dict[str, Any]:
    """The row of a model on a graph, trained in a way, in both precisions."""
    recipe = GRAPHS[dataset]
    targets = len(open_layout(layout).graph.train_idx)
    epochs = 2 if config.quick else epochs_of(WAYS[way], recipe, targets)
    more: dict[str, Any] = {} if way == "whole-graph" else {"samplers": 0}
    asked = TrainConfig(
        layout=layout,
        model=model,
        epochs=epochs,
        validate_every=-(-epochs // VALIDATIONS),
        checkpoint_every=0,
        lr_schedule="cosine",  # ends at 0: the last epochs move little, and two runs differ by less
        gpus=1,
        device="cpu",
        threads=1,
        **more,
        **recipe.flags,
        **MODELS[model],
        **settings(recipe)[WAYS[way]],
    )

    def found(precision: PrecisionName) -> list[float]:
        return [tested(replace(asked, seed=seed, precision=precision)) for seed in range(config.seeds)]

    both = scores(found("32"), "float32_") | scores(found(config.precision), "mixed_")
    return {"dataset": dataset, "model": model, "way": way, **both, **points([both])}


def tested(config: TrainConfig) -> float:
    """Test accuracy of a run with one trainer, which lives in this process."""
    accuracy: float = trained_here(config)[1]["test_accuracy"]
    return accuracy


def points(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of mixed minus float32 over the pairs of some cells, in percentage points, and its standard error."""
    both = [zip(row["mixed_scores"], row["float32_scores"], strict=True) for row in rows]
    differences = [100 * (mixed - plain) for pairs in both for mixed, plain in pairs]
    return {"pairs": len(differences), "points": mean(differences), "error": standard_error(differences)}


command = Experiment("rules.precisions", PrecisionsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
