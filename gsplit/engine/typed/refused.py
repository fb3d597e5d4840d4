"""What training on a graph of several types does not do: refused by its flag, before anything is begun."""

from __future__ import annotations

import logging

from gsplit.config.model import TYPED
from gsplit.config.parallel import SAMPLED
from gsplit.config.resolved import Placed, Resolved
from gsplit.config.train import TrainConfig
from gsplit.data import GraphArrays, Layout
from gsplit.errors import InputError
from gsplit.models.typed import reach_of_run

logger = logging.getLogger(__name__)

TOLD = 4
"""Names that a message has at most."""


def check_flags(config: TrainConfig, layout: Layout, *, handed_over: bool) -> None:
    """Refuse flags that a graph of several types does not go with, and models of such on a graph of one.

    Args:
        config: as asked for.
        layout: to train on.
        handed_over: whether the model is an object of the user's.

    Raises:
        InputError: by the flag, with what to do.
    """
    ours = config.model in TYPED and not handed_over
    if not layout.graph.schema.is_typed:
        if ours and config.model != "sage":
            raise InputError(
                f"--model {config.model} is for several types of vertices, and {layout.path} has one; use sage"
            )
        return
    several = f"{layout.path} has several types of vertices, or relations ({_names(layout.graph.schema.type_names)})"
    if not ours:
        name = "a model that was handed over" if handed_over else f"--model {config.model}"
        raise InputError(f"{several}, which {name} is not for; use --model rgcn")
    if config.model == "sage":
        logger.info(
            "the model sage has the same weights for all types and relations; --model rgcn has weights of each"
        )
    refused = {
        f"--strategy {config.strategy}": config.strategy not in SAMPLED,
        "--grid": config.grid is not None,
        f"--sampling {config.sampling}": config.sampling != "neighbours",
        f"--task {config.task}": config.task == "links",
        f"--cache {config.cache}": config.cache not in ("auto", "none"),
        f"--cache-size {config.cache_size}": config.cache_size is not None,
        f"--feature-dtype {config.feature_dtype}": config.feature_dtype != "stored",
        f"--loader {config.loader}": config.loader == "zero-copy",
        "--check-model": config.check_model is True,
    }
    for flag, is_given in refused.items():
        if is_given:
            raise InputError(f"{several}, which {flag} does not take yet; drop it")


def check_trained(config: Resolved, layout: Layout) -> None:
    """Refuse features that are trained where several trainers would have to load a row, or several hosts.

    Raises:
        InputError: with what to do.
    """
    if not layout.graph.schema.is_typed or config.train_features is None:
        return
    if config.hosts > 1:
        raise InputError(
            f"--train-features {config.train_features} keeps the rows of several types in one host's memory, and "
            f"there are {config.hosts} hosts; train on one, or give all types features"
        )
    if config.split_group != config.gpus:
        raise InputError(
            f"--train-features {config.train_features} gives each row to one trainer, and groups of "
            f"{config.split_group} of {config.gpus} trainers load it each for themselves; use --strategy split "
            f"--split-group {config.gpus}"
        )


def check_features(config: Placed, graph: GraphArrays, where: str) -> None:
    """Refuse types that mini-batches reach and that have no features, of the graph's or trained; and training none.

    Args:
        config: with the layers decided.
        graph: of several types.
        where: what messages call it.

    Raises:
        InputError: with their names.
    """
    reach = reach_of_run(config, graph)
    lacking = [graph.schema.types[t].name for t in reach.types[0] if graph.features_by_type[t] is None]
    drawn = set().union(*reach.relations)
    if config.edge_weights and all(graph.adjacencies[relation].edge_weight is None for relation in drawn):
        raise InputError(f"--edge-weights has no effect: in {where} no relation that is drawn has weights; drop it")
    if config.train_features is not None and not lacking:
        raise InputError(
            f"--train-features {config.train_features} has no effect: in {where} all types that mini-batches reach "
            "have features; drop it"
        )
    if lacking and config.train_features is None:
        raise InputError(
            f"{where}: vertices of type {_names(lacking)} have no features; let some be learned with "
            "--train-features 64, or import the graph with features of theirs"
        )


def _names(names: list[str]) -> str:
    return ", ".join(names[:TOLD]) + (", ..." if len(names) > TOLD else "")
