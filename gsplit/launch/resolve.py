"""``resolve(config) -> Run``: every decision of a training run, made once, before anything is written or started."""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

import gsplit._core as _core
from gsplit.config.links import TaskName
from gsplit.config.model import MODELS, PrecisionName
from gsplit.config.optimisation import DEFAULT_METRIC, ERRORS
from gsplit.config.predict import check_what
from gsplit.config.resolved import Placed
from gsplit.config.sampling import RULES
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.device import accelerator
from gsplit.device.choice import choose_device, threads_of, trainers_of
from gsplit.device.precision import DEFAULT, Precision
from gsplit.engine.dry.room_for_step import check_step
from gsplit.engine.dry.step_bytes import StepBytes
from gsplit.engine.engines import Engine, resolved_by_engine
from gsplit.engine.evaluation import validated
from gsplit.engine.evaluation.company import check_company
from gsplit.engine.evaluation.evaluation_memory import check_evaluation
from gsplit.engine.facts import facts_of
from gsplit.engine.fastest_precision import fastest_precision
from gsplit.engine.metrics import RANKED, check_installed, is_defined
from gsplit.engine.objective import objective_for
from gsplit.engine.objectives.own_loss import LossFunction, OwnLoss, own_loss
from gsplit.engine.objectives.pairs import OwnPairLoss, PairFunction, own_pair_loss
from gsplit.engine.rows.trained import with_width
from gsplit.engine.run import Run
from gsplit.engine.sampled.edge_weights import Weighed, check_weights_of_training
from gsplit.engine.sampled.rules import check_model_of_rule
from gsplit.engine.tasks.links import (
    check_links,
    check_weighed,
    decoder_described,
    embedding_width,
    excludes_much,
    for_links,
    task_named,
)
from gsplit.engine.typed.refused import check_features, check_flags
from gsplit.engine.whole import WholeGraph
from gsplit.engine.whole.fitting import quickest
from gsplit.errors import InputError
from gsplit.files import real_path
from gsplit.host import check_memory
from gsplit.launch.effects import flags_without_effect, refuse
from gsplit.launch.in_reach import no_layout
from gsplit.launch.presampled import warn_of_other_sampling
from gsplit.models import registry
from gsplit.models.decoding import decoder_of
from gsplit.models.initial import load_initial
from gsplit.models.registry import DECODER, Described, describe
from gsplit.models.typed import own_fan_outs

logger = logging.getLogger(__name__)


def resolve(
    config: TrainConfig,
    model: nn.Module | None = None,
    loss: LossFunction | None = None,
    before: TrainConfig | None = None,
    hosts: int = 1,
) -> Run:
    """Decide and check everything that can be known before a run begins.

    Args:
        config: as asked for.
        model: that was handed over as an object; None for the one that ``config.model`` names.
        loss: that was handed over as a function; None for the one that ``config.loss`` names.
        before: what was asked for when a run that goes on last ran.
        hosts: number of hosts that the trainers are on; this one decides for all.

    Raises:
        InputError: for whatever is wrong with the input.
    """
    if config.layout is None:
        raise no_layout(config.gpus)
    out = config.resume or config.out
    if config.resume is not None and config.out is not None and real_path(config.out) != real_path(config.resume):
        raise InputError(f"--resume {out} goes on in that folder; drop --out {config.out}")
    if config.dry_run and config.strategy != "full":
        raise InputError("--dry-run shows the plans of --strategy full; add it, or drop --dry-run")
    if config.dry_run and config.check_model:
        raise InputError("--dry-run and --check-model each show something else and train nothing; drop one")
    layout = open_layout(real_path(config.layout), typed=True)
    check_flags(config, layout, handed_over=model is not None)
    typed = layout.graph.schema.is_typed
    if not typed:
        _check_features(layout, config)
    if (task := task_named(config, layout)) == "links":
        check_links(config, layout)
        if (line := excludes_much(config, layout)) is not None:
            logger.warning(line)
        layout = for_links(layout, embedding_width(config))
    else:
        _check_trainable(layout)
    _check_scores_are_known(config, task, layout)
    warn_of_other_sampling(config, layout)
    _say_rounded(config, layout)
    if config.dry_run and config.hosts_hint is not None:
        hosts = _hosts_hinted(config, layout, hosts)
    trainers = trainers_of(config.gpus, layout.parts, hosts)
    device = choose_device(config.device, trainers // hosts)
    asked = replace(
        config,
        layout=layout.path,
        out=out,
        threads=threads_of(config.threads, trainers // hosts),
        precision=_precision(config, device),
    )
    own: OwnLoss | OwnPairLoss | None
    if task == "links":
        own = own_pair_loss(config.loss, cast("PairFunction | None", loss), Precision.named(asked.precision).dtype)
        check_weighed(config, own, layout)
    else:
        own = _loss_of_labels(asked, layout, loss)
    placed, width = Placed.of(asked, trainers, device, task, hosts, typed=typed), asked.train_features
    if typed:
        check_features(placed, layout.graph, str(layout.path))
    graph = layout.graph if width is None or typed else with_width(layout.graph, width)
    described = describe(placed, graph, model)
    placed = _with_plan(_with_rows(placed, layout, described), asked, layout, described)
    engine, resolved = resolved_by_engine(placed, layout)
    facts = facts_of(resolved, "links" if task == "links" else layout.graph.task, described, own, several_types=typed)
    without_effect = tuple(flags_without_effect(asked, facts, described))
    refuse(without_effect, asked, before)
    if facts["sums_exchanged"] is not True:
        resolved = replace(resolved, exchange="rows")
    check_model_of_rule(resolved, described.estimates, described.signature)
    weighed = Weighed.of(described.signature, described.needs, described.divisors)
    check_weights_of_training(layout, resolved, weighed, described.estimates)
    run = Run(
        config=resolved,
        asked=asked,
        signature=described.signature | ({} if width is None else {"train_features": width}) | _decoder(placed),
        needs=described.needs,
        estimates=described.estimates,
        pickled_model=described.pickled_model,
        fan_out_of=own_fan_outs(resolved, layout.graph) if typed else (),
        own_loss=own,
        reads_stored_rows=described.reads_stored_rows,
        unused=described.unused,
        without_effect=without_effect,
    )
    grid = engine.grid(run)
    if grid.world != run.trainers:
        raise InputError(f"--strategy {config.strategy} lays {run.trainers} trainers out on a grid of {grid}")
    _check_company(run, layout)
    _check_scores_come(resolved, engine.num_batches(run, layout))
    # The plans of the whole graph count evaluation, too.
    if resolved.strategy != "full" and not resolved.check_model:
        check_evaluation(run, layout)
    if resolved.init_from is not None:
        _check_initial_weights(run, resolved.init_from, layout)
    if resolved.device != accelerator.HOST and not resolved.check_model and not resolved.dry_run:
        run = replace(run, step=dry_run_of(engine, run))
        check_step(run, layout)
    return run


def _hosts_hinted(config: TrainConfig, layout: Layout, hosts: int) -> int:
    """Hosts of ``--hosts-hint``, for a dry run on one host."""
    hinted = config.hosts_hint
    assert hinted is not None
    trainers = config.gpus or layout.parts
    if hosts > 1 and hinted != hosts:
        raise InputError(f"--hosts-hint {hinted}, but the trainers are on {hosts} hosts; drop it")
    if trainers % hinted:
        raise InputError(
            f"--hosts-hint {hinted} does not divide {trainers} trainers, of which each host has as many; "
            "let --gpus be a multiple of it"
        )
    return hinted


def _loss_of_labels(config: TrainConfig, layout: Layout, given: LossFunction | None) -> OwnLoss | None:
    """The loss of the user's for labels, if any; refuses a loss or metrics that do not go with the labels."""
    assert config.precision is not None
    own = own_loss(config.loss, given, layout.graph, Precision.named(config.precision).dtype)
    objective_for(config, layout.graph, own=own)
    if own is not None and own.returns == "a sum" and RULES[config.sampling].draws_targets:
        raise InputError(
            f"--sampling {config.sampling} counts each target by how often it is drawn, and the loss {own.name} "
            "gives a sum; let it return a value for each target"
        )
    check_what(config.save_predictions, layout.graph.task, "--save-predictions")
    if config.metrics is not None:
        check_installed()
    return own


def _decoder(config: Placed) -> dict[str, Any]:
    """What a signature says of the decoder, which is tried here; nothing where there is none."""
    if config.task != "links":
        return {}
    described = decoder_described(config)
    decoder_of(**described)
    return {DECODER: described}


def _precision(config: TrainConfig, device: str) -> PrecisionName:
    """The name of a run's precision: what was asked for, the default, or by ``auto`` the fastest on its device."""
    return fastest_precision(torch.device(device)) if config.precision == "auto" else config.precision or DEFAULT


def _with_rows(config: Placed, layout: Layout, described: Described) -> Placed:
    """The configuration with the type of the feature rows that a run copies, where the precision decides it."""
    if layout.graph.schema.is_typed:
        return config
    rows, features = Precision.named(config.precision).rows, layout.graph.features
    if rows != torch.bfloat16 or config.feature_dtype != "stored" or config.strategy == "full" or features is None:
        return config
    if features.dtype.itemsize <= rows.itemsize:
        return config
    cached = config.cache not in ("auto", "none") or config.cache_size is not None
    lie = described.reads_stored_rows and features.dtype == np.float32 and not config.normalize_features
    if config.device == accelerator.HOST and lie and not cached and not _core.has_tiles():
        return config  # products are in float32, of rows that are read where they lie
    try:
        check_memory(features.size * rows.itemsize)
    except MemoryError:
        return config
    return replace(config, feature_dtype="bfloat16")


def _with_plan(config: Placed, asked: TrainConfig, layout: Layout, described: Described) -> Placed:
    """The configuration with the plan of the whole graph that sends in the least time, where there are several hosts.

    On one host, and where a plan is asked for, that is the engine's to decide.
    """
    if config.strategy != "full" or config.hosts == 1 or config.algorithm != "auto" or config.grid is not None:
        return config
    resolved = WholeGraph().resolve(config, layout)
    run = Run(
        config=resolved,
        asked=asked,
        signature=described.signature,
        needs=described.needs,
        pickled_model=described.pickled_model,
    )
    if (price := quickest(run)) is None:
        return config
    logger.info("--algorithm auto takes %s, which sends in the least time over %d hosts", price.flags, config.hosts)
    return replace(config, **price.plan.fields)


def dry_run_of(engine: Engine, run: Run, *, on_host: bool = False) -> StepBytes | None:
    """Return what a training step of a run takes of a device; None where its engine or its model lets nobody know.

    Args:
        engine, run: of the training.
        on_host: with the kernels of the CPU.
    """
    measure = getattr(engine, "host_step_bytes" if on_host else "step_bytes", None)
    return None if measure is None else measure(run)


def _check_company(run: Run, layout: Layout) -> None:
    """Refuse a model of the user's whose outputs depend on which vertices are computed together."""
    if run.signature["model"] in MODELS:
        if run.config.check_model is False:
            name = run.config.model
            logger.warning("--no-check-model has no effect on the model %s, which is GSplit's own", name)
        return
    model = registry.build(run.signature) if run.pickled_model is None else pickle.loads(run.pickled_model)
    if run.config.check_model is False:
        logger.warning("--no-check-model: whether the model %s can be split was not tried", type(model).__name__)
        return
    width = run.config.train_features
    check_company(model, layout, layers=run.config.layers, precision=run.precision, width=width)


def _check_initial_weights(run: Run, source: Path, layout: Layout) -> None:
    """Refuse weights of another model, and say which are drawn afresh."""
    if run.resumes:
        raise InputError(f"--resume goes on with the weights of its checkpoint; drop --init-from {source}")
    if run.config.out is not None and real_path(run.config.out) == real_path(source):
        raise InputError(f"--init-from {source} would be replaced by --out {run.config.out}; give another --out")
    others = load_initial(run.new_model(), source, layout.graph.num_classes, run.signature)
    if others:
        logger.warning("not all is taken from %s, the rest is drawn afresh: %s", source, "; ".join(others))


def _check_scores_come(config: TrainConfig, num_batches: int) -> None:
    """Refuse what waits for scores in the middle of epochs that have none."""
    waits = config.early_stop or config.lr_schedule == "plateau"
    if waits and config.evaluate != "none" and not config.validate_every:
        every = config.validate_every_batches
        if every >= num_batches:
            raise InputError(
                f"an epoch has {num_batches} mini-batches, so --validate-every-batches {every} never validates, and "
                "--early-stop or --lr-schedule plateau waits for scores; add --validate-every 1"
            )


def _check_scores_are_known(config: TrainConfig, task: TaskName, layout: Layout) -> None:
    """Refuse what waits for scores where there will be none."""
    links, graph = layout.graph.links, layout.graph
    number, of = (
        (0 if links is None else len(links.valid), "pairs") if task == "links" else (len(graph.valid_idx), "vertices")
    )
    _, why = config.validations
    wanted = [f"--early-stop {config.early_stop}"] if config.early_stop else []
    wanted += ["--lr-schedule plateau"] if config.lr_schedule == "plateau" else []
    if wanted and not config.validates:
        raise InputError(f"{wanted[0]} goes by the scores of validations, and {why} makes none; drop one")
    if wanted and not number:
        raise InputError(f"{wanted[0]} goes by the scores of validations, and {layout.path} has no validation {of}")
    if task == "links":
        return
    first = (config.metric_names or (DEFAULT_METRIC[graph.task],))[0]
    if not config.validates or not len(graph.valid_idx) or first not in (*RANKED, *ERRORS):
        return
    valid_idx = validated(layout, config.validate_vertices, config.seed)
    if is_defined(first, graph.labels[valid_idx], graph.num_classes):
        return
    if len(valid_idx) < len(graph.valid_idx):
        raise InputError(
            f"{first}, by which the best model is chosen, is not defined on the {len(valid_idx)} vertices of "
            "--validate-vertices; take more"
        )
    if first in ERRORS:
        raise InputError(f"of the validation vertices of {layout.path} no label is known; use --validate-every 0")
    raise InputError(
        f"{first}, by which --metrics chooses the best model, is not defined on the validation vertices of "
        f"{layout.path}, which are all alike; let another one come first"
    )


def _check_features(layout: Layout, config: TrainConfig) -> None:
    if layout.graph.num_features or (config.train_features is not None and config.strategy == "full"):
        return
    what = "import the graph with --features"
    if task_named(config, layout) == "vertices":
        what += ", or learn some with --strategy full --train-features 64"
    raise InputError(f"{layout.path} has no features, so there is nothing to train on; {what}")


def _check_trainable(layout: Layout) -> None:
    if len(layout.graph.train_idx) == 0:
        raise InputError(
            f"{layout.path} has an empty training set; import the graph with --split 0.6,0.2,0.2, --split-file "
            "FILE or --train FILE, and partition it again"
        )


def _say_rounded(config: TrainConfig, layout: Layout) -> None:
    """Say where features are loaded in less than they are stored in."""
    features = [rows for rows in layout.graph.features_by_type if rows is not None and rows.dtype.name == "float64"]
    if not features or config.precision == "64" or config.train_features:
        return
    logger.info(
        "%s has float64 features, and the model computes in --precision %s: rows are rounded when they are loaded; "
        "--precision 64 takes them as they are",
        layout.path,
        config.precision or "32",
    )
