"""What happens at the end of an epoch, at the end of a run, and where a run is asked to stop."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsplit.config.parallel import SAMPLED
from gsplit.engine.evaluation import Stopped
from gsplit.engine.metrics import key_of
from gsplit.files import replacing
from gsplit.runs import checkpoint
from gsplit.runs.folder import PREDICTIONS
from gsplit.runs.kept import Weights
from gsplit.runs.log import finite, totals, write_summary
from gsplit.terminal import say
from gsplit.train.loops.finite import check_epoch, first_parameter
from gsplit.train.saving import save_checkpoint, write_counts
from gsplit.train.trainer import Trainer

logger = logging.getLogger(__name__)


def end_epoch(trainer: Trainer, outputs: list[tuple[Tensor, Tensor]]) -> None:
    """Validate, keep the best model, log, checkpoint; then the next epoch begins. All trainers make the call.

    Args:
        trainer: that has come to the end.
        outputs: logits and labels of the mini-batches of the epoch, where --metrics measures them; none afterwards.
    """
    progress, run = trainer.progress, trainer.run
    config = run.config
    epoch = progress.epoch + 1
    every, _ = config.validations
    due = every and (epoch % every == 0 or epoch == config.epochs)
    rate = trainer.steps.rates.last_of(progress.epoch)
    measured = _measured_in_training(trainer, outputs)
    outputs.clear()  # or they would take memory while others are computed
    scores = _validate(trainer, epoch) if due else dict.fromkeys(trainer.evaluator.names)
    write_counts(trainer)
    record = {
        "kind": "epoch",
        "epoch": epoch,
        **_layout_of_work(trainer),
        "settings": run.settings,
        "lr": rate,
        "loss": finite(progress.mean_loss()),
        **{f"train_{key_of(name)}": value for name, value in measured.items()},
        **{f"valid_{key_of(name)}": value for name, value in scores.items()},
        "seconds": round(progress.seconds, 4),
        "stages": {name: round(s / run.trainers, 4) for name, s in progress.stages.items()},
        "traffic": progress.traffic,
    }
    if trainer.member.rank == 0:
        trainer.log.append([record])
        say(_line(record, key_of(trainer.evaluator.names[0])))
        if not progress.targets:
            logger.warning("no mini-batch of epoch %d had a training vertex, so nothing was learned", epoch)
        elif record["loss"] is None and config.stop_on_nan == "never":
            logger.warning("the loss is not finite any more, so no checkpoint is written; try a lower --lr")
    check_epoch(trainer)
    progress.next_epoch()
    if config.checkpoint_every and progress.epoch % config.checkpoint_every == 0:
        save_checkpoint(trainer)
    for callback in trainer.callbacks:  # what they make of it, the epoch is saved
        callback.on_epoch_end(record)


def ended_early(trainer: Trainer) -> bool:
    """Whether --early-stop says that no epoch is to come, which trainer 0 tells."""
    config, kept = trainer.run.config, trainer.kept
    if trainer.progress.batch or not kept.waited >= config.early_stop > 0:
        return False
    if trainer.member.rank == 0:
        best = "a finite score"
        if kept.best is not None:
            best = f"a better score than the {kept.best['score']:.4f} of epoch {kept.best['epoch']}"
        say(
            f"ended early, after epoch {trainer.progress.epoch}: {kept.waited} validations without {best} "
            f"(--early-stop {config.early_stop})"
        )
    return True


def finish(trainer: Trainer) -> dict[str, Any] | None:
    """Test the weights that are kept, and write the summary; trainer 0 returns it. All trainers make the call.

    None on all of them where the run was asked to stop meanwhile; when it goes on it is tested.
    """
    trainer.profiler.end()
    last = trainer.kept.copied(trainer.model) if trainer.progress.batches_since_checkpoint else None
    try:
        return _finished(trainer)
    except Stopped:
        if last is not None:  # the weights that are tested stand in their place
            trainer.kept.load(trainer.model, last)
            stop(trainer)
        elif trainer.member.rank == 0:
            _say_stopped(trainer)
        return None


def _finished(trainer: Trainer) -> dict[str, Any] | None:
    config, epoch = trainer.run.config, trainer.progress.epoch
    _, why = config.validations
    if config.validates and trainer.kept.validated < epoch:  # the run was to end later, then
        _validate(trainer, epoch)
    finite_weights = first_parameter(trainer) is None
    kept = trainer.kept.choose(trainer.model, epoch, finite=finite_weights)
    graph, names = trainer.layout.graph, trainer.evaluator.names
    if not finite_weights:
        if trainer.member.rank == 0:
            logger.warning("the weights of epoch %d are not finite; those of epoch %d are kept", epoch, kept["epoch"])
    elif len(graph.valid_idx):
        trainer.kept.say_why_last(kept, why)
    start_s = time.perf_counter()
    tests = config.evaluate != "none" and len(graph.test_idx)
    test = trainer.evaluator.scores(trainer.model, graph.test_idx) if tests else dict.fromkeys(names)
    test_s = time.perf_counter() - start_s
    if config.save_predictions != "no":
        _save_predictions(trainer)
    if trainer.member.rank != 0:
        return None
    records, now = trainer.log.epochs, _layout_of_work(trainer)
    seconds = [record["seconds"] for record in records]
    summary = {
        **{f"test_{key_of(name)}": test[name] for name in names},
        **_valid_scores(trainer, kept),
        "metrics": [key_of(name) for name in names],
        "best_epoch": None if kept["score"] is None else kept["epoch"],
        "model_epoch": kept["epoch"],
        "model_batch": kept.get("batch"),
        "epochs": epoch,
        "ended_early": epoch < config.epochs,
        "loss": records[-1]["loss"] if records else None,
        "seconds_per_epoch": sum(seconds) / len(seconds) if seconds else None,
        "test_seconds": round(test_s, 4),
        **now,
        "cache_rows": trainer.loading.cache_rows,
        "changed": any(record.get(key, value) != value for record in records for key, value in now.items()),
        "samplers": trainer.run.samplers,
        "stages": totals(records, "stages"),
        "traffic": totals(records, "traffic"),
        "run": str(trainer.run.folder),
    }
    write_summary(trainer.run.folder, summary)
    for callback in trainer.callbacks:
        callback.on_train_end(summary)
    return summary


def stop(trainer: Trainer) -> None:
    """Save where the run was asked to stop. All trainers make the call."""
    trainer.profiler.end()
    saved = save_checkpoint(trainer)
    if trainer.member.rank == 0:
        _say_stopped(trainer, saved=saved)


def _say_stopped(trainer: Trainer, *, saved: bool = True) -> None:
    progress, folder = trainer.progress, trainer.run.folder
    at = f"mini-batch {progress.batch} of epoch {progress.epoch + 1}" if progress.batch else f"epoch {progress.epoch}"
    if saved:
        say(f"stopped after {at}; go on with --resume {folder}")
    else:
        before = checkpoint.whole(folder, "go on from it with --resume")
        say(f"stopped after {at}, where weights or loss are not finite; {before}")


def validate_within(trainer: Trainer) -> None:
    """Validate in the middle of an epoch, keep the best model, log. All trainers make the call."""
    progress = trainer.progress
    epoch, batch = progress.epoch + 1, progress.batch
    scores = _validate(trainer, epoch, batch)
    if trainer.member.rank == 0:
        valid = {f"valid_{key_of(name)}": value for name, value in scores.items()}
        step = progress.epoch * trainer.num_batches + batch
        record = {"kind": "validation", "epoch": epoch, "batch": batch, "step": step, **valid}
        trainer.log.append([record])
        for callback in trainer.callbacks:
            callback.on_validation_end(record)
        first = scores[trainer.evaluator.names[0]]
        if first is not None:
            say(f"Epoch {epoch:02d} [{batch}/{trainer.num_batches}] | valid {first:.4f}")


def _validate(trainer: Trainer, epoch: int, batch: int | None = None) -> dict[str, float | None]:
    """The scores of the weights as they are, which are kept where the first is the best; None without vertices.

    Args:
        trainer: of whom all make the call.
        epoch: that has ended, from 1; or that is at work,
        batch: so many mini-batches into it.
    """
    names = trainer.evaluator.names
    if not len(trainer.valid_idx):
        return dict.fromkeys(names)
    # Weights that are infinite may give finite logits, behind a ReLU or a division by a variance.
    scores: dict[str, float | None] = dict.fromkeys(names)
    if first_parameter(trainer) is None:
        scores = trainer.evaluator.scores(trainer.model, trainer.valid_idx)
    score = scores[names[0]]  # None only where logits or weights are not finite, or the run would have been refused
    trainer.kept.judge(trainer.model, epoch, scores, batch=batch)
    trainer.steps.rates.judge(score)
    return scores


def _measured_in_training(trainer: Trainer, outputs: list[tuple[Tensor, Tensor]]) -> dict[str, float | None]:
    """The metrics of the model's outputs for the epoch's targets; None where the run went on in its middle."""
    if trainer.run.config.metrics is None:
        return {}
    if len(outputs) < trainer.num_batches:
        return dict.fromkeys(trainer.evaluator.names)
    return trainer.evaluator.scores_of(outputs)


def _valid_scores(trainer: Trainer, kept: Weights) -> dict[str, float | None]:
    """The scores of the model that is kept, on trainer 0; checkpoints of earlier releases have the first alone."""
    first, *others = trainer.evaluator.names
    scores = kept.get("scores")
    if scores is None:
        records = (record for record in trainer.log.epochs if record["epoch"] == kept["epoch"])
        of_epoch = next(records, {})
        scores = {name: of_epoch.get(f"valid_{key_of(name)}") for name in others}
    valid = {first: kept["score"], **{name: scores.get(name) for name in others}}
    return {f"valid_{key_of(name)}": value for name, value in valid.items()}


def _layout_of_work(trainer: Trainer) -> dict[str, Any]:
    """What decides how much is loaded and computed; a run that was resumed may have changed it."""
    strategy, name = trainer.run.strategy, trainer.run.config.strategy
    return {
        "trainers": trainer.run.trainers,
        "strategy": "split" if name in SAMPLED and strategy.micro_batches == 1 else name,
        "split_group": strategy.splits,
        "cache": strategy.cache,
        "rows_cached": sum(trainer.loading.cache_rows),
    }


def _save_predictions(trainer: Trainer) -> None:
    logits = trainer.evaluator.all_logits(trainer.model)
    if logits is None:
        return
    said = trainer.run.config.save_predictions != "logits"
    values = trainer.objective.predict(torch.from_numpy(logits)).numpy() if said else logits
    if bad := int((~np.isfinite(logits).all(axis=1)).sum()):
        logger.warning("%s of %d vertices have logits that are not finite", f"{PREDICTIONS}: {bad}", len(logits))
    with replacing(trainer.run.folder / PREDICTIONS) as temporary, temporary.open("wb") as file:
        np.save(file, values, allow_pickle=False)  # given a name, it would add a suffix to it


def _line(record: dict[str, Any], metric: str) -> str:
    seconds = record["seconds"]
    loss = "nan" if record["loss"] is None else f"{record['loss']:.4f}"
    scores = {part: record.get(f"{part}_{metric}") for part in ("train", "valid")}
    said = "".join(f" | {part} {score:.4f}" for part, score in scores.items() if score is not None)
    edges = record["traffic"]["sampled_edges"] or record["traffic"]["computed_edges"]  # of the whole graph
    rate = edges / max(seconds, 1e-9) / 1e6
    learning = "" if record["settings"]["lr"] == record["lr"] else f" | lr {record['lr']:.3g}"
    return f"Epoch {record['epoch']:02d} | loss {loss}{said}{learning} | {seconds:.2f} s | {rate:.2f} M edges/s"
