"""``resolve(config) -> Run``: every decision of a training run, made once, before anything is written or started."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from torch import nn

from gsplit.config.sampling import SamplingConfig
from gsplit.config.train import RESULTS_DEPEND_ON, TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.engine.engines import engine_of
from gsplit.engine.run import Run
from gsplit.engine.strategy import trainers_of
from gsplit.errors import InputError
from gsplit.models import custom, registry
from gsplit.parallel.devices import choose_device, threads_of

logger = logging.getLogger(__name__)


def resolve(config: TrainConfig, model: nn.Module | None = None) -> Run:
    """Decide and check everything that can be known before a run begins.

    Args:
        config: as asked for.
        model: that was handed over as an object; None for the one that ``config.model`` names.

    Raises:
        InputError: for whatever is wrong with the input.
    """
    if config.layout is None:
        raise InputError("no layout given: name the folder that python -m gsplit.partition wrote")
    folder = config.resume or config.out or Path()
    if config.resume is not None and config.out is not None and config.out.resolve() != folder.resolve():
        raise InputError(f"--resume {folder} goes on in that folder; drop --out {config.out}")
    asked, layout = config, open_layout(config.layout.resolve())
    _check_trainable(layout)
    _warn_of_other_sampling(config, layout)
    trainers = trainers_of(config, layout)
    config = replace(
        config,
        layout=layout.path,
        out=folder,
        num_layers=config.layers,
        gpus=trainers,
        device=choose_device(config.device, trainers),
        threads=threads_of(config.threads, trainers),
    )
    engine = engine_of(config.strategy)
    config = _decided(engine.resolve(config, layout), config.strategy)
    signature = registry.signature(config, layout.graph, model)
    candidate = registry.build(signature) if model is None else model
    custom.check(candidate, config.layers, layout.graph)
    if "arguments" in signature:
        logger.info("the model is %s(%s)", type(candidate).__name__, custom.shown(signature["arguments"]))
    unused = tuple(registry.unused_settings(config, model))
    run = Run(
        config=config,
        folder=folder,
        signature=signature,
        needs=registry.needs(custom.prepare(custom.copied(candidate))),
        pickled_model=None if model is None else custom.pickled(model),
        unused=unused,
        settings={name: None if name in unused else getattr(asked, name) for name in RESULTS_DEPEND_ON},
    )
    grid = engine.grid(run)
    if grid.world != run.trainers:
        raise InputError(f"--strategy {config.strategy} lays {run.trainers} trainers out on a grid of {grid}")
    return run


def _decided(config: TrainConfig, strategy: str) -> TrainConfig:
    """What an engine decided, which may be a user's: whether that is all that a run needs.

    Args:
        config: that the engine gave.
        strategy: names the engine in messages.
    """
    if not isinstance(config, TrainConfig):
        raise InputError(f"--strategy {strategy}: its resolve gives {config!r}, not a TrainConfig")
    open_ones = [name for name in ("gpus", "split_group", "samplers") if getattr(config, name) is None]
    open_ones += ["cache"] * (config.cache == "auto")
    if open_ones:
        raise InputError(f"--strategy {strategy}: its resolve leaves {', '.join(open_ones)} open")
    assert config.gpus is not None
    assert config.split_group is not None
    if config.gpus % config.split_group:
        raise InputError(
            f"--strategy {strategy}: its resolve makes groups of {config.split_group}, which do not divide "
            f"{config.gpus} trainers"
        )
    return config


def _check_trainable(layout: Layout) -> None:
    if layout.graph.num_features == 0:
        raise InputError(f"{layout.path} has no features, so there is nothing to train on")
    if len(layout.graph.train_idx) == 0:
        raise InputError(f"{layout.path} has an empty training set")


def _warn_of_other_sampling(config: SamplingConfig, layout: Layout) -> None:
    """Say where the layout was weighted for another training, which its parts may be less even for."""
    presampled = layout.description.get("presample")
    if presampled and presampled["fan_out"] != list(config.fan_out):
        given, known = (",".join(map(str, fan_out)) for fan_out in (config.fan_out, presampled["fan_out"]))
        logger.warning(
            "%s was presampled for --fan-out %s, not %s: its parts may be less even, and other rows hotter",
            layout.path,
            known,
            given,
        )
