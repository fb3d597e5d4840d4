"""``gsplit.train`` and ``gsplit.load``: check everything, start the trainers, wait for them."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

from gsplit.data import Layout, open_layout
from gsplit.errors import InputError
from gsplit.files import locked, replace_file
from gsplit.parallel import check_script, rendezvous, start
from gsplit.sampling import SplitGroups
from gsplit.train import checkpoint, custom, models
from gsplit.train.check import check_model
from gsplit.train.config import CONFIG, Device, TrainConfig
from gsplit.train.loading import Shared
from gsplit.train.loop import run
from gsplit.train.profiling import QUIET, sweep
from gsplit.train.strategy import decide, world_of
from gsplit.train.supply import samplers_of, supplied
from gsplit.train.trainer import Job

logger = logging.getLogger(__name__)

RESULTS_DEPEND_ON = (
    "seed", "batch_size", "fan_out", "lr", "weight_decay", "dropout", "input_dropout", "attention_dropout",
    "normalize_features", "order", "strategy", "split_group", "feature_dtype",
)  # fmt: skip


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
    config = _follow_layout(config)
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
    if model is None:
        models.warn_of_ignored(config)
    pickled_model = None if model is None else custom.pickled(model)
    threads = config.threads or max(1, len(os.sched_getaffinity(0)) // world)
    samplers = samplers_of(config, world)
    replaced = None
    if config.resume:
        config = _resume(config, opened, strategy.groups, threads, signature)
    else:
        replaced = _new_run(config)
    assert config.out is not None
    run_folder = config.out
    resolved = replace(config, layout=layout_path, threads=threads)
    shared = Shared.create(world)
    try:
        with locked(run_folder), _swept_if_empty(run_folder, replaced), rendezvous(world) as port:
            replace_file(run_folder / CONFIG, resolved.to_json().encode())
            sweep(run_folder)
            job = Job(
                config=config, layout=layout_path, run=run_folder, strategy=strategy, device_type=device_type,
                threads=threads, samplers=samplers, port=port, signature=signature,
                pickled_model=pickled_model, shared=shared, resume=config.resume is not None,
            )  # fmt: skip
            with supplied(config, opened, strategy.groups, samplers, candidate) as supply:
                with mock.patch.dict(os.environ, QUIET if config.profile else {}):
                    children = start(run, world, job, own=supply.ends)
                supply.close_ends()
                summary = children.join(supply)[0]
                if summary is None:  # the run was asked to stop, and did
                    raise KeyboardInterrupt
                return summary
    finally:
        shared.close()


def _warn_of_other_sampling(config: TrainConfig, layout: Layout) -> None:
    """Where the layout was weighted for another training, which its parts may be less even for."""
    presampled = layout.description.get("presample")
    if presampled and presampled["fan_out"] != list(config.fan_out):
        given, known = (",".join(map(str, fan_out)) for fan_out in (config.fan_out, presampled["fan_out"]))
        logger.warning(
            "%s was presampled for --fan-out %s, not %s: its parts may be less even, and other rows hotter",
            layout.path, known, given,
        )  # fmt: skip


def load(run_folder: Path | str, *, model: nn.Module | None = None) -> nn.Module:
    """The best model of a run, on the CPU and in evaluation mode.

    Args:
        run_folder: the folder that training wrote.
        model: for a run of a custom model, one of the same shape to load the weights into.

    Raises:
        InputError: where there is no model, it is damaged, or it is of another shape than ``model``.
    """
    run_folder = Path(run_folder)
    described = checkpoint.describe_state(run_folder, checkpoint.MODEL)["signature"]
    if model is None:
        if described["model"] == custom.CUSTOM:
            raise InputError(f"{run_folder} holds a custom model, {described['class']}: pass one as model=")
        model = models.build(described)
    elif described["model"] == custom.CUSTOM:
        shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
        checkpoint.check_same_model(run_folder, {"shapes": described["shapes"]}, {"shapes": shapes})
    model = model.to(getattr(torch, described["dtype"]))
    try:
        model.load_state_dict(checkpoint.load_state(run_folder, checkpoint.MODEL))
    except RuntimeError as error:
        raise InputError(
            f"the weights in {run_folder} do not fit the model {type(model).__name__}: {error}"
        ) from None
    return model.eval()


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


def _new_run(config: TrainConfig) -> Path | None:
    """Make the folder; where a run was in its place, that is moved aside, and the result says where it is now."""
    replaced = None
    if config.out is None:
        raise InputError("no --out given: name the folder for the run")
    if os.path.lexists(config.out):
        ours = config.out.is_dir() and not config.out.is_symlink()
        ours = ours and (not any(config.out.iterdir()) or (config.out / CONFIG).is_file())
        # A run that ended before it saved anything is nobody's loss.
        if not config.overwrite and not (ours and not _holds_results(config.out)):
            raise InputError(f"{config.out} exists already; choose another --out, add --overwrite, or --resume it")
        if not ours:
            raise InputError(f"{config.out} is no run, so --overwrite does not remove it")
        with locked(config.out):
            replaced = config.out.with_name(f".{config.out.name}-replaced-{os.getpid()}")
            config.out.rename(replaced)
    try:
        config.out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {config.out}: {error.strerror}") from None
    return replaced


@contextmanager
def _swept_if_empty(folder: Path, replaced: Path | None) -> Iterator[None]:
    """Remove the folder of a run that fails before it has saved anything, and put back the run that was there before.

    Only under its lock: it is ours then.
    """
    try:
        yield
    except BaseException:
        if not _holds_results(folder):
            shutil.rmtree(folder, ignore_errors=True)
            if replaced is not None:
                replaced.rename(folder)
        raise
    finally:
        if replaced is not None and replaced.exists():
            shutil.rmtree(replaced)


def _holds_results(folder: Path) -> bool:
    states = (f"{name}.json" for name in (checkpoint.CHECKPOINT, checkpoint.MODEL))
    return any((folder / name).exists() for name in (*states, "metrics.jsonl", "summary.json"))


def _follow_layout(config: TrainConfig) -> TrainConfig:
    """Where a run goes on with another layout, its number of trainers follows, unless a new one is given."""
    if config.resume is None or config.layout is None:
        return config
    before = TrainConfig.from_json(config.resume / CONFIG)
    moved = before.layout is None or config.layout.resolve() != before.layout.resolve()
    return replace(config, gpus=None) if moved and config.gpus == before.gpus else config


def _check_same_epoch(
    folder: Path, saved: dict[str, Any], before: TrainConfig, config: TrainConfig, layout: Layout, world: int
) -> None:
    """A checkpoint in mid-epoch counts mini-batches; refuse what would put other targets into the rest of them."""
    stay: dict[str, tuple[Any, Any]] = {
        "--seed": (before.seed, config.seed),
        "--batch-size": (before.batch_size, config.batch_size),
    }
    if "replicated" in (before.cache, config.cache):  # then each trainer has a share of its own, by layout
        stay["--cache"] = (before.cache, config.cache)
        stay["--gpus"] = (saved["trainers"], world)
        if saved["layout_checksum"] != layout.checksum:
            stay["LAYOUT"] = (f"{before.layout}, as it was", layout.path)
    for flag, (old, new) in stay.items():
        if old != new:
            raise InputError(f"the checkpoint in {folder} is in the middle of an epoch, so {flag} must stay {old}")


def _resume(
    config: TrainConfig, layout: Layout, groups: SplitGroups, threads: int, signature: dict[str, Any]
) -> TrainConfig:
    folder, world = config.resume, groups.trainers
    assert folder is not None
    if config.out is not None and config.out.resolve() != folder.resolve():
        raise InputError(f"--resume {folder} goes on in that folder; drop --out {config.out}")
    before = TrainConfig.from_json(folder / CONFIG)
    with locked(folder):
        saved = checkpoint.describe_state(folder, checkpoint.CHECKPOINT)
    if saved["signature"].get("model") == custom.CUSTOM and signature["model"] != custom.CUSTOM:
        raise InputError(
            f"the run in {folder} trained a custom model, {saved['signature'].get('class')}; resume it from Python, "
            "with gsplit.train(config=gsplit.TrainConfig.resuming(...), model=...)"
        )
    checkpoint.check_same_model(folder, saved["signature"], signature)
    if saved["store_checksum"] != layout.store_checksum:
        raise InputError(f"{layout.path} was made from another store than the one the run in {folder} trained on")
    checkpoint.load_state(folder, checkpoint.CHECKPOINT)  # damaged? then say so before anything starts
    effect = "sums change their order, and results their last digits"
    if groups.number > 1 and saved["trainers"] != world:
        effect = "mini-batches are cut into other micro-batches, with other samples"
    for what, before_it, now in (("trainers", saved["trainers"], world), ("threads", saved.get("threads"), threads)):
        if before_it != now:
            logger.warning("resuming with %s %s instead of %s: %s", now, what, before_it, effect)
    if before.cache != config.cache and "replicated" in (before.cache, config.cache):
        logger.warning("resuming with --cache %s instead of %s: with replicated each trainer has targets of its own",
                       config.cache, before.cache)  # fmt: skip
    if saved["batch"]:
        _check_same_epoch(folder, saved, before, config, layout, world)
    for name in RESULTS_DEPEND_ON:
        if getattr(before, name) != getattr(config, name):
            logger.warning("resuming with %s %s instead of %s", name, getattr(config, name), getattr(before, name))
    return replace(config, out=folder)
