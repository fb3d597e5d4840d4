"""Facts of a run that no field of its configuration holds, and that decide which fields have an effect."""

from __future__ import annotations

from typing import Any, Literal

from gsplit.config.model import MODELS
from gsplit.config.resolved import Resolved
from gsplit.config.rules import Not, given
from gsplit.data.graph import Task
from gsplit.engine.objectives.own_loss import OwnLoss, is_built_in
from gsplit.engine.objectives.pairs import OwnPairLoss
from gsplit.models.registry import Described

Facts = dict[str, Any]
ON_SUBGRAPHS = ("auto", "3d", "rotate")
"""Algorithms of grids of subgraphs."""


def facts_of(
    config: Resolved,
    task: Task | Literal["links"],
    described: Described,
    own_loss: OwnLoss | OwnPairLoss | None,
    *,
    several_types: bool = False,
) -> Facts:
    """Return what the rules of fields go by: the values that were decided, and facts that no field holds.

    Args:
        config: as decided.
        task: of the graph, or links.
        described: the model.
        own_loss: a loss of the user's, if any.
        several_types: whether the graph has several types, or several relations.
    """
    return {
        **vars(config),
        "model": config.model if described.signature["model"] in MODELS else f"a user's: {described.name}",
        "task": task,
        "several_types": several_types or Not("where vertices are of one type"),
        "built_in_loss": is_built_in(own_loss),
        "layers_known": described.layers_known or Not(f"on the model {described.name}, whose layers are its own"),
        "features_trained": several_types or config.strategy == "full" or Not(f"with --strategy {config.strategy}"),
        "features_read": several_types
        or config.train_features is None
        or Not(f"with --train-features {config.train_features}"),
        "sampler_processes": config.samplers > 0 or Not("with --samplers 0"),
        "splits": _splits(config),
        "laid_out": _laid_out(config),
        "features_dealt": _features_dealt(config),
        "rows_exchanged": _rows_exchanged(config),
        "sums_exchanged": Not("on a graph of several types") if several_types else _sums_exchanged(config, described),
        "validation": config.validates or Not("where nothing is validated"),
    }


def _splits(config: Resolved) -> bool | Not:
    """Return whether samplers draw mini-batches and split them, and trainers exchange what splits lack."""
    on_grid = config.strategy == "split" and config.grid is not None
    return not on_grid or Not(f"with {given('grid', config.grid)}: each trainer cuts its block, and rows move by it")


def _laid_out(config: Resolved) -> bool | Not:
    """Return whether the algorithm says how sums are laid over trainers: of the whole graph, or of subgraphs."""
    if config.strategy == "split" and config.grid is None:
        return Not("with --strategy split without --grid, only with that and with full")
    of_subgraphs = config.strategy == "split" and config.algorithm not in ON_SUBGRAPHS
    return not of_subgraphs or Not(f"on subgraphs: grids of --strategy split are {' or '.join(ON_SUBGRAPHS[1:])}")


def _features_dealt(config: Resolved) -> bool | Not:
    """Return whether several trainers have columns of the same rows each, and so sum over the same edges."""
    one = config.grid is not None and config.grid[2] == 1
    return not one or Not(f"with {given('grid', config.grid)}: one trainer alone sums over an edge")


def _rows_exchanged(config: Resolved) -> bool | Not:
    """Return whether trainers send each other rows of hidden values, or of their sums."""
    if config.strategy == "full":
        return config.algorithm != "shared" or Not("with --algorithm shared, which reads rows where they lie")
    return config.split_group > 1 or Not("where no rows are exchanged")


def _sums_exchanged(config: Resolved, described: Described) -> bool | Not:
    """Return whether trainers may send each other sums in the place of rows."""
    if isinstance(splits := _splits(config), Not):
        return splits
    if config.strategy == "full" and config.algorithm != "1d-sparse":
        return Not(f"with --algorithm {config.algorithm}; on the whole graph 1d-sparse sends sums")
    if config.sampling not in ("neighbours", "clusters"):
        return Not(f"with --sampling {config.sampling}: sums have no scales")
    if not described.takes_sums:
        return Not(f"on the model {described.name}, which needs the rows of all sources")
    return config.split_group > 1 or Not("where no rows are exchanged")
