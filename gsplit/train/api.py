"""``gsplit.train`` and ``gsplit.load``: check everything, start the trainers, wait for them."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

from gsplit.config.parallel import Device
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.engine.loading import Shared
from gsplit.engine.samplers import samplers_of, supplied
from gsplit.engine.strategy import decide, world_of
from gsplit.errors import InputError
from gsplit.files import replace_file
from gsplit.host import ending_tidily
from gsplit.models import custom
from gsplit.models import registry as models
from gsplit.parallel import rendezvous
from gsplit.processes import check_script, start
from gsplit.runs import checkpoint
from gsplit.runs.folder import CONFIG, new_run, resumed_run
from gsplit.train.check import check_model
from gsplit.train.loop import run
from gsplit.train.profiling import QUIET, sweep
from gsplit.train.resume import check_resumable, finished, follow_layout, warn_of_changes
from gsplit.train.trainer import Job

logger = logging.getLogger(__name__)


def train(
    layout: Path | str | None = None, config: TrainConfig | None = None, *, model: nn.Module | None = None
) -> dict[str, Any]:
    """Train on a layout with one process per part; returns the summary (docs/formats.md, "Run").

    With ``config.check_model`` nothing is trained: the result is ``{"check": ...}``, a line that says how well two
    trainers agree with one.

    Processes are spawned, so a script that calls this needs ``if __name__ == "__main__":``.

    Args:
        layout: the folder; by default ``config.layout``.
        config: the run; ``out`` must be set. To resume, :meth:`TrainConfig.resuming`.
        model: written for PyG or DGL (docs/bring_your_own_model.md), or a module with ``forward(blocks, x)``, from
            features of the inputs [n_0, D] to logits of the targets [n_L, C], that calls ``block.exchange(x)`` once
            per layer. With ``forward_layer(l, block, x)`` and ``level_widths`` it is evaluated level by level. By
            default the model that ``config.model`` names.

    Raises:
        InputError: for whatever is wrong with the input; nothing is left of a run that saved nothing.
        gsplit.parallel.ProcessDied: where a trainer fails; no process is left then.
        KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM; what was trained is in a checkpoint.
    """
    check_script("gsplit.train")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and "LOCAL_RANK" in os.environ:
        raise InputError(
            "torchrun is not needed: gsplit starts its trainers itself, one a part of the layout; run python -m "
            "gsplit.train LAYOUT"
        )
    config = config or TrainConfig()
    if layout is not None:
        config = replace(config, layout=Path(layout))
    config = follow_layout(config)
    if config.layout is None:
        raise InputError("no layout given: name the folder that python -m gsplit.partition wrote")
    layout_path = config.layout.resolve()
    opened = open_layout(layout_path)
    _check_trainable(opened)
    _warn_of_other_sampling(config, opened)
    world = world_of(config, opened)
    device_type = choose_device(config.device, world)
    strategy = decide(config, opened, device_type)
    signature = models.signature(config, opened.graph, model)
    candidate = models.build(signature) if model is None else model
    custom.check(candidate, config.layers, opened.graph)
    if "arguments" in signature:
        logger.info("the model is %s(%s)", type(candidate).__name__, custom.shown(signature["arguments"]))
    if config.check_model:
        return {"check": check_model(opened, config, candidate)}
    unused = models.unused_settings(config, model)
    models.warn_of_unused(config, unused, model)
    threads = config.threads or max(1, len(os.sched_getaffinity(0)) // world)
    samplers = samplers_of(config, world)
    pickled_model = None if model is None else custom.pickled(model)
    folder = resumed_run(config.resume) if config.resume else new_run(config.out, overwrite=config.overwrite)
    with ending_tidily(), ExitStack() as held:
        run_folder = held.enter_context(folder)
        if config.resume:
            check_resumable(config, opened, world, signature)
            if (summary := finished(run_folder, config.epochs)) is not None:
                if config.save_predictions != "no" and not (run_folder / "predictions.npy").exists():
                    logger.warning("--save-predictions has no effect; python -m gsplit.predict writes predictions")
                return summary
            warn_of_changes(config, strategy.groups, threads)
            config = replace(config, out=run_folder)
        resolved = replace(config, layout=layout_path, threads=threads)
        replace_file(run_folder / CONFIG, resolved.to_json(unused).encode())
        sweep(run_folder)
        shared = held.enter_context(closing(Shared.create(world)))
        job = Job(
            config=config,
            layout=layout_path,
            run=run_folder,
            strategy=strategy,
            device_type=device_type,
            threads=threads,
            samplers=samplers,
            port=held.enter_context(rendezvous(world)),
            signature=signature,
            pickled_model=pickled_model,
            shared=shared,
            resume=config.resume is not None,
            unused=tuple(unused),
        )
        supply = held.enter_context(supplied(config, opened, strategy.groups, samplers, candidate))
        with mock.patch.dict(os.environ, QUIET if config.profile else {}):
            children = start(run, world, job, own=supply.ends)
            held.callback(children.end)  # before the folder is given back, whatever comes
        supply.close_ends()
        summary = children.join(supply)[0]
        if summary is None:  # the run was asked to stop, and did
            assert children.stopped_by is not None
            raise children.stopped_by
        return summary


def _warn_of_other_sampling(config: TrainConfig, layout: Layout) -> None:
    """Where the layout was weighted for another training, which its parts may be less even for."""
    presampled = layout.description.get("presample")
    if presampled and presampled["fan_out"] != list(config.fan_out):
        given, known = (",".join(map(str, fan_out)) for fan_out in (config.fan_out, presampled["fan_out"]))
        logger.warning(
            "%s was presampled for --fan-out %s, not %s: its parts may be less even, and other rows hotter",
            layout.path,
            known,
            given,
        )


def load(run_folder: Path | str, *, model: nn.Module | None = None) -> nn.Module:
    """The best model of a run, on the CPU and in evaluation mode.

    Args:
        run_folder: the folder that training wrote.
        model: for a run of a custom model, one of the same shape to load the weights into.

    Raises:
        InputError: where there is no model, it is damaged, or it is of another shape than ``model``.
    """
    return load_described(Path(run_folder), model)[0]


def load_described(run_folder: Path, model: nn.Module | None) -> tuple[nn.Module, dict[str, Any]]:
    """The model of :func:`load`, and the description that its weights were saved with; raises what that does."""
    about, weights = checkpoint.read_state(run_folder, checkpoint.MODEL)
    described = about["signature"]
    if model is None:
        if described["model"] == custom.CUSTOM:
            raise InputError(f"{run_folder} holds a custom model, {described['class']}: pass one as model=")
        model = models.build(described)
    elif described["model"] == custom.CUSTOM:
        shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
        checkpoint.check_same_model(run_folder, {"shapes": described["shapes"]}, {"shapes": shapes})
    model = model.to(getattr(torch, described["dtype"]))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(
            f"the weights in {run_folder} do not fit the model {type(model).__name__}: {error}"
        ) from None
    return model.eval(), about


def _check_trainable(layout: Layout) -> None:
    if layout.graph.num_features == 0:
        raise InputError(f"{layout.path} has no features, so there is nothing to train on")
    if len(layout.graph.train_idx) == 0:
        raise InputError(f"{layout.path} has an empty training set")


def choose_device(device: Device, world: int) -> str:
    """``cpu`` or ``cuda``, for that many trainers.

    Raises:
        InputError: where there are too few GPUs.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and count == 0):
        return "cpu"
    if count == 0:
        raise InputError("--device cuda, but PyTorch finds no GPU; use --device cpu")
    if count < world and os.environ.get("GSPLIT_SHARE_GPU") != "1":
        raise InputError(
            f"{world} trainers need {world} GPUs and there {'is' if count == 1 else 'are'} {count}; "
            f"make a layout with --parts {max(1, count)}, or use --device cpu"
        )
    return "cuda"
