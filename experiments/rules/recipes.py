"""What all ways to train on a graph have alike, the flags of each of ours, and how many epochs it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LAYERS = 2
PARTS = 64
"""Parts of the layouts, so that there are clusters to choose from; four trainers have sixteen each."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What all ways to train on a graph have alike: one model, one rate, as many steps."""

    flags: dict[str, Any]
    """Of the model and its training."""
    steps: int
    """Steps of the optimizer."""
    batch_size: int
    """Targets of a mini-batch of those who choose targets."""
    fan_out: tuple[int, ...]
    """Of neighbours."""
    sources: int
    """Sources of a layer of LADIES and FastGCN."""
    sets: int
    """Sets that an epoch of subgraphs is cut into."""


SMALL = Recipe(
    flags={
        "hidden": 64,
        "dropout": 0.5,
        "input_dropout": 0.5,
        "weight_decay": 5e-4,
        "lr": 0.01,
        "normalize_features": True,
    },
    steps=100,
    batch_size=140,
    fan_out=(10, 10),
    sources=256,
    sets=2,
)
RECIPES = {
    "cora": SMALL,
    "citeseer": SMALL,
    "coauthor_cs": Recipe(
        flags={"hidden": 64, "dropout": 0.5, "weight_decay": 1e-4, "lr": 0.003},
        steps=96,
        batch_size=2048,
        fan_out=(10, 10),
        sources=2048,
        sets=4,
    ),
    "amazon_computers": Recipe(
        flags={"hidden": 128, "dropout": 0.2, "lr": 0.001},
        steps=480,
        batch_size=512,
        fan_out=(15, 10),
        sources=2048,
        sets=4,
    ),
}
"""Those of experiments.paper.accuracy, which were found for neighbour sampling; all ways are trained by them."""


def settings(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The flags of each rule."""
    targets = {"batch_size": recipe.batch_size}
    layerwise = {"layer_sizes": (recipe.sources,) * LAYERS, **targets}
    subgraphs = {"num_layers": LAYERS, "subgraph": f"{100 / recipe.sets:g}%"}
    return {
        "neighbours": {"fan_out": recipe.fan_out, **targets},
        "ladies": {"sampling": "ladies", **layerwise},
        "ladies, norms": {"sampling": "ladies", "importance": "norms", **layerwise},
        "fastgcn": {"sampling": "fastgcn", **layerwise},
        "uniform, ratio": {"sampling": "uniform", **subgraphs},
        "uniform, unbiased": {"sampling": "uniform", "estimate": "unbiased", **subgraphs},
        "uniform, fresh": {"sampling": "uniform", "estimate": "unbiased", "fresh": True, **subgraphs},
        "saint": {"sampling": "saint", **subgraphs},
        "clusters": {"num_layers": LAYERS, "sampling": "clusters", "clusters": PARTS // recipe.sets},
        "whole graph": {"strategy": "full", "num_layers": LAYERS},
    }


def epochs_of(name: str, recipe: Recipe, targets: int) -> int:
    """Epochs that make about the steps of a recipe."""
    way = name.removeprefix("pyg, ").removeprefix("dgl, ")
    if way == "whole graph":
        return recipe.steps
    whole_sets = way.startswith("uniform") or way in ("saint", "clusters")
    return max(1, round(recipe.steps / (recipe.sets if whole_sets else -(-targets // recipe.batch_size))))
